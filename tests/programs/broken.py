"""A corridor over protocol 2 that breaks the protocol in the way that its argument names. `broken.py --list` prints all ways:
when each happens, its name, and what it is.

What happens in a step happens in the second step of every task whose number is divisible by 4; all other episodes are right.
`fine` breaks nothing. `flood` and `child` break nothing in the protocol either, and must be borne.
"""

import json
import os
import signal
import subprocess
import sys
import time

HELLO = {"protocol": 2, "world": "broken corridor", "splits": {"train": 100, "test": ["end/1", "end/2"]}, "abilities": ["actions", "expert"],
         "words": ["P", ".", " .", " P", "left", "right"]}
VIEW = {"observation": "P . F", "reward": 0, "done": False, "actions": ["left", "right"]}


def say(value):
    line = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def hang():
    time.sleep(3600)


def leave():
    os.close(1)
    time.sleep(0.2)
    os._exit(0)


def crash():
    print("the roof came down", file=sys.stderr, flush=True)
    os._exit(3)


def child():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


# Each way: what it is, and what is said or done instead of the right answer. A dict is merged into the right answer, None leaves a
# field out; anything else is said as it is; a function is called first, and the right answer follows if it comes back.
WAYS = {
    "hello": {
        "missing-module": ("it imports what isn't there", lambda: __import__("no_such_module")),
        "silent": ("it never answers", hang),
        "leaves": ("it closes its output", leave),
        "crash-at-once": ("it exits with status 3", crash),
        "no-json": ("a library's greeting stands where the answer belongs", "Welcome to Corridor 1.0!"),
        "no-object": ("the answer is a list of nothing", []),
        "protocol-4": ("it speaks a newer protocol than flow does", {"protocol": 4}),
        "protocol-text": ("the protocol is a text", {"protocol": "2"}),
        "hello-unknown-field": ("a field is misspelt", {"abilitys": []}),
        "no-splits": ("there are no splits", {"splits": None}),
        "empty-splits": ("the splits are empty", {"splits": {}}),
        "split-without-tasks": ("a split has no tasks", {"splits": {"train": 10, "test": []}}),
        "split-of-zero": ("a split has 0 tasks", {"splits": {"train": 0}}),
        "split-negative": ("a split has -1 tasks", {"splits": {"train": -1}}),
        "split-name": ("a split has a name that it can't have", {"splits": {"Train 1": 10}}),
        "task-twice": ("a split has a task twice", {"splits": {"train": ["a", "a"]}}),
        "task-name": ("a task has a name with a line feed", {"splits": {"train": ["a\nb"]}}),
        "task-number": ("a task's name is a number", {"splits": {"train": [1, 2]}}),
        "live-0": ("it holds 0 episodes", {"live": 0}),
        "ability": ("it has an ability that there isn't", {"abilities": ["actions", "fly"]}),
        "words-numbers": ("its words are numbers", {"words": [1, 2]}),
        "hello-20-mb": ("its answer is a line of 20 MB", {"rules": "x" * 20_000_000}),
        "child": ("it leaves a child behind that holds the pipes", child),
    },
    "reset": {
        "unknown-task": ("it doesn't know its own tasks", {"error": "KeyError: there is no such task"}),
        "over-at-once": ("the episode is over before its first step", {"done": True, "reward": 1}),
        "no-observation": ("the observation is missing", {"observation": None}),
        "empty-observation": ("the observation is empty", {"observation": ""}),
        "change-of-nothing": ("a change of actions where no list was", {"actions": {"drop": [0], "add": []}}),
        "type": ("the kind of task has a name that it can't have", {"type": "two words"}),
    },
    "step": {
        "fine": ("nothing is wrong", {}),
        "another-episode": ("it answers for an episode that wasn't asked", {"episode": 1000}),
        "closed-episode": ("it answers for an episode that is closed", {"episode": 0}),
        "no-episode": ("its answer names no episode", {"episode": None}),
        "hang": ("it doesn't answer", hang),
        "crash": ("it exits with status 3", crash),
        "killed": ("it is killed", lambda: os.kill(os.getpid(), signal.SIGKILL)),
        "half-a-line": ("it exits in the middle of an answer", lambda: (os.write(1, b'{"episode":'), os._exit(0))),
        "two-answers": ("it answers twice", lambda: say({"episode": 1, **VIEW})),
        "text": ("a library prints among the answers", "DEBUG stepping"),
        "array": ("the answer is a list of nothing", []),
        "actions-100000": ("there are 100,000 actions", {"actions": [f"go to {n}" for n in range(100_000)]}),
        "action-long": ("an action has 5,000 bytes", {"actions": ["x" * 5000]}),
        "action-twice": ("an action stands twice in the list", {"actions": ["left", "left"]}),
        "action-number": ("an action is a number", {"actions": [1]}),
        "change-outside": ("a change drops what the list doesn't have", {"actions": {"drop": [7], "add": []}}),
        "text-10-mb": ("the observation has 10 MB", {"observation": "x" * 10_000_000}),
        "observation-number": ("the observation is a number", {"observation": 7}),
        "nan": ("the reward is NaN", {"reward": float("nan")}),
        "infinite": ("the score is infinite", {"score": float("inf")}),
        "huge": ("the reward doesn't fit 32 bits", {"reward": 1e39}),
        "not-utf8": ("the answer isn't UTF-8", b'{"episode":0,"observation":"\xff","reward":0,"done":false}'),
        "surrogate": ("the observation holds half a character", '{"episode":0,"observation":"\\ud800","reward":0,"done":false}'),
        "no-reward": ("the reward is missing", {"reward": None}),
        "no-done": ("`done` is missing", {"done": None}),
        "done-number": ("`done` is a number", {"done": 1}),
        "unknown-field": ("a field is misspelt", {"rewrad": 1}),
        "info-text": ("a figure is a text", {"info": {"steps": "three"}}),
        "info-name": ("a figure has a name that it can't have", {"info": {"Steps Taken": 3}}),
        "info-40": ("there are 40 figures", {"info": {f"n{n}": n for n in range(40)}}),
        "error": ("it says that the episode has failed", {"error": "KeyError: 'kettle'"}),
        "error-number": ("its error is a number", {"error": 7}),
        "flood": ("it floods standard error", lambda: [print("y" * 999, file=sys.stderr) for _ in range(5_000)]),
    },
    "expert": {"expert-number": ("the expert's action is a number", {"action": 7}), "expert-missing": ("the expert fails", {"error": "no plan"})},
    "close": {"close-unanswered": ("it doesn't answer close", hang), "close-open": ("it says that nothing was closed", {"closed": False})},
    "end": {"stays": ("it doesn't end when its input does", hang)},
}


def main():
    way = sys.argv[1]
    if way == "--list":
        for when, ways in WAYS.items():
            for name, (what, _) in ways.items():
                print(when, name, what, sep="\t")
        return
    when, (_, wrong) = next((when, ways[way]) for when, ways in WAYS.items() if way in ways)
    steps, hit = {}, {}
    for line in sys.stdin:
        asked = json.loads(line)
        for request in asked if isinstance(asked, list) else [asked]:
            what, number = request["request"], request.get("episode")
            if what == "hello":
                right, hits = HELLO, True
            elif what == "reset":
                hit[number] = request["task"].isdigit() and int(request["task"]) % 4 == 0
                steps[number] = 0
                right, hits = {key: VIEW[key] for key in ("observation", "actions")}, hit[number]
            elif what == "step":
                steps[number] += 1
                done = steps[number] == 5
                right = {**VIEW, "done": done, "reward": int(done), "won": done, "observation": ". " * steps[number] + "P"}
                hits = hit[number] and steps[number] == 2
            elif what == "expert":
                right, hits = {"action": "right"}, hit[number]
            else:
                right, hits = {"closed": True}, hit.get(number)
            if what != "hello":
                right = {"episode": number, **right}
            if when == what and hits:
                if callable(wrong):
                    wrong()
                elif isinstance(wrong, dict) and "error" in wrong:
                    right = {"episode": number, **wrong}
                elif isinstance(wrong, dict):
                    right = {key: value for key, value in {**right, **wrong}.items() if value is not None}
                else:
                    right = wrong.replace(b'"episode":0', b'"episode":%d' % number) if isinstance(wrong, bytes) else (
                        wrong.replace('"episode":0', f'"episode":{number}') if isinstance(wrong, str) else wrong)
            say(right)
    if when == "end":
        wrong()


if __name__ == "__main__":
    main()
