"""What a game is: one task, played by text."""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional

SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space as Unicode has it; `str.strip` takes four control characters more."""
GAP = re.compile(f"[{SPACE}]+")


class Unmade(Exception):
    """A seed that makes no task: what was looked for, and how many times."""


class Seen(NamedTuple):
    """What is seen after a reset or a step."""

    observation: str
    state: int
    reward: float
    done: bool
    won: bool
    valid: bool
    actions: List[str]
    score: float
    info: Dict[str, float]


class Game:
    """A task being played. Facts that hold for all of an episode: its instruction, its kind, its right answer."""

    instruction = ""
    kind = ""
    gold = ""

    def reset(self) -> Seen:
        raise NotImplementedError

    def step(self, action: str) -> Seen:
        raise NotImplementedError

    def expert(self) -> Optional[str]:
        raise NotImplementedError

    def board(self) -> int:
        """Hash of all that the seed decides and a player can tell apart by playing."""
        raise NotImplementedError
