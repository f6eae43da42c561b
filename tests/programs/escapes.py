"""A game whose every text holds what a terminal would obey: colours, a title, bells, C1, NUL and marks of direction.

With the argument `error` each second episode answers with an error of its own, which holds them too.
"""

import json
import sys

BAD = "\x1b[31mred\x1b]0;title\x07 \u009b2J \x00 \x7f \u202ereversed"
ACTIONS = ["left\x1b[1m", "right\u009b1m"]


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if request["request"] == "hello":
            print(json.dumps({"protocol": 1, "words": [BAD, *ACTIONS], "rules": "Go." + BAD}), flush=True)
            continue
        answer = {"episode": request["episode"], "observation": BAD, "actions": ACTIONS}
        if request["request"] == "step":
            answer |= {"reward": 1, "done": True, "won": True}
        if "error" in sys.argv and request["episode"] % 2:
            answer = {"episode": request["episode"], "error": "KeyError: " + BAD + "x" * 5000}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
