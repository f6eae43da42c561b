"""A walk with one turn that matters: the door that the sign names, among routine turns whose answers change nothing.

`python3 routine.py K` has K routine turns, and one fork somewhere between them. flow starts it and speaks JSON lines (docs/protocol.md).
"""

import json
import random
import sys

ROUTINE = int(sys.argv[1])
COLOURS = ["red", "blue", "green", "white"]
WORDS = ["hall", "fork", "sign"] + COLOURS + ["left", "right"] + [str(number) for number in range(ROUTINE + 1)]
HELLO = {
    "protocol": 2,
    "world": f"routine {ROUTINE}",
    "splits": {"train": 1000, "test": 100},
    "abilities": ["actions"],
    "words": WORDS + [f" {word}" for word in WORDS],
    "rules": "Walk through halls to a fork, and take the door that the sign names.",
}


class Walk:
    def __init__(self, split, task):
        if not (task.isdecimal() and int(task) < HELLO["splits"].get(split, 0)):
            raise ValueError(f"there is no task {task} of {split}")
        draw = random.Random(f"{split}/{task}")
        self.doors = draw.sample(COLOURS, 2)
        self.right, self.fork = draw.choice(self.doors), draw.randrange(ROUTINE + 1)
        self.turn, self.taken = 0, None

    def actions(self):
        return [] if self.turn > ROUTINE else self.doors if self.turn == self.fork else ["left", "right"]

    def show(self):
        if self.turn == self.fork:
            return {"observation": f"fork {self.turn} {self.doors[0]} {self.doors[1]} sign {self.right}"}
        return {"observation": f"hall {self.turn}" + (f" {self.taken}" if self.taken else "")}

    def step(self, action):
        valid = action in self.actions()
        if valid:
            self.taken = action if self.turn == self.fork else self.taken
            self.turn += 1
        done = self.turn > ROUTINE
        won = done and self.taken == self.right
        return self.show() | {"reward": int(won), "done": done, "won": won, "valid": valid}


def answer(episodes, request):
    kind, number, shown = request["request"], request["episode"], {}
    if kind == "close":
        episodes.pop(number, None)
        return {"closed": True}
    if kind == "reset":
        episodes[number] = Walk(request["split"], request["task"])
        shown = episodes[number].show()
    elif kind == "step":
        shown = episodes[number].step(request["action"])
    if "actions" in request:
        shown["actions"] = episodes[number].actions()
    return shown


def main():
    episodes = {}
    for line in sys.stdin:
        requests = json.loads(line)
        for request in requests if isinstance(requests, list) else [requests]:
            try:
                shown = HELLO if request["request"] == "hello" else {"episode": request["episode"]} | answer(episodes, request)
            except (KeyError, ValueError) as error:
                shown = {"episode": request["episode"], "error": repr(error)}
            print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
