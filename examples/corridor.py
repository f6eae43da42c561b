"""An environment outside flow, in few lines: a corridor with a flag at one end and a trap at the other.

flow starts it (see pipelines/process-corridor.yaml) and speaks to it in JSON lines, as docs/protocol.md says: a line has one request or
a list of requests, each gets one answer, and an episode is known by its number.
For an environment of your own the package in python/ does all of this, and more.
"""

import json
import random
import sys

HELLO = {
    "protocol": 2,
    "world": "corridor 2.0",
    "splits": {"train": 1000, "test": 100},
    "abilities": ["actions", "expert"],
    "words": [".", "P", "F", "T", " .", " P", " F", " T", "left", "right"],
    "rules": "You are P in a corridor. Walk left or right, one cell a turn, to the flag F and not to the trap T.",
}


class Corridor:
    def __init__(self, split, task):
        if not (task.isdecimal() and int(task) < HELLO["splits"].get(split, 0)):
            raise ValueError(f"there is no task {task} of {split}")
        draw = random.Random(f"{split}/{task}")  # the task decides everything and leaves nothing to the seed
        self.length = draw.randrange(5, 10)
        self.place = draw.randrange(1, self.length - 1)
        self.flag, self.trap = draw.choice([(0, self.length - 1), (self.length - 1, 0)])

    def actions(self):
        return [] if self.place in (self.flag, self.trap) else ["left", "right"]

    def show(self):
        cells = ["."] * self.length
        cells[self.flag], cells[self.trap] = "F", "T"
        cells[self.place] = "P"
        return {"observation": " ".join(cells)}

    def step(self, action):
        if not self.actions():
            raise ValueError("the episode is over")
        valid = action in self.actions()
        if valid:
            self.place += 1 if action == "right" else -1
        won = self.place == self.flag
        return self.show() | {"reward": int(won), "done": not self.actions(), "won": won, "valid": valid}


def answer(episodes, request):
    kind, number, shown = request["request"], request["episode"], {}
    if kind == "close":
        episodes.pop(number, None)
        return {"closed": True}
    if kind == "reset":
        episodes[number] = Corridor(request["split"], request["task"])
        shown = episodes[number].show()
    elif kind == "step":
        shown = episodes[number].step(request["action"])
    elif kind == "expert":
        return {"action": "right" if episodes[number].flag > 0 else "left"}
    if "actions" in request:  # they are listed only when asked for
        shown["actions"] = episodes[number].actions()
    return shown


def main():
    episodes = {}
    for line in sys.stdin:
        requests = json.loads(line)
        for request in requests if isinstance(requests, list) else [requests]:
            try:
                shown = HELLO if request["request"] == "hello" else {"episode": request["episode"]} | answer(episodes, request)
            except (KeyError, ValueError) as error:  # this episode has failed, the others go on
                shown = {"episode": request["episode"], "error": repr(error)}
            print(json.dumps(shown), flush=True)  # without the flush flow waits in vain


if __name__ == "__main__":
    main()
