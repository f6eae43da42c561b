"""TextWorldExpress's games: `textworld-express:GAME[,look=false][,parameter=value...]`, such as
`textworld-express:cookingworld,numLocations=3,includeDoors=0`.

The package's folds are the splits, its seeds the tasks. The score is the package's, from 0 to 1, and a step's reward what it gains.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any, Dict, List, Optional, Sequence

from textworld_express.constants import BASEPATH, JAR_PATH

from ..world import View, World
from .arguments import split
from .jvm import Machine

# Games whose agent, which finds the gold path, walks at random by a generator that the package seeds by the clock.
WALKERS = {"coin": "CoinGoldAgent", "twc": "TWCGoldAgent"}
FOLDS = {"train": "SeedsTrain", "dev": "SeedsDev", "test": "SeedsTest"}
RULES = "Answer with one action. You may look around and see your inventory at any time."


class TextWorldExpress(World):
    rules = RULES
    score = (0.0, 1.0)
    reuse = True

    def __init__(self, arguments: str = "") -> None:
        plain, settings = split(arguments)
        self.look = bool(settings.pop("look", True))
        self.max_steps = settings.pop("steps", None)
        self.world = f"textworld-express {version('textworld-express')}"
        self.machine = Machine.hold(JAR_PATH, BASEPATH)
        self.server = self.machine.call(self.machine.gateway.jvm.textworldexpress.runtime.PythonInterface)
        games = list(self.machine.call(self.server.getGameNames))
        if len(plain) != 1 or plain[0] not in games:
            raise ValueError(f"textworld-express:GAME names one of {', '.join(games)}, not `{arguments}`")
        self.game = plain[0]
        error = self.machine.call(self.server.load, self.game, ",".join(f"{key}={_plain(value)}" for key, value in settings.items()))
        if error:
            raise ValueError(str(error))
        self.wants_gold = False

    def tasks(self, split: str) -> Sequence[str]:
        if split not in FOLDS:
            return []
        return [str(seed) for seed in self.machine.call(getattr(self.server, "get" + FOLDS[split]))]

    def reset(self, task: Any, seed: int) -> View:
        self.task = int(task)
        self.played: List[str] = []
        self.gold: Optional[List[str]] = None
        self.before = 0.0
        view = self.begin()
        view.instruction = str(self.machine.call(self.server.getTaskDescription)).strip()
        view.type = self.game
        return view

    def begin(self) -> View:
        view = self.show(self.machine.call(self.server.generateNewGameJSON, self.task, self.split, self.wants_gold))
        if self.wants_gold:
            self.gold = self.machine.texts(self.machine.call(self.server.getGoldActionSequence))
        return view

    def step(self, action: str) -> View:
        self.played.append(action)
        return self.show(self.machine.call(self.server.stepJSON, action))

    def show(self, text: str) -> View:
        state: Dict[str, Any] = json.loads(text)
        self.listed: List[str] = state["validActions"]
        observation = state["observation"].strip()
        look, inventory = state["look"].strip(), state["inventory"].strip()
        valid = not observation.startswith("Unknown action")
        score = float(state["score"])
        reward, self.before = score - self.before, score
        if self.look:
            observation = "\n".join([part for part in (observation, look, inventory) if part and (part is observation or part not in observation)])
        return View(
            observation or look,
            reward=reward,
            done=bool(state["tasksuccess"] or state["taskfailure"] or score >= 1.0),
            won=bool(state["tasksuccess"]),
            valid=valid,
            state=f"{look}\n{inventory}",
            score=score,
        )

    def actions(self) -> Sequence[str]:
        return sorted(self.listed)

    def expert(self) -> Optional[str]:
        """The next action of the package's gold path, while the episode follows it."""
        if self.gold is None:
            # The path comes with the game: it is made once more, with its path, and played up to here.
            self.wants_gold = self.game not in WALKERS
            path = [] if self.wants_gold else self.walk()
            self.before = 0.0
            self.begin()
            self.gold = self.gold or path
            for action in self.played:
                self.show(self.machine.call(self.server.stepJSON, action))
        gold = self.gold or []
        at = len(self.played)
        return gold[at] if at < len(gold) and gold[:at] == self.played else None

    def walk(self) -> List[str]:
        """A gold path found by the package's agent with a generator that is seeded by the task, the same in every process."""
        call, jvm = self.machine.call, self.machine.gateway.jvm
        chance = call(jvm.scala.util.Random, self.task)
        for _ in range(50):  # as often as the package tries
            self.begin()
            agent = call(getattr(jvm.textworldexpress.goldagent, WALKERS[self.game]), call(self.server.game))
            result = call(agent.mkGoldPath, chance)
            if call(lambda: result._1):
                return [str(action) for action in call(lambda: result._2)]
        return []

    def close(self) -> None:
        self.machine.drop()


def _plain(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


WORLD = TextWorldExpress
