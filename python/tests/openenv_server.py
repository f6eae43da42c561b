"""A guessing game on OpenEnv's own server, for the adapter `openenv`: python openenv_server.py PORT (needs flow_env/requirements/openenv-server.txt).

FAULTS=100 has one step in so many fail on the server, by a hash of the task and the step, and prints a line for each.
"""

import hashlib
import os
import sys
from typing import Any, Literal, Optional

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

FAULTS = int(os.environ.get("FAULTS", "0"))


class Guess(Action):
    number: Literal["1", "2", "3", "4", "5", "6", "7", "8"]


class Answer(Observation):
    text: str


class Guessing(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def list_splits(self) -> list[str]:
        return ["train", "validation", "test"]

    def num_tasks(self, split: str) -> int:
        return {"train": 500, "validation": 50, "test": 50}[split]

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, split: str = "train", index: int = 0, **_: Any) -> Answer:
        self.name = f"{split}-{index}"
        self.secret = hashlib.sha256(f"{self.name} {seed}".encode()).digest()[0] % 8 + 1
        self.steps = 0
        return Answer(text="A number from 1 to 8.")

    def step(self, action: Guess, **_: Any) -> Answer:  # type: ignore[override]
        self.steps += 1
        if FAULTS and int(hashlib.sha256(f"{self.name} {self.steps}".encode()).hexdigest(), 16) % FAULTS == 0:
            print("failed", self.name, self.steps - 1, flush=True)
            raise RuntimeError("this step fails on the server")
        guess = int(action.number)
        if guess == self.secret or self.steps == 6:
            return Answer(text="Right." if guess == self.secret else "No more guesses.", reward=float(guess == self.secret), done=True)
        return Answer(text=f"{guess} is too {'small' if guess < self.secret else 'large'}.", reward=0.0)

    @property
    def state(self) -> State:
        return State(step_count=self.steps)


if __name__ == "__main__":
    app = create_fastapi_app(Guessing, Guess, Answer, max_concurrent_envs=16, env_name="guessing")
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
