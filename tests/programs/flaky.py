"""A corridor whose program fails, by a hash of the task and the turn: it exits, hangs, or answers garbage.

Arguments: how many turns in a thousand fail, and a file in which each failure is counted (or `-`). With a third argument,
a turn fails only the first time that it is asked for: the file remembers. FLAKY names the kinds of failure. SLOW is how many seconds
each reset takes.
"""

import json
import os
import sys
import time
import zlib

PER_MILLE, NOTES = int(sys.argv[1]), sys.argv[2]
ONCE = len(sys.argv) > 3
KINDS = os.environ.get("FLAKY", "exit garbage text unknown long hang").split()
GARBAGE = {
    "garbage": '{"episode": %d, "observation": 7, "reward": 0, "done": false}',
    "text": "Traceback: this is no JSON, and of no episode like %d",
    "unknown": '{"episode": 10%d, "observation": "x", "reward": 0, "done": false}',
    "long": '{"episode": %d, "observation": "' + "x" * (1 << 20) + '"}',
    "error": '{"episode": %d, "error": "KeyError: the corridor is closed"}',
}


def failure(task, turn):
    """The way in which this turn fails, if it does."""
    name = f"{task} {turn}"
    number = zlib.crc32(name.encode())
    if number % 1000 >= PER_MILLE:
        return None
    if ONCE and os.path.exists(NOTES) and name in open(NOTES).read().splitlines():
        return None
    if NOTES != "-":
        with open(NOTES, "a") as notes:
            notes.write(name + "\n")
    return KINDS[number // 1000 % len(KINDS)]


def requests():
    for line in sys.stdin:
        batch = json.loads(line)
        yield from batch if isinstance(batch, list) else [batch]


def main():
    episodes = {}
    for request in requests():
        if request["request"] == "hello":
            if NOTES != "-":
                with open(NOTES + ".pids", "a") as pids:
                    pids.write(f"{os.getpid()}\n")
            hello = {"protocol": 2, "splits": {"train": 1_000_000}, "abilities": ["actions"],
                     "words": ["P", ".", " .", " P", "left", "right"]}
            print(json.dumps(hello), flush=True)
            continue
        number = request["episode"]
        if request["request"] == "close":
            print(json.dumps({"episode": number, "closed": True}), flush=True)
            continue
        if request["request"] == "reset":
            time.sleep(float(os.environ.get("SLOW", "0")))
            # As flow names the task in its rows.
            task = f"process-flaky-{request['split']}-{request['task']}-s{request['seed']}"
            episodes[number] = [task, request["seed"] % 4 + 1, 0]
        episode = episodes[number]
        kind = failure(episode[0], episode[2])
        if request["request"] == "step":
            episode[1] += 1 if request["action"] == "right" else -1
        episode[2] += 1
        won = episode[1] == 6
        cells = " ".join("P" if i == episode[1] else "." for i in range(7))
        answer = {"episode": number, "observation": cells}
        answer |= {"reward": int(won), "done": won or episode[1] == 0, "won": won}
        if "actions" in request and not answer["done"]:
            answer["actions"] = ["left", "right"]
        if kind == "exit":
            print(f"the roof of {episode[0]} came down", file=sys.stderr, flush=True)
            os._exit(3)
        if kind == "hang":
            time.sleep(3600)
        print(GARBAGE[kind] % number if kind else json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
