"""Flow's side of protocol 3 with a scripted policy, and programs that are written in a test."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1]


def python(settings):
    """The Python that a program runs in: this one, or an image's."""
    return "python3" if settings.get("image") else sys.executable


class Flow:
    """A door and what it has answered. A policy gives the text for a call, or an object of a request's fields."""

    def __init__(self, command, tasks=({"id": "one"},), seconds=30.0, **settings):
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name)
        if isinstance(command, str):
            (path / "agent.py").write_text(command)
            command = [python(settings), "agent.py"]
        (path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
        told = {"command": command, "tasks": str(path / "tasks.jsonl"), "folder": self.folder.name, **settings}
        self.open("program:" + json.dumps(told), seconds)

    @classmethod
    def of(cls, world, seconds=30.0):
        """The door of any environment."""
        flow = cls.__new__(cls)
        flow.folder = tempfile.TemporaryDirectory()
        flow.open(world, seconds)
        return flow

    def open(self, world, seconds):
        self.seconds = seconds
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(PYTHON), os.environ.get("PYTHONPATH")]))}
        self.child = subprocess.Popen([sys.executable, "-m", "flow_env", "serve", world], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True)
        self.lines = queue.Queue()
        self.complaints = []
        threading.Thread(target=self.read, daemon=True).start()
        self.listening = threading.Thread(target=lambda: self.complaints.extend(self.child.stderr), daemon=True)
        self.listening.start()
        self.hello = self.ask({"request": "hello", "protocol": 2, "newest": 3, "name": "test"})

    def read(self):
        for line in self.child.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def send(self, *requests):
        self.child.stdin.write(json.dumps(requests[0] if len(requests) == 1 else requests).encode() + b"\n")
        self.child.stdin.flush()

    def next(self):
        answer = self.lines.get(timeout=self.seconds)
        if answer is None:
            self.listening.join(5)
            raise RuntimeError(f"the door ended: {b''.join(self.complaints[-5:]).decode()}")
        return answer

    def ask(self, *requests):
        self.send(*requests)
        return self.next()

    def play(self, policy, tasks=("one",), seed=7, split="train"):
        """Episodes of these tasks, all at once. Gives of each its calls and its last answer."""
        played = {number: ([], None) for number in range(len(tasks))}
        self.send(*[{"request": "reset", "episode": number, "split": split, "task": task, "seed": seed} for number, task in enumerate(tasks)])
        left = len(tasks)
        while left:
            view = self.next()
            number = view["episode"]
            if view.get("closed"):
                left -= 1
                continue
            if "call" not in view:
                played[number] = (played[number][0], view)
                self.send({"request": "close", "episode": number})
                continue
            call = {**view["call"], "view": view}
            played[number][0].append(call)
            said = policy(call)
            fields = said if isinstance(said, dict) else {"action": said, "cut": False, "usage": [10, 3]}
            self.send({"request": "step", "episode": number, **fields})
        return [played[number] for number in range(len(tasks))]

    def end(self):
        self.child.stdin.close()
        began = time.monotonic()
        status = self.child.wait(10)
        self.folder.cleanup()
        return status, time.monotonic() - began


def tool_calls(*calls):
    """What a policy of the Hermes family says to call tools."""
    return "\n".join(f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>" for name, arguments in calls)
