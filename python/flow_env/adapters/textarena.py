"""TextArena's games for one player: `textarena:ID`, such as `textarena:FrozenLake-v0`.

The game's prompt is the task's text, its messages and its board are the observation; the reward comes at the end, as the game says.
Brackets around an action are added where they are missing. Games that need NLTK's word lists (Wordle, Hangman, WordSearch) run only
where those lists are.
"""

from __future__ import annotations

import copy
import itertools
import random
from importlib.metadata import version
from typing import Any, Callable, Dict, List, Sequence

import textarena

from ..world import View, World
from .arguments import split

TASKS = {"train": 1_000_000, "test": 10_000}

Lister = Callable[[Any], Sequence[str]]
MOVES: Lister = lambda env: ["[up]", "[down]", "[left]", "[right]"]
LISTS: Dict[str, Lister] = {
    "FrozenLakeEnv": MOVES,
    "Game2048Env": MOVES,
    "FifteenPuzzleEnv": MOVES,
    "SokobanEnv": MOVES,
    "GuessTheNumberEnv": lambda env: [f"[{n}]" for n in range(env.min_number, env.max_number + 1)],
    "MastermindEnv": lambda env: [
        "[" + " ".join(map(str, code)) + "]"
        for code in (itertools.product if env.duplicate_numbers else itertools.permutations)(
            range(1, env.num_numbers + 1), **{"repeat" if env.duplicate_numbers else "r": env.code_length})
        if list(code) not in [past["guess"] for past in env.state.game_state["history"]]
    ] if env.num_numbers**env.code_length <= 10_000 else [],
    "MinesweeperEnv": lambda env: [f"[{row} {col}]" for row in range(env.rows) for col in range(env.cols)],
    "LightsOutEnv": lambda env: [f"[{row} {col}]" for row in range(env.size) for col in range(env.size)],
    "TowerOfHanoiEnv": lambda env: [f"[{a} {b}]" for a, b in itertools.permutations("ABC", 2)],
    "BanditEnv": lambda env: [f"[{button}]" for button in env.buttons],
    "BlackjackEnv": lambda env: ["[Hit]", "[Stand]"],
    "ThreeCardMonteEnv": lambda env: [f"[{cup}]" for cup in range(env.num_cups)],
    "SecretaryEnv": lambda env: ["[accept]", "[continue]"],
}
"""What may be said in games whose actions are few."""
TRIED = 128
"""Longer lists aren't tried, since each action is on a copy of the game: they are given whole."""


class TextArena(World):
    splits = ("train", "test")
    global_random = True
    score = (-1.0, 1.0)

    def __init__(self, arguments: str = "") -> None:
        plain, settings = split(arguments)
        if len(plain) != 1 or settings:
            raise ValueError(f"textarena:ID names one game, not `{arguments}`")
        self.world = f"textarena {version('textarena')}"
        self.name = plain[0]
        self.env = textarena.make(self.name + "-raw")
        inner = self.env
        while hasattr(inner, "env"):
            inner = inner.env
        self.inner = inner
        lister = LISTS.get(type(inner).__name__)
        self.lister = lister
        if lister is None:
            self.lacks = frozenset({"actions"})  # type: ignore[misc]

    def tasks(self, split: str) -> int:
        return TASKS.get(split, 0)

    def reset(self, task: Any, seed: int) -> View:
        # Games draw from the global generator, which is seeded by task and seed, or from one that they seed by this number.
        self.env.reset(num_players=1, seed=random.getrandbits(31))
        self.board = ""
        prompt, text = self.heard()
        view = View(text or prompt, type=self.name)
        if text:
            view.instruction = prompt
        return view

    def heard(self) -> List[str]:
        """The prompt and the rest of what the game has said since it was last heard. Of several boards the last one counts."""
        prompt, rest, board = [], [], ""
        for _, text, kind in self.env.get_observation()[1]:
            kind = getattr(kind, "name", str(kind))
            if kind == "PROMPT":
                prompt.append(text.strip())
            elif kind == "GAME_BOARD":
                board = text.strip("\n")
            elif kind != "PLAYER_ACTION":
                rest.append(text.strip())
        self.board = board or self.board
        return ["\n".join(prompt), "\n".join(part for part in [*rest, self.board] if part)]

    def step(self, action: str) -> View:
        bracketed = action if "[" in action else f"[{action.strip()}]"
        done, _ = self.env.step(bracketed)
        _, text = self.heard()
        if not done:
            return View(text or "Go on.", valid="You attempted an invalid move" not in text)
        rewards, game_info = self.env.close()
        reward = float((rewards or {}).get(0, 0.0))
        reason = str(game_info[0].get("reason") or "") if game_info else ""
        invalid = bool(game_info and game_info[0].get("invalid_move"))
        return View("\n".join(part for part in (text, reason) if part) or "The game is over.", reward=reward, done=True,
                    won=reward >= 1.0, score=reward, valid=not invalid)

    def actions(self) -> Sequence[str]:
        """Those of the game's few actions that it accepts now, each tried on a copy of the game."""
        listed = self.lister(self.inner) if self.lister else []
        before = random.getstate()
        try:
            return [action for action in listed if self.accepted(action)] if len(listed) <= TRIED else listed
        finally:
            random.setstate(before)

    def accepted(self, action: str) -> bool:
        trial = copy.deepcopy(self.inner)
        trial.get_observation()
        done, _ = trial.step(action)
        game_info = trial.close()[1] if done else {}
        texts = [str(message[1]) for message in trial.get_observation()[1]]
        return not (game_info and game_info[0].get("invalid_move")) and not any("You attempted an invalid move" in text for text in texts)


WORLD = TextArena
