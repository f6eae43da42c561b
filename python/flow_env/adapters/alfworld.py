"""ALFWorld's engine with regenerated scenes: `alfworld[:KIND,KIND...]`, all six kinds of task unless some are named.

The engine, its texts, its kinds of task and its hand-coded expert are the package's; the scenes are made here (see
`alfworld_scenes`), because the official games can't be had: results aren't those of the published benchmark. As there, `train` and
`dev` are in rooms seen in training, `test` in others. A step's reward is 1 where the task is done.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, List, Optional, Sequence

import alfworld
import alfworld.gen.constants as constants
from alfworld.agents.expert import HandCodedAgentTimeout, HandCodedTWAgent

from ..world import View, World
from . import alfworld_scenes as scenes
from .alfworld_engine import NOTHING, Engine
from .arguments import split

COUNTS = {"train": 2_000, "dev": 100, "test": 100}
"""Tasks of each kind."""
DATA = Path(alfworld.__file__).parent / "data"


class AlfWorld(World):
    rules = "Do the task in a room. Answer with one command, such as: go to desk 1"
    global_random = True
    reuse = True

    def __init__(self, arguments: str = "") -> None:
        plain, settings = split(arguments)
        unknown = [kind for kind in plain if kind not in scenes.TYPES]
        if unknown or settings:
            raise ValueError(f"alfworld has no {(unknown or list(settings))[0]!r}; its kinds of task are {', '.join(scenes.TYPES)}")
        self.kinds = plain or list(scenes.TYPES)
        self.world = f"alfworld {version('alfworld')} engine, regenerated scenes"
        self.folder = Path(tempfile.mkdtemp(prefix="flow-env-alfworld-"))
        self.engine = Engine((DATA / "alfred.pddl").read_text(), (DATA / "alfred.twl2").read_text())
        self.advised = False

    def tasks(self, split: str) -> Sequence[str]:
        return [f"{kind}/{number}" for number in range(COUNTS.get(split, 0)) for kind in self.kinds]

    def reset(self, task: Any, seed: int) -> View:
        self.scene = scene(self.split, str(task))
        self.played: List[str] = []
        self.agent: Any = None
        self.plan: Optional[str] = None
        self.engine.load(self.scene.problem, self.scene.sentence)
        self.engine.reset()
        view = self.show()
        text, _, instruction = view.observation.partition("Your task is to:")
        view.observation = text.replace("-= Welcome to TextWorld, ALFRED! =-", "").strip()
        view.instruction, view.type = "Your task is to:" + instruction.rstrip(), str(task).rpartition("/")[0]
        if self.advised:
            self.advise()
        return view

    def step(self, action: str) -> View:
        command = re.sub(r"[^ -~]", " ", action)[:200].strip()
        self.engine.step(command)
        self.played.append(command)
        if self.agent is not None:
            self.plan = self.planned(command)
        view = self.show()
        view.won = view.done = self.engine.won
        view.reward = float(view.won)
        view.valid = view.observation != NOTHING
        return view

    def show(self) -> View:
        facts = (fact.text for fact in self.engine.facts.ordered if not fact.text.startswith(("new-axiom", "checked")))
        return View(self.engine.feedback.strip() or NOTHING, state="\n".join(facts))

    def actions(self) -> Sequence[str]:
        return sorted(self.engine.operators())

    def expert(self) -> Optional[str]:
        """What the package's hand-coded expert does; it has seen what was done before it was asked."""
        if self.agent is None:
            self.advised = True
            self.engine.reset()
            self.advise()
            for command in self.played:
                self.engine.step(command)
                self.plan = self.planned(command)
        return self.plan

    def advise(self) -> None:
        """Has the expert look at the task, of which it reads in a file, and at how it begins."""
        (self.folder / "traj_data.json").write_text(json.dumps(self.scene.about))
        self.agent = HandCodedTWAgent(max_steps=200)
        self.agent.reset(str(self.folder / "game.tw-pddl"))
        # It reads every fact and command in each state, and strips the numbers letter by letter: done once for each, the result is the same.
        self.agent.policy.get_facts = lambda state: state["phrases"]
        self.agent.policy.remove_num_ids = without_numbers
        self.agent.observe(self.engine.feedback)
        self.plan = "look"

    def planned(self, command: str) -> Optional[str]:
        """The package's expert names an action that can't be done now and then; the package then looks around, and so does this.
        It goes by the first fact that fits, so the facts are in order: the package keeps them in a set, in another order in each process.
        It gives up after 200 steps."""
        commands = self.actions()
        state = {"feedback": self.engine.feedback, "admissible_commands": commands, "phrases": [fact.phrase for fact in self.engine.facts.ordered]}
        try:
            action = self.agent.act(state, 0, self.engine.won, command)
        except HandCodedAgentTimeout:
            return None
        return str(action) if action in commands else "look"

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def scene(split: str, task: str) -> scenes.Scene:
    """The scene of a task."""
    kind, _, number = task.rpartition("/")
    rooms = constants.TEST_SCENE_NUMBERS if split == "test" else constants.TRAIN_SCENE_NUMBERS
    offset = COUNTS["train"] if split == "dev" else 0
    return scenes.make(kind, [room for room in rooms if room_of(room) in constants.GOALS_VALID[kind]], int(number) + offset)


def room_of(number: int) -> str:
    return next(str(name) for name, numbers in constants.SCENE_TYPE.items() if number in numbers)


@lru_cache(maxsize=1 << 16)
def without_numbers(text: str) -> str:
    """As the expert strips numbers."""
    return " ".join("".join(letter for letter in text if not letter.isdigit()).split())


WORLD = AlfWorld
