"""An agent program as protocol 3 shows one: each episode asks two questions at the same time, then goes on from each answer, in whatever order the
clock brings. The reward counts the letter `a` in what was answered. What a task asks for besides stands in its name."""
import hashlib
import json
import os
import queue
import random
import sys
import threading
import time

LETTERS = list("abcdefghijklmnopqrstuvwxyz")
LOCK = threading.Lock()
EPISODES = {}


def say(answer):
    with LOCK:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def name(on, tail):
    return hashlib.sha256(json.dumps([on, tail]).encode()).hexdigest()[:16]


class Episode:
    def __init__(self, number, task):
        self.number, self.task = number, task
        self.calls, self.said, self.open, self.first, self.last, self.refused = [], 0, None, None, None, 0
        for who in ("left", "right"):
            self.ask("", [{"role": "system", "content": who}, {"role": "user", "content": f"{task}?"}], 0)

    def ask(self, on, messages, since):
        model = {"left": "right", "right": "left"}[messages[0]["content"]] if on and self.task == "swap" else messages[0]["content"]
        call = {"id": name(on, messages[since:]), "messages": messages, "since": since, "model": model}
        self.first = self.first or call["id"]
        if on:
            call["on"] = on
        elif self.calls or self.open:
            call["fork"] = "sub_agent"
        if self.task == "stop":
            call["stop"] = LETTERS
        if self.task in ("tools", "must"):
            names = ["look", "leave"] if self.task == "must" else ["look"]
            call["tools"] = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}} for name in names]
        if self.task == "must":
            call["must_call"] = names
        if self.task == "short":
            call["max_tokens"] = 2
        self.calls.append(call)

    def show(self):
        if not self.calls:
            return {"observation": "over", "reward": float(self.said), "done": True, "won": self.said > 3, "info": {"letters": self.said},
                    "credit": [[self.first, 0.5]] if self.task == "credit" else [], "unread": [self.last] if self.task == "unread" else []}
        self.open = self.calls.pop(0 if self.task == "still" else random.randrange(len(self.calls)))
        return {"observation": self.open["messages"][-1]["content"], "state": json.dumps(self.open["messages"]), "reward": 0.0, "done": False, "call": self.open}

    def answer(self, text):
        self.said += text.count("a")
        call = self.open
        if 1 < len(call["messages"]) < 4:
            more = [{"role": "assistant", "content": text.strip()}, {"role": "user", "content": "and? "}]
            self.ask(call["id"], call["messages"] + more, len(call["messages"]) + 1)
            self.last = self.calls[-1]["id"] if call["messages"][0]["content"] == "left" else self.last

    def refuse(self):
        self.refused += 1
        self.ask("", [{"role": "user", "content": f"no {self.refused}"}], 0)


def play(request):
    number = request["episode"]
    time.sleep(random.random() * 0.02)
    if request["request"] == "reset":
        EPISODES[number] = Episode(number, request["task"])
    elif request["request"] == "close":
        EPISODES.pop(number, None)
        return say({"episode": number, "closed": True})
    episode = EPISODES.get(number)
    if episode is None:
        return say({"episode": number, "error": "it isn't open"})
    if request["request"] == "step":
        if episode.task == "late" and request["action"]:
            time.sleep(3)
        if episode.task == "fails":
            return say({"episode": number, "error": "the program ended with status 1"})
        assert set(request) >= {"action", "cut", "usage"}, request
        assert episode.task != "short" or (request["cut"] and request["usage"][1] == 2), request
        assert episode.task != "stop" or not set(LETTERS) & set(request["action"]), request
        episode.answer(request["action"])
    if request["request"] == "refuse":
        if request["reason"] != "too_long":
            return say({"episode": number, "error": f"its call was refused: {request['reason']}"})
        assert request["tokens"] > request["limit"], request
        episode.refuse()
    say({"episode": number, **episode.show()})


def served(requests):
    """The requests about one episode are answered in their order."""
    while True:
        play(requests.get())


QUEUES = {}
for line in sys.stdin:
    batch = json.loads(line)
    for request in batch if isinstance(batch, list) else [batch]:
        if request["request"] == "hello":
            assert request["newest"] >= 3
            tasks = os.environ.get("CALLER_TASKS", "one two three credit stop short").split()
            say({"protocol": 3, "splits": {"train": tasks, "test": tasks}, "live": 64, "parallel": True, "words": ["a", "b", "left", "right", "and? "]})
        else:
            if request["episode"] not in QUEUES:
                QUEUES[request["episode"]] = queue.Queue()
                threading.Thread(target=served, args=(QUEUES[request["episode"]],), daemon=True).start()
            QUEUES[request["episode"]].put(request)
