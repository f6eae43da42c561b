"""Requests from standard input, answers to standard output, until the input ends."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from typing import Any, BinaryIO, Callable, Iterator, List, Optional, Tuple

from . import limits
from .episodes import Episodes, Late
from .limits import Json
from .world import Fatal

CHUNK = 0.02
"""Answers to an array are written at least so often, in seconds, so that a process that dies leaves few unanswered."""
WORDS = 30.0
"""How long words may be gathered before hello is answered, in seconds; flow waits for a minute."""
GRACE = 4.0
"""How long the environments may take to close when the input has ended, in seconds."""
WRITER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
"""Makes JSON of all answers; `json.dumps` would make an encoder for each."""


class Ended(BaseException):
    """A signal asked the process to end."""


def end(*_: Any) -> None:
    raise Ended


def own_the_pipes() -> Tuple[BinaryIO, BinaryIO]:
    """Takes descriptors 0 and 1 for the protocol, so that no print of a library and no child gets between. Call this before
    anything else is imported."""
    reader, writer = os.dup(0), os.dup(1)
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    return io.BufferedReader(io.FileIO(reader, "r"), 1 << 16), io.BufferedWriter(io.FileIO(writer, "w"), 1 << 16)


def serve(begin: Callable[[], Episodes], reader: BinaryIO, writer: BinaryIO, seconds: Optional[float] = None) -> int:
    """Answers until the input ends; gives the exit status. `begin` is called first, so that hello finds the environment ready."""
    signal.signal(signal.SIGTERM, end)
    limit = alarm()
    try:
        episodes = begin()
    except Exception as error:
        print(f"the environment can't be made: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    status = 0
    try:
        conversation(episodes, reader, writer, limit, seconds or 0.0)
    except Fatal as error:
        print(f"the environment can't go on: {error}", file=sys.stderr, flush=True)
        status = 1
    except BrokenPipeError:
        status = 1
    except Ended:
        pass
    finally:
        watch = threading.Timer(GRACE, os._exit, (status,))
        watch.daemon = True
        watch.start()
        try:
            episodes.end()
        except BaseException as error:
            print(f"closing failed: {error}", file=sys.stderr, flush=True)
    return status


def conversation(episodes: Episodes, reader: BinaryIO, writer: BinaryIO, limit: Callable[[float], None], seconds: float) -> None:
    for line in lines(reader):
        try:
            message = json.loads(line)
        except ValueError as error:
            raise Fatal(f"a request is no JSON ({error}): {line[:80]!r}") from None
        batched = isinstance(message, list)
        written, answers = time.monotonic(), []
        for request in message if batched else [message]:
            if not isinstance(request, dict):
                raise Fatal(f"a request is no object: {str(request)[:80]}")
            if request.get("request") == "hello":
                answer = greeting(episodes, limit)
            else:
                limit(seconds)
                try:
                    answer = episodes.answer(request)
                except Late as late:  # between the environment and the limit's end
                    answer = {"episode": request.get("episode"), "error": str(late)}
                finally:
                    limit(0.0)
            answers.append(encoded(answer))
            if batched and time.monotonic() - written > CHUNK or sum(map(len, answers)) > limits.ANSWER:
                write(writer, answers)
                written, answers = time.monotonic(), []
        write(writer, answers)


def greeting(episodes: Episodes, limit: Callable[[float], None]) -> Json:
    """The answer to hello: in time, if need be without words."""
    limit(WORDS)
    try:
        return episodes.hello()
    except Late:
        print(f"no words of this environment were gathered within {WORDS:g} s: name them in the class (`words`) or by --words FILE", file=sys.stderr, flush=True)
        return episodes.hello(gather=False)
    finally:
        limit(0.0)


def lines(reader: BinaryIO) -> Iterator[bytes]:
    while True:
        line = reader.readline(limits.LINE + 1)
        if not line:
            return
        if len(line) > limits.LINE:
            raise Fatal(f"a request is a line of more than {limits.LINE} bytes")
        if line.strip():
            yield line


def encoded(answer: Json) -> bytes:
    """An answer as JSON; one that is too long becomes an error."""
    line = WRITER.encode(answer).encode()
    if len(line) > (limits.ANSWER if "episode" in answer else limits.LINE):
        text = f"its answer has {len(line)} bytes, and {limits.ANSWER} are allowed"
        line = json.dumps({"episode": answer.get("episode"), "error": text}).encode()
    return line


def write(writer: BinaryIO, answers: List[bytes]) -> None:
    if answers:
        writer.write(answers[0] if len(answers) == 1 else b"[" + b",".join(answers) + b"]")
        writer.write(b"\n")
        writer.flush()


def alarm() -> Callable[[float], None]:
    """Sets a limit in seconds (0: none): when it is over, `Late` is raised wherever the environment is, if that is in Python."""
    allowed = 0.0

    def late(*_: Any) -> None:
        raise Late(f"no answer of the environment within {allowed:g} s")

    def limit(seconds: float) -> None:
        nonlocal allowed
        if seconds or allowed:
            allowed = seconds
            signal.setitimer(signal.ITIMER_REAL, seconds)

    signal.signal(signal.SIGALRM, late)
    return limit
