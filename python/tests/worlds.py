"""Worlds for the tests: a right one, and ones that are wrong in one way each."""

import itertools
import random
import sys

from flow_env import Fatal, View, World


class Walk(World):
    """A walk along a line to 5, from 0 or from the task's number."""

    rules = "Walk to 5."
    score = (0, 5)

    def tasks(self, split):
        return {"train": 4, "test": 2}.get(split, 0)

    def reset(self, task, seed):
        self.place = task % 3
        self.steps = 0
        return View(self.show(), instruction=f"Task {task}, seed {seed}.", type="walk", score=self.place)

    def step(self, action):
        if action not in self.actions():
            return View(self.show(), valid=False)
        self.steps += 1
        self.place += {"left": -1, "right": 1, "jump": 2}[action]
        over = not 0 <= self.place < 5
        return View(self.show(), reward=float(self.place >= 5), done=over, won=self.place >= 5, score=self.place, info={"steps": self.steps})

    def actions(self):
        return ["left", "right"] + (["jump"] if self.place % 2 else [])

    def expert(self):
        return "right" if self.place >= 0 else None

    def show(self):
        return f"You are at {self.place}."


class Named(Walk):
    """Tasks by names, one at a time, and instances that are used again."""

    live = 1
    reuse = True

    def tasks(self, split):
        return {"train": ["a/1", "a/2"], "dev": ["b/1"]}.get(split, [])

    def reset(self, task, seed):
        return super().reset(int(task[-1]), seed)


class Talkative(Walk):
    """Prints all the time."""

    if __name__ == "worlds":
        print("a library says hello")

    def step(self, action):
        print("stepping", action)
        sys.stderr.write("and complaining\n")
        return super().step(action)


class Failing(Walk):
    """Fails in the way that the action names."""

    def step(self, action):
        if action == "exit":
            sys.exit(3)
        if action == "fatal":
            raise Fatal("the engine is dead")
        if action == "loop":
            while True:
                pass
        if action == "nan":
            return View("x", reward=float("nan"))
        if action == "none":
            return None
        if action == "tuple":
            return "You are at 1.", 0.0, False, False, {}
        if action == "raise":
            return {}["no such key"]
        if action == "end":
            return View("", reward=1.0, done=True)
        if action == "empty":
            return View("")
        if action == "half":
            return View("half \ud800 a character")
        if action == "long":
            return View("x" * 2_000_000)
        if action == "info":
            return View("x", info={"Bad Name": 1})
        return super().step(action)

    def actions(self):
        return [f"go to {n}" for n in range(20_000)] if self.place == 4 else super().actions()


class Drawing(Walk):
    """Draws from Python's global generator."""

    global_random = True

    def step(self, action):
        view = super().step(action)
        view.observation += f" The die shows {random.randrange(1000)}."
        return view


class Leaking(Walk):
    """What one episode does changes the others: not isolated."""

    count = itertools.count()

    def step(self, action):
        view = super().step(action)
        view.observation += f" Step {next(Leaking.count)} of all."
        return view


class Lying(Walk):
    """Lists an action that it then refuses."""

    def step(self, action):
        view = super().step(action)
        return View(self.show(), valid=False) if action == "left" else view


class Quick(Walk):
    """Takes back and copies by itself, and is cut after four steps."""

    max_steps = 4

    def reset(self, task, seed):
        self.places = []
        return super().reset(task, seed)

    def step(self, action):
        self.places.append(self.place)
        return super().step(action)

    def rollback(self, steps):
        self.place = self.places[-steps]
        self.places = self.places[:-steps]
        self.steps -= steps
        return View(self.show(), score=self.place, info={"steps": self.steps} if self.steps else {})

    def copy(self):
        other = Quick()
        other.place, other.steps, other.places = self.place, self.steps, list(self.places)
        return other


class Half(Walk):
    """Names a state with every step and none with the reset."""

    def step(self, action):
        view = super().step(action)
        view.state = f"place {self.place}"
        return view


class Raising(Walk):
    """Fails in its second step, whatever is done."""

    def step(self, action):
        if self.steps == 1:
            raise ValueError("boom")
        return super().step(action)


class Gym(Walk):
    """Answers as Gymnasium's environments do."""

    def step(self, action):
        view = super().step(action)
        return view.observation, view.reward, view.done, False, {}


class Torn(Walk):
    """Shows half a character."""

    def show(self):
        return super().show() + " \ud800"


class Counting(Walk):
    """Lists numbers as its actions."""

    def actions(self):
        return [1, 2]


class Leaving(Walk):
    """Ends the process in its first step."""

    def step(self, action):
        sys.exit(3)


class Hanging(Walk):
    """Never answers a step."""

    def step(self, action):
        while True:
            pass


class Long(Walk):
    """Shows a text of 800 kB each time, and lists nothing."""

    lacks = frozenset({"expert"})

    def show(self):
        return f"You are at {self.place}. " + "a sea of words and of waves, " * 28_000

    def step(self, action):
        self.place += action == "go"
        return View(self.show())


class Mute(Walk):
    """Its texts have no word of more than one byte."""

    rules = "x"

    def reset(self, task, seed):
        self.place = 0
        return View("x")

    def step(self, action):
        return View("y", done=True)

    def actions(self):
        return ["a", "b"]

    def expert(self):
        return "a"


class Speaking(World):
    """Its actions are free text."""

    def tasks(self, split):
        return {"train": 3}.get(split, 0)

    def reset(self, task, seed):
        return f"How many legs have {task + 1} cats?"

    def step(self, action):
        return View("Right." if action == "4" else "Wrong.", done=True)
