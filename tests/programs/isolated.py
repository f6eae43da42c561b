"""A corridor over protocol 2 that insists on the protocol: one live episode a process, closed before the next begins, and no list of
actions that wasn't asked for. What it sees broken it answers with an error; what it was asked it notes in the file that its first argument
names, or nowhere (`-`). Its second argument is how it behaves in the long corridors: well; `dance` or `null`, which its expert then names; or
`wide`, when it shows more than a small model reads.
"""

import json
import os
import sys

NOTES, MODE = sys.argv[1], (sys.argv[2:] or ["well"])[0]
SPLITS = {"train": [f"{kind}/{i}" for kind in ("short", "long") for i in range(4)], "test": [f"{kind}/{i}" for kind in ("short", "long") for i in range(100, 103)]}
HELLO = {"protocol": 2, "world": "isolated 1", "splits": SPLITS, "live": 1, "abilities": ["actions", "expert"]}
HELLO |= {"rules": "Walk to the end.", "words": ["P", ".", " .", " P", "left", "right", "dance", "Go."], "score": [0, 100]}
LENGTH = {"short": 4, "long": 6}

state = {}  # the live episode


def note(text):
    if NOTES != "-":
        with open(NOTES, "a") as notes:
            notes.write(f"{os.getpid()} {text}\n")


def view(request):
    cells = ["."] * state["length"]
    cells[state["place"]] = "P"
    shown = {"observation": " ".join(cells) * (100 if MODE == "wide" and state["length"] == LENGTH["long"] else 1)}
    shown["score"] = round(100 * state["place"] / (state["length"] - 1))
    shown["info"] = {"place": state["place"]}
    asked = request.get("actions")
    if asked:
        note(f"list {asked}")
        wanted = ["left", "right"] if state["place"] % 2 else ["right"]
        old = state.get("list")
        if asked == "change" and old is not None:
            drop = [i for i, text in enumerate(old) if text not in wanted]
            shown["actions"] = {"drop": drop, "add": [[i, text] for i, text in enumerate(wanted) if text not in old]}
        else:
            shown["actions"] = wanted
        state["list"] = wanted
    return shown


def answer(request):
    asked = request["request"]
    if asked == "hello":
        return HELLO
    number = request["episode"]
    if asked == "close":
        note(f"close {number}")
        if state.get("number") == number:
            state.clear()
        return {"closed": True}
    if asked == "reset":
        note(f"reset {number} {request['split']} {request['task']} {request['seed']}")
        if state:
            return {"error": f"episode {state['number']} still lives"}
        if request["task"] not in SPLITS[request["split"]]:
            return {"error": "no such task"}
        kind = request["task"].split("/")[0]
        state.update(number=number, length=LENGTH[kind], place=1)
        return view(request) | {"instruction": "Go.", "type": kind}
    if state.get("number") != number:
        return {"error": f"episode {number} isn't open"}
    if asked == "expert":
        odd = state["length"] == LENGTH["long"] and state["place"] == 2
        return {"action": None if MODE == "null" and odd else "dance" if MODE == "dance" and odd else "right"}
    known = request["action"] in ("left", "right", "dance")
    state["place"] += {"left": -1}.get(request["action"], 1) if known else 0
    won = state["place"] == state["length"] - 1
    done = won or state["place"] == 0
    return view(request) | {"reward": int(won), "done": done, "won": won, "valid": known}


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        several = isinstance(asked, list)
        answers = []
        for request in asked if several else [asked]:
            made = answer(request)
            answers.append(made if "episode" not in request else {"episode": request["episode"]} | made)
        print(json.dumps(answers if several else answers[0]), flush=True)


if __name__ == "__main__":
    main()
