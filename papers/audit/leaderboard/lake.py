"""A frozen lake of 4x4 cells that doesn't slip, another one for each task: walk to the goal, and into no hole.

`python3 lake.py`. flow starts it and speaks JSON lines (docs/protocol.md).
"""

import json
import random
import sys

SIZE, HOLES = 4, 4
WAYS = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}
WORDS = [f"{space}{cell}" for space in ("", " ") for cell in (".", "H", "G", "P", "X", "√")] + list(WAYS) + ["\n"]
HELLO = {
    "protocol": 2,
    "world": "lake 1.0",
    "splits": {"train": 1000, "test": 100},
    "abilities": ["actions", "expert"],
    "words": WORDS,
    "rules": "You are P on a frozen lake. Walk to the goal G, and into no hole H.",
}


def ways(holes, goal):
    """The fewest steps to the goal from each cell that it can be reached from."""
    steps, queue = {goal: 0}, [goal]
    for y, x in queue:  # which grows at its end
        for down, right in WAYS.values():
            cell = (y + down, x + right)
            if 0 <= cell[0] < SIZE and 0 <= cell[1] < SIZE and cell not in holes and cell not in steps:
                steps[cell] = steps[y, x] + 1
                queue.append(cell)
    return steps


class Lake:
    def __init__(self, split, task):
        if not (task.isdecimal() and int(task) < HELLO["splits"].get(split, 0)):
            raise ValueError(f"there is no task {task} of {split}")
        draw = random.Random(f"{split}/{task}")
        cells = [(y, x) for y in range(SIZE) for x in range(SIZE)]
        while True:
            self.place, self.goal, *holes = draw.sample(cells, 2 + HOLES)
            self.holes = set(holes)
            self.steps = ways(self.holes, self.goal)
            if self.steps.get(self.place, 0) >= 3:
                return

    def over(self):
        return self.place == self.goal or self.place in self.holes

    def actions(self):
        return [] if self.over() else list(WAYS)

    def cell(self, cell):
        if cell == self.place:
            return "√" if cell == self.goal else "X" if cell in self.holes else "P"
        return "G" if cell == self.goal else "H" if cell in self.holes else "."

    def show(self):
        return {"observation": "\n".join(" ".join(self.cell((y, x)) for x in range(SIZE)) for y in range(SIZE))}

    def expert(self):
        if self.over():
            return None
        return min(WAYS, key=lambda way: self.steps.get((self.place[0] + WAYS[way][0], self.place[1] + WAYS[way][1]), 99))

    def step(self, action):
        if self.over():
            raise ValueError("the episode is over")
        if action in WAYS:
            self.place = tuple(min(max(at + by, 0), SIZE - 1) for at, by in zip(self.place, WAYS[action]))
        won = self.place == self.goal
        return self.show() | {"reward": int(won), "done": self.over(), "won": won, "valid": action in WAYS}


def answer(episodes, request):
    kind, number, shown = request["request"], request["episode"], {}
    if kind == "close":
        episodes.pop(number, None)
        return {"closed": True}
    if kind == "reset":
        episodes[number] = Lake(request["split"], request["task"])
        shown = episodes[number].show()
    elif kind == "step":
        shown = episodes[number].step(request["action"])
    elif kind == "expert":
        return {"action": episodes[number].expert()}
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
            print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
