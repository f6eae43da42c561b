"""An environment outside flow, in the fewest lines: a corridor with a flag at one end and a trap at the other.

flow starts it (see pipelines/process-corridor.yaml) and speaks to it in JSON lines, as docs/protocol.md says of protocol 1:
one request comes in on a line, one answer goes out on a line, and an episode is known by its number.
For an environment of your own the package in python/ does all of this, and more.
"""

import json
import random
import sys

WORDS = [".", "P", "F", "T", " .", " P", " F", " T", "left", "right"]
RULES = "You are P in a corridor. Walk left or right, one cell a turn, to the flag F and not to the trap T."


class Corridor:
    def __init__(self, seed):
        draw = random.Random(seed)  # all that happens follows from the seed
        self.length = draw.randrange(5, 10)
        self.place = draw.randrange(1, self.length - 1)
        self.flag, self.trap = draw.choice([(0, self.length - 1), (self.length - 1, 0)])

    def step(self, action):
        if action not in ("left", "right"):
            return self.show() | {"reward": 0, "done": False, "valid": False}
        self.place += 1 if action == "right" else -1
        won = self.place == self.flag
        return self.show() | {"reward": 1 if won else 0, "done": won or self.place == self.trap, "won": won}

    def show(self):
        cells = ["."] * self.length
        cells[self.flag], cells[self.trap] = "F", "T"
        cells[self.place] = "P"
        return {"observation": " ".join(cells), "actions": ["left", "right"]}

    def expert(self):
        return {"action": "right" if self.flag > self.place else "left"}


def main():
    episodes = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["request"] == "hello":
            answer = {"protocol": 1, "words": WORDS, "rules": RULES, "expert": True}
        else:
            number = request["episode"]
            if request["request"] == "reset":
                episodes[number] = Corridor(request["seed"])
                answer = episodes[number].show()
            elif request["request"] == "step":
                answer = episodes[number].step(request["action"])
            else:
                answer = episodes[number].expert()
            answer["episode"] = number
        print(json.dumps(answer), flush=True)  # without the flush flow waits in vain


if __name__ == "__main__":
    main()
