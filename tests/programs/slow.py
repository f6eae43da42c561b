"""A corridor without ends, whose program takes its time: each step sleeps as many milliseconds as its argument says.

A step to the right earns 1. No episode ends by itself, so that every iteration takes equally many turns.
"""

import json
import sys
import time

SECONDS = float(sys.argv[1]) / 1000


def main():
    places = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["request"] == "hello":
            print(json.dumps({"protocol": 1, "words": ["P", ".", " .", " P", "left", "right"]}), flush=True)
            continue
        number = request["episode"]
        answer = {"episode": number, "actions": ["left", "right"]}
        if request["request"] == "reset":
            places[number] = request["seed"] % 12
        else:
            time.sleep(SECONDS)
            right = request["action"] == "right"
            places[number] = (places[number] + (1 if right else -1)) % 12
            answer |= {"reward": int(right), "done": False}
        answer["observation"] = " ".join("P" if i == places[number] else "." for i in range(12))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
