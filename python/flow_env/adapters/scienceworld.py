"""ScienceWorld: `scienceworld[:TASK,TASK...][,easy][,look=false][,steps=100][,most=3][,train=5]`, all thirty tasks unless some are named.

A task is a kind and a variation, such as `boil/14`; the package's variations for training, development and test are the splits, or
with `most` so many of each kind, evenly from each split. `train` trains on the first so many variations of each kind (EMPO2: five), or, as
`train=6-30`, on the sixth to the thirtieth, so that demonstrations can be of others.
The score is the package's, from -100 (a wrong focus, which ends the episode) to 100; a step's reward is a hundredth of what it
gains. One episode a process: environments that share a JVM aren't isolated.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any, Dict, List, Optional, Sequence, Tuple

from scienceworld.constants import BASEPATH, JAR_PATH

from ..words import spread
from ..world import View, World
from .arguments import split
from .jvm import Machine

SIMPLIFICATIONS = ("easy", "teleportAction", "selfWateringFlowerPots", "openContainers", "openDoors", "noElectricalAction")


class ScienceWorld(World):
    rules = "Carry out the task in a house and its surroundings. Answer with one action."
    score = (-100.0, 100.0)
    live = 1
    reuse = True

    def __init__(self, arguments: str = "") -> None:
        plain, settings = split(arguments)
        self.look = bool(settings.pop("look", True))
        self.max_steps = settings.pop("steps", None)
        self.most = int(settings.pop("most", 0))
        self.trained = span(settings.pop("train", ""))
        if settings:
            raise ValueError(f"scienceworld has no setting {sorted(settings)[0]!r}; it has look, steps, most and train")
        self.world = f"scienceworld {version('scienceworld')}"
        self.simple = ",".join(part for part in plain if part in SIMPLIFICATIONS)
        self.machine = Machine.hold(JAR_PATH, BASEPATH)
        self.server = self.machine.call(self.machine.gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface)
        known = self.machine.texts(self.machine.call(self.server.getTaskNames))
        self.kinds = [part for part in plain if part not in SIMPLIFICATIONS] or sorted(known)
        for kind in self.kinds:
            if kind not in known:
                raise ValueError(f"scienceworld has no task `{kind}`; it has {', '.join(sorted(known))}")
        self.loaded: Optional[Tuple[str, int]] = None
        self.paths: Dict[Tuple[str, int], List[str]] = {}
        self.guided = False

    def tasks(self, split: str) -> Sequence[str]:
        named = []
        for kind in self.kinds:
            count = int(self.machine.call(self.server.getTaskMaxVariations, kind))
            some = variations(count).get(split, range(0))
            if split == "train" and self.trained:
                named += [f"{kind}/{number}" for number in some[self.trained]]
                continue
            chosen = spread(len(some), self.most or len(some))
            named += [f"{kind}/{some[int(place)]}" for place in chosen]
        return named

    def reset(self, task: Any, seed: int) -> View:
        self.kind, _, variation = str(task).rpartition("/")
        self.variation = int(variation)
        self.played: List[str] = []
        if self.guided and (self.kind, self.variation) not in self.paths:
            # Who has asked for paths before will ask again: loading once is enough.
            self.find_path()
        view = self.begin()
        view.instruction = str(self.machine.call(self.server.getTaskDescription)).replace("Task Description:", "").strip()
        view.type = self.kind
        return view

    def begin(self) -> View:
        # What objects are told apart by is counted from 0 in each episode, as in a new JVM.
        self.machine.call(self.machine.gateway.jvm.util.UniqueIdentifier.reset)
        self.before = 0
        # Going back to the start takes as long as loading, and either is enough.
        if self.loaded == (self.kind, self.variation):
            self.machine.call(self.server.reset)
        else:
            self.load(gold=False)
        return self.show(str(self.machine.call(self.server.step, "look around")))

    def load(self, gold: bool) -> None:
        self.loaded = None
        self.machine.call(self.server.load, self.kind, self.variation, self.simple, gold)
        self.loaded = (self.kind, self.variation)

    def step(self, action: str) -> View:
        self.played.append(action)
        return self.show(str(self.machine.call(self.server.step, action)))

    def show(self, response: str) -> View:
        call, server = self.machine.call, self.server
        observation = response.strip()
        look = str(call(server.freeActionLook)).strip()
        inventory = str(call(server.freeActionInventory)).strip()
        score = round(100 * float(call(server.getScore)))
        reward, self.before = (score - self.before) / 100, score
        if self.look:
            observation = "\n".join([part for part in (observation, look, inventory) if part and (part is observation or part not in observation)])
        return View(
            observation or look,
            reward=reward,
            done=bool(call(server.getCompleted)) or score < 0,
            won=score >= 100,
            valid=not response.startswith("No known action matches that input"),
            # What was focused on shows in the score alone, and decides what an action is worth.
            state=f"{look}\n{inventory}\n{score}",
            score=score,
        )

    def actions(self) -> Sequence[str]:
        listed: Dict[str, Any] = json.loads(self.machine.call(self.server.getValidActionObjectCombinationsJSON))
        return sorted({str(valid["action"]) for valid in listed["validActions"]})

    def expert(self) -> Optional[str]:
        """The next action of the package's gold path, while the episode follows it."""
        task = (self.kind, self.variation)
        self.guided = True
        if task not in self.paths:
            # The path comes with loading: the task is loaded once more, with its path, and played up to here.
            self.find_path()
            self.begin()
            for action in self.played:
                self.show(str(self.machine.call(self.server.step, action)))
        gold, at = self.paths[task], len(self.played)
        return gold[at] if at < len(gold) and gold[:at] == self.played else None

    def find_path(self) -> None:
        # The package keeps the way through all rooms that it first found from each of them, in whatever house that was, and later paths follow it.
        self.machine.call(self.machine.gateway.jvm.scienceworld.goldagent.PathFinder.precomputedExhaustivePaths).clear()
        self.load(gold=True)
        self.paths[self.kind, self.variation] = self.machine.texts(self.machine.call(self.server.getGoldActionSequence))

    def close(self) -> None:
        self.machine.drop()


def span(words: Any) -> Optional[slice]:
    """Which variations a setting names, counted from 1.

    >>> span(5), span("6-30"), span("")
    (slice(0, 5, None), slice(5, 30, None), None)
    """
    first, _, last = str(words).rpartition("-")
    return slice(int(first or 1) - 1, int(last)) if last else None


def variations(count: int) -> Dict[str, range]:
    """The package's splits of a task's variations: half, a quarter, the rest, by quarters rounded down.

    >>> {name: len(numbers) for name, numbers in variations(30).items()}
    {'train': 14, 'dev': 7, 'test': 9}
    """
    quarter = count // 4
    half = 2 * quarter
    return {"train": range(half), "dev": range(half, half + quarter), "test": range(half + quarter, count)}


WORLD = ScienceWorld
