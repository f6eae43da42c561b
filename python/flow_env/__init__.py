"""Environments for flow: subclass World, and `flow-env serve` plays it with flow over JSON lines.

    from flow_env import View, World

    class Corridor(World):
        rules = "Walk left or right to the flag F."

        def tasks(self, split):
            return {"train": 10_000, "test": 100}.get(split, 0)

        def reset(self, task, seed):
            self.length = 4 + task % 5
            self.place = 1
            return self.show()

        def step(self, action):
            if action not in ("left", "right"):
                return View(self.show(), valid=False)
            self.place += 1 if action == "right" else -1
            won = self.place == self.length - 1
            return View(self.show(), reward=float(won), done=won or self.place == 0, won=won)

        def actions(self):
            return ["left", "right"]

        def show(self):
            return " ".join("P" if i == self.place else "." for i in range(self.length - 1)) + " F"
"""

from .world import Fatal, View, World

__version__ = "0.2.0"
__all__ = ["Fatal", "View", "World"]
