"""Microsoft's TextWorld: `textworld:KIND[,setting=value...]` with games that are made as they are needed, such as
`textworld:tw-coin_collector,level=5` or `textworld:tw-cooking,recipe=2,take=1,go=6`, or `textworld:FILE[,FILE...]` with games that are
there (.z8 or .ulx with their .json).

A game is made once, in some seconds, and kept in `games=FOLDER`, or else in the user's cache. Its score is the game's points; a
step's reward is the part of all points that it gains.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import textworld
from textworld.challenges import CHALLENGES

from ..world import View, World
from .arguments import split

COUNTS = {"train": 10_000, "dev": 1_000, "test": 1_000}


class TextWorld(World):
    rules = "Play the text adventure. Answer with one command."
    reuse = True
    global_random = True

    def __init__(self, arguments: str = "") -> None:
        plain, settings = split(arguments)
        self.world = f"textworld {version('textworld')}"
        self.look = bool(settings.pop("look", True))
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flow-env" / "textworld"
        self.folder = Path(str(settings.pop("games", cache)))
        self.kind = ""
        self.files: Dict[str, Path] = {}
        if plain and plain[0] in CHALLENGES:
            self.kind = plain[0]
            parser = argparse.ArgumentParser(exit_on_error=False)
            CHALLENGES[self.kind][2](parser)
            options = [f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}") for key, value in settings.items() if value is not False]
            self.settings = vars(parser.parse_args([*plain[1:], *options]))
        elif plain and all(Path(name).is_file() for name in plain):
            self.files = {Path(name).stem: Path(name) for name in plain}
        else:
            raise ValueError(f"textworld:KIND names one of {', '.join(CHALLENGES)}, or files of games; `{arguments}` is neither")
        infos = {"feedback", "description", "inventory", "admissible_commands", "policy_commands", "won", "lost", "score", "max_score",
                  "objective", "last_command"}
        self.infos = textworld.EnvInfos(**{name: True for name in infos})
        self.env: Any = None

    def tasks(self, split: str) -> Any:
        if self.files:
            return list(self.files) if split == "train" else 0
        return COUNTS.get(split, 0)

    def reset(self, task: Any, seed: int) -> View:
        path = self.files[task] if self.files else self.made(int(task))
        self.close()
        self.env = textworld.start(str(path), self.infos)
        state = self.env.reset()
        self.before = 0.0
        view = self.show(state, "")
        view.instruction = str(state.get("objective") or "") or None
        view.type = self.kind or path.stem[:64]
        return view

    def made(self, number: int) -> Path:
        """The game of this number: made, or from the folder."""
        about = json.dumps([self.kind, self.settings, number, version("textworld")], sort_keys=True)
        name = f"{self.kind}-{hashlib.sha256(about.encode()).hexdigest()[:16]}"
        path = self.folder / f"{name}.z8"
        if not path.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                options = textworld.GameOptions()
                options.seeds = number
                options.path = os.path.join(folder, name + ".z8")
                options.file_ext = ".z8"
                game = CHALLENGES[self.kind][1](settings=dict(self.settings), options=options)
                textworld.generator.compile_game(game, options)
                # The game last: who finds it finds what belongs to it.
                for file in sorted(Path(folder).iterdir(), key=lambda file: file.suffix == ".z8"):
                    shutil.move(str(file), self.folder / file.name)
        return path

    def step(self, action: str) -> View:
        state, _, done = self.env.step(typed(action))
        view = self.show(state, action)
        view.done = bool(done or state["won"] or state["lost"])
        view.won = bool(state["won"])
        return view

    def show(self, state: Any, action: str) -> View:
        feedback = tidy(str(state.get("feedback") or ""))
        look, inventory = tidy(str(state.get("description") or "")), tidy(str(state.get("inventory") or ""))
        self.listed: List[str] = sorted(state.get("admissible_commands") or [])
        self.policy: Optional[Sequence[str]] = state.get("policy_commands")
        score, most = float(state.get("score") or 0), float(state.get("max_score") or 1)
        reward, self.before = (score - self.before) / most, score
        if self.look:
            feedback = "\n".join([part for part in (feedback, look, inventory) if part and (part is feedback or part not in feedback)])
        return View(feedback or look or "Nothing happens.", reward=reward, state=f"{look}\n{inventory}", score=score,
                    valid=not action or not REFUSED.intersection(feedback.split("\n")[:1]))

    def actions(self) -> Sequence[str]:
        return self.listed

    def expert(self) -> Optional[str]:
        """The next command of TextWorld's own winning policy, which it knows wherever the game can still be won."""
        return self.policy[0] if self.policy else None

    def close(self) -> None:
        if self.env is not None:
            self.env.close()
            self.env = None


REFUSED = {
    "That's not a verb I recognise.", "That's not something you need to refer to in the course of this game.", "You can't see any such thing.",
    "I beg your pardon?", "I didn't understand that sentence.", "That noun did not make sense in this context.",
}
"""What the games say to commands that they don't understand."""


def typed(action: str) -> str:
    """A command as one could type it: the interpreter hangs on control characters and has a short line."""
    return "".join(letter if " " <= letter <= "~" else " " for letter in action)[:200].strip() or "wait"


def tidy(text: str) -> str:
    """A game's text without its title picture and prompt."""
    lines = [line.rstrip() for line in text.split("\n")]
    lines = [line for line in lines if line.strip() and not set(line.strip()) <= set("$_\\/|>-= .") and "$" not in line]
    return "\n".join(lines).strip()


WORLD = TextWorld
