"""The other end of the protocol: starts a program, asks it, and holds its answers against the protocol."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Deque, Dict, List, Mapping, Optional, Sequence, Tuple
from collections import deque

from . import limits
from .change import changed
from .limits import Json


class Broken(Exception):
    """The program doesn't follow the protocol, or is gone; the text says how, with the last lines of its standard error."""


class Program:
    """A running program, its hello, and the lists of actions that it has given."""

    def __init__(self, command: Sequence[str], seconds: float = 60.0, name: str = "check") -> None:
        self.command = list(command)
        self.seconds = seconds
        self.tail: Deque[str] = deque(maxlen=12)
        self.listed: Dict[int, List[str]] = {}
        self.child = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.lines: "queue.Queue[Optional[bytes]]" = queue.Queue()
        self.threads = [threading.Thread(target=body, daemon=True) for body in (self._answers, self._complaints)]
        for thread in self.threads:
            thread.start()
        self.hello: Json = {}
        try:
            self.hello = self._one(self._line({"request": "hello", "protocol": limits.PROTOCOL, "newest": limits.NEWEST, "name": name}, 60.0))
            wrong = limits.wrong_hello(self.hello)
            if wrong:
                raise self._broken("its answer to hello is wrong: " + "; ".join(wrong))
        except Broken:
            self.end(0.0)
            raise

    @property
    def asks(self) -> bool:
        """Whether it asks the policy itself (protocol 3): answers about different episodes come in any order."""
        return bool(self.hello.get("protocol") == limits.NEWEST)

    def _answers(self) -> None:
        assert self.child.stdout
        with self.child.stdout as stream:
            for line in stream:
                self.lines.put(line)
        self.lines.put(None)

    def _complaints(self) -> None:
        assert self.child.stderr
        with self.child.stderr as stream:
            for line in stream:
                self.tail.append(line.decode("utf-8", "replace").rstrip()[:300])

    def _broken(self, text: str) -> Broken:
        # A program that has ended has said all that it will say, but not all of it may have been read yet.
        self.threads[1].join(0.05 if self.child.poll() is None else 1.0)
        *before, last = self.tail or [""]
        # The last line first: of a traceback it is the one that tells.
        said = f"\n  it last said: {last}" if last else ""
        return Broken(text + said + ("\n  and before that:\n    " + "\n    ".join(before) if before else ""))

    def _line(self, request: Any, seconds: float) -> Any:
        assert self.child.stdin
        try:
            self.child.stdin.write(json.dumps(request).encode() + b"\n")
            self.child.stdin.flush()
        except OSError:
            pass  # that it is gone shows in its output
        return self._next(request, seconds)

    def _next(self, request: Any, seconds: float) -> Any:
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise self._broken(f"no answer within {seconds:g} s to {str(request)[:200]}") from None
        if line is None:
            try:
                status = f" (exit status {self.child.wait(1.0)})"
            except subprocess.TimeoutExpired:
                status = ""
            raise self._broken(f"it ended{status} when asked {str(request)[:200]}")
        if len(line) > limits.LINE:
            raise self._broken(f"its answer is a line of {len(line)} bytes")
        try:
            value = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
        except ValueError as error:
            raise self._broken(f"its answer is no JSON ({error}): {line[:120]!r}") from None
        if len(line) > limits.ANSWER and not self.asks and not (isinstance(request, dict) and request["request"] == "hello"):
            for answer in value if isinstance(value, list) else [value]:
                if len(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")) > limits.ANSWER:
                    raise self._broken(f"its answer has more than {limits.ANSWER} bytes: {line[:120]!r}")
        return value

    def _one(self, answer: Any) -> Json:
        if isinstance(answer, list) and len(answer) == 1:
            answer = answer[0]
        if not isinstance(answer, dict):
            raise self._broken(f"its answer is no object: {str(answer)[:120]}")
        return answer

    def ask(self, *requests: Mapping[str, Any]) -> List[Json]:
        """The checked answers to these requests, sent on one line. Lists of actions are given whole."""
        if not requests:
            return []
        came = self._line(requests[0] if len(requests) == 1 else list(requests), self.seconds)
        answers: Dict[int, Json] = {}
        while True:
            for answer in map(self._one, came if isinstance(came, list) else [came]):
                open_ = [place for place in range(len(requests)) if place not in answers]
                if not open_:
                    raise self._broken(f"it gave more answers than the {len(requests)} requests: {str(answer)[:120]}")
                own = [place for place in open_ if requests[place]["episode"] == answer.get("episode")]
                # Where answers come in order, one about another episode is found wrong.
                answers[own[0] if self.asks and own else open_[0]] = answer
            missing = [place for place in range(len(requests)) if place not in answers]
            if not missing:
                return [self._checked(request, answers[place]) for place, request in enumerate(requests)]
            came = self._next(requests[missing[0]], self.seconds)

    def _checked(self, request: Mapping[str, Any], answer: Json) -> Json:
        what, number = request["request"], request["episode"]
        if answer.get("episode") != number:
            raise self._broken(f"it answered for episode {answer.get('episode')!r} when {number} was asked: {str(answer)[:120]}")
        if "error" in answer:
            if set(answer) != {"episode", "error"} or not limits.is_text(answer["error"]):
                raise self._broken(f"its error is wrong: {str(answer)[:200]}")
            return answer
        have = self.listed.get(number)
        if what == "close":
            wrong = [] if answer == {"episode": number, "closed": True} else [f"it answered close by {str(answer)[:120]}"]
        elif what == "expert":
            action = answer.get("action")
            wrong = [] if set(answer) <= {"episode", "action"} and (action is None or limits.is_text(action)) else ["no `action`"]
        elif what == "actions":
            wrong = limits.wrong_actions(answer.get("actions"), have is not None)
        else:
            have = None if what in ("reset", "copy") else have
            wrong = limits.wrong_view(answer, what == "step", have is not None)
            if what != "step" and what != "rollback" and what != "copy" and answer.get("done"):
                wrong.append("the episode is over before its first step")
        if wrong:
            raise self._broken(f"its answer to {str(dict(request))[:160]} is wrong: " + "; ".join(wrong))
        if what in ("reset", "copy", "close"):
            self.listed.pop(number, None)
        actions = answer.get("actions")
        if isinstance(actions, dict):
            try:
                answer["actions"] = changed(have or [], actions)
            except (ValueError, TypeError) as error:
                raise self._broken(f"its change of actions doesn't fit: {error}") from None
        if isinstance(answer.get("actions"), list):
            self.listed[number] = answer["actions"]
        return answer

    def end(self, seconds: float = 6.0) -> Tuple[Optional[int], float, List[int]]:
        """Closes its input: its exit status (None when it had to be killed), how long that took, and who of its group was left."""
        assert self.child.stdin
        begun = time.monotonic()
        try:
            self.child.stdin.close()
        except OSError:
            pass
        try:
            status: Optional[int] = self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        took = time.monotonic() - begun
        left = group(self.child.pid)
        for _ in range(20):
            if not left or status is None:
                break
            time.sleep(0.05)
            left = group(self.child.pid)
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self.child.wait()
        for thread in self.threads:
            thread.join(1.0)
        return status, took, [pid for pid in left if pid != self.child.pid]


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def group(leader: int) -> List[int]:
    """The processes of a group that still run (Linux; empty elsewhere)."""
    processes = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader and fields[0] != "Z":
            processes.append(int(entry.parent.name))
    return processes


def serving(spec: str, *options: str) -> List[str]:
    """The command that serves a specification with this Python."""
    return [sys.executable, "-m", "flow_env", "serve", spec, *options]
