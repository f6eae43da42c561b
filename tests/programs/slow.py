"""A corridor without ends, whose program takes its time: each step sleeps as many milliseconds as its argument says.

A step to the right earns 1. No episode ends by itself, so that every iteration takes equally many turns.
"""

import json
import sys
import time

SECONDS = float(sys.argv[1]) / 1000


def requests():
    for line in sys.stdin:
        batch = json.loads(line)
        yield from batch if isinstance(batch, list) else [batch]


def main():
    places = {}
    for request in requests():
        if request["request"] == "hello":
            hello = {"protocol": 2, "splits": {"train": 1_000_000}, "abilities": ["actions"],
                     "words": ["P", ".", " .", " P", "left", "right"]}
            print(json.dumps(hello), flush=True)
            continue
        number = request["episode"]
        answer = {"episode": number}
        if request["request"] == "close":
            print(json.dumps({"episode": number, "closed": True}), flush=True)
            continue
        if request["request"] == "reset":
            places[number] = request["seed"] % 12
        else:
            time.sleep(SECONDS)
            right = request["action"] == "right"
            places[number] = (places[number] + (1 if right else -1)) % 12
            answer |= {"reward": int(right), "done": False}
        if "actions" in request:
            answer["actions"] = ["left", "right"]
        answer["observation"] = " ".join("P" if i == places[number] else "." for i in range(12))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
