"""Several answers: the environment plays the user, who says whether a guess was too low or too high."""

import random
import re
from typing import Literal

import verifiers.v1 as vf

__all__ = ["GuessEnv", "GuessTaskset"]

GUESSES = 5
NUMBERS = 20


class GuessData(vf.TaskData):
    number: int


class GuessTask(vf.Task[GuessData]):
    pass


class GuessConfig(vf.TasksetConfig):
    split: Literal["train", "test"] = "train"


class GuessTaskset(vf.Taskset[GuessTask, GuessConfig]):
    def load(self):
        draw = random.Random(self.config.split)
        for _ in range(500 if self.config.split == "train" else 50):
            system = f"I think of a number from 1 to {NUMBERS}. You have {GUESSES} guesses."
            yield GuessTask(GuessData(system_prompt=system, prompt="Guess.", number=1 + draw.randrange(NUMBERS)), self.config.task)


class GuessEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class GuessEnv(vf.Env[GuessEnvConfig]):
    async def run(self, task, agents):
        won = 0
        async with agents.player.interaction(task) as talk:
            segment = await talk.turn()
            for left in reversed(range(GUESSES)):
                found = re.search(r"\d+", segment.last_reply)
                won = int(found is not None and int(found[0]) == task.data.number)
                if won or not left or segment.terminated:
                    break
                hint = "That is no number." if found is None else "Too low." if int(found[0]) < task.data.number else "Too high."
                segment = await talk.turn(hint)
        talk.trace.record_reward("found", float(won), 1.0)
        talk.trace.record_metric("guesses", float(GUESSES - left))
