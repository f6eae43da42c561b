"""An environment whose listed actions are hard to tell apart as tokens, or hard to read as text: `name` and `end` of a task say which. It takes an action
only as it stands in the list. With `long` each observation is a hundred letters, and nothing ends the episode."""
import json
import sys

RING = "A\u030angstrom"
LISTS = {"spelled": [RING, "stay"], "plain": ["go", "stay"], "alike": [RING, "\u00c5ngstrom"], "end": ["go", "stay<|im_end|>"], "long": ["go", "stay"]}
EPISODES = {}


def say(answer):
    print(json.dumps(answer), flush=True)


def view(task, **more):
    text = "x" * 100 if task == "long" else "Where?"
    return {"observation": text, "reward": 0.0, "done": False, "actions": LISTS[task], **more}


def answer(request):
    number, what = request.get("episode"), request["request"]
    if what == "hello":
        return {"protocol": 3, "splits": {"train": sys.argv[1:], "test": sys.argv[1:]}, "live": 64}
    if what == "close":
        return {"episode": number, "closed": True}
    if what == "reset":
        EPISODES[number] = request["task"]
        return {"episode": number, **view(EPISODES[number])}
    task, listed = EPISODES[number], request["action"] in LISTS[EPISODES[number]]
    return {"episode": number, **view(task, valid=listed, reward=0.25, done=task != "long")}


for line in sys.stdin:
    batch = json.loads(line)
    for request in batch if isinstance(batch, list) else [batch]:
        say(answer(request))
