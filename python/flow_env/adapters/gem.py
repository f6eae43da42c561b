"""GEM's environments: `gem:ID`, such as `gem:game:GuessTheNumber-v0-easy` or `gem:rg:chain_sum`.

Answers stand in \\boxed{...}, as GEM's prompts say. The admissible actions are a sample of what GEM's own sampler draws, where it
has one; environments that load a data set from a hub can't be played without it.
"""

from __future__ import annotations

import hashlib
import random
from importlib.metadata import version
from typing import Any, Dict, List, Sequence

import gem
import gem.core

from ..world import View, World
from .arguments import split

TASKS = {"train": 1_000_000, "test": 10_000}
SAMPLES = 64


class Gem(World):
    splits = ("train", "test")
    global_random = True
    reuse = True

    def __init__(self, arguments: str = "") -> None:
        plain, settings = split(arguments)
        if len(plain) != 1:
            raise ValueError(f"gem:ID names one environment, not `{arguments}`")
        self.name = plain[0]
        self.world = f"gem-llm {version('gem-llm')}"
        self.env = gem.make(self.name, **settings)
        if type(self.env.unwrapped).sample_random_action is gem.core.Env.sample_random_action:
            self.lacks = frozenset({"actions"})  # type: ignore[misc]

    def tasks(self, split: str) -> int:
        return TASKS.get(split, 0)

    def reset(self, task: Any, seed: int) -> View:
        number = int.from_bytes(hashlib.sha256(f"{task} {seed}".encode()).digest()[:4], "big") >> 1
        observation, info = self.env.reset(seed=number)
        return View(as_text(observation, info), type=self.name)

    def step(self, action: str) -> View:
        observation, reward, terminated, truncated, info = self.env.step(action)
        done = bool(terminated or truncated)
        return View(as_text(observation, info), reward=float(reward), done=done, truncated=bool(truncated and not terminated),
                    won=done and float(reward) >= 1.0)

    def actions(self) -> Sequence[str]:
        before = random.getstate()
        try:
            return sorted({boxed(str(self.env.sample_random_action())) for _ in range(SAMPLES)})
        finally:
            random.setstate(before)


def boxed(action: str) -> str:
    """An action as GEM's games read it: the sampler of FifteenPuzzle leaves the box out.

    >>> boxed("up")
    '\\\\boxed{up}'
    """
    return action if "\\boxed" in action else f"\\boxed{{{action}}}"


def as_text(observation: Any, info: Dict[str, Any]) -> str:
    """An observation with the sentence that GEM puts after it."""
    parts: List[str] = [str(observation).strip(), str(info.get("suffix") or "").strip()]
    return "\n".join(part for part in parts if part) or "The game is over."


WORLD = Gem
