"""A game whose every text holds what a terminal would obey: colours, a title, bells, C1, NUL and marks of direction.

With the argument `error` each second episode answers with an error of its own, which holds them too.
"""

import json
import sys

BAD = "\x1b[31mred\x1b]0;title\x07 \u009b2J \x00 \x7f \u202ereversed"
ACTIONS = ["left\x1b[1m", "right\u009b1m"]


def requests():
    for line in sys.stdin:
        batch = json.loads(line)
        yield from batch if isinstance(batch, list) else [batch]


def main():
    for request in requests():
        if request["request"] == "hello":
            hello = {"protocol": 2, "splits": {"train": 9}, "abilities": ["actions"], "words": [BAD, *ACTIONS], "rules": "Go." + BAD}
            print(json.dumps(hello), flush=True)
            continue
        answer = {"episode": request["episode"], "observation": BAD, "actions": ACTIONS}
        if request["request"] == "step":
            answer |= {"reward": 1, "done": True, "won": True}
        if request["request"] == "close":
            answer = {"episode": request["episode"], "closed": True}
        elif "error" in sys.argv and request["episode"] % 2:
            answer = {"episode": request["episode"], "error": "KeyError: " + BAD + "x" * 5000}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
