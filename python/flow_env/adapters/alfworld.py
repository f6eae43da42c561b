"""ALFWorld's engine with regenerated scenes: `alfworld[:KIND,KIND...]`, all six kinds of task unless some are named.

The engine, its texts, its kinds of task and its hand-coded expert are the package's; the scenes are made here (see
`alfworld_scenes`), because the official games can't be had: results aren't those of the published benchmark. As there, `train` and
`dev` are in rooms seen in training, `test` in others. A step's reward is 1 where the task is done.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import alfworld
import alfworld.gen.constants as constants
import textworld
from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
from alfworld.agents.expert import HandCodedAgentTimeout, HandCodedTWAgent
from textworld.envs import PddlEnv

from ..world import View, World
from . import alfworld_scenes as scenes
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
        self.logic = {"pddl_domain": (DATA / "alfred.pddl").read_text(), "grammar": (DATA / "alfred.twl2").read_text()}
        self.env: Any = AlfredDemangler(PddlEnv(textworld.EnvInfos(
            feedback=True, admissible_commands=True, won=True, facts=True, description=True, inventory=True)), shuffle=False)
        self.advised = False

    def tasks(self, split: str) -> Sequence[str]:
        return [f"{kind}/{number}" for number in range(COUNTS.get(split, 0)) for kind in self.kinds]

    def reset(self, task: Any, seed: int) -> View:
        kind = str(task).rpartition("/")[0]
        self.file = game(self.folder, self.logic, self.split, str(task))
        self.played: List[str] = []
        self.agent: Any = None
        self.plan: Optional[str] = None
        self.env.load(str(self.file))
        view = self.show(self.env.reset())
        text, _, instruction = view.observation.partition("Your task is to:")
        view.observation = text.replace("-= Welcome to TextWorld, ALFRED! =-", "").strip()
        view.instruction, view.type = "Your task is to:" + instruction.rstrip(), kind
        if self.advised:
            self.advise()
        return view

    def step(self, action: str) -> View:
        command = re.sub(r"[^ -~]", " ", action)[:200].strip()
        state, _, done = self.env.step(command)
        self.played.append(command)
        view = self.show(state)
        if self.agent is not None:
            self.plan = self.planned(command)
        view.won = bool(state["won"])
        view.done = bool(done) or view.won
        view.reward = float(view.won)
        view.valid = view.observation != "Nothing happens."
        return view

    def keep(self, state: Any) -> None:
        """Notes where the game stands, its facts in order: the package keeps them in a set, in another order in each process, and its
        expert goes by the first that fits."""
        state["facts"] = sorted(state["facts"], key=str)
        self.state = state

    def show(self, state: Any) -> View:
        self.keep(state)
        facts = (str(fact) for fact in state["facts"] if not fact.name.startswith(("new-axiom", "checked")))
        return View(str(state["feedback"]).strip() or "Nothing happens.", state="\n".join(facts))

    def actions(self) -> Sequence[str]:
        return sorted(set(self.state["admissible_commands"]))

    def expert(self) -> Optional[str]:
        """What the package's hand-coded expert does; it has seen what was done before it was asked."""
        if self.agent is None:
            self.advised = True
            played, self.played = self.played, []
            self.keep(self.env.reset())
            self.advise()
            for command in played:
                self.keep(self.env.step(command)[0])
                self.plan = self.planned(command)
            self.played = played
        return self.plan

    def advise(self) -> None:
        self.agent = HandCodedTWAgent(max_steps=200)
        self.agent.reset(str(self.file))
        self.agent.observe(self.state["feedback"])
        self.plan = "look"

    def planned(self, command: str) -> Optional[str]:
        """The package's expert names an action that can't be done now and then; the package then looks around, and so does this.
        It gives up after 200 steps."""
        try:
            action = self.agent.act(self.state, 0, self.state["won"], command)
        except HandCodedAgentTimeout:
            return None
        return str(action) if action in self.state["admissible_commands"] else "look"

    def close(self) -> None:
        self.env.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def game(folder: Path, logic: Dict[str, str], split: str, task: str) -> Path:
    """Writes the game of a task, with the domain and the grammar in `logic`, and what the expert is told beside it."""
    kind, _, number = task.rpartition("/")
    rooms = constants.TEST_SCENE_NUMBERS if split == "test" else constants.TRAIN_SCENE_NUMBERS
    offset = COUNTS["train"] if split == "dev" else 0
    scene = scenes.make(kind, [room for room in rooms if room_of(room) in constants.GOALS_VALID[kind]], int(number) + offset)
    game_file = {**logic, "grammar": logic["grammar"].replace("UNKNOWN GOAL", scene.sentence), "pddl_problem": scene.problem}
    (folder / "game.tw-pddl").write_text(json.dumps(game_file))
    (folder / "traj_data.json").write_text(json.dumps(scene.about))
    return folder / "game.tw-pddl"


def room_of(number: int) -> str:
    return next(str(name) for name, numbers in constants.SCENE_TYPE.items() if number in numbers)


WORLD = AlfWorld
