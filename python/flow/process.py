"""Runs the program to its end: its progress is shown, and an interrupt reaches it."""

from __future__ import annotations

import collections
import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import IO, Callable, Deque, NamedTuple, Optional, Sequence

from . import progress as line
from .program import found

# Seconds that the program gets to end after a second interrupt.
PATIENCE = 10.0
# Lines of standard error that are kept for the text of an error.
KEPT = 5000


class Ended(NamedTuple):
    """What a program left: its exit code and its outputs. `err` has no progress."""

    code: int
    out: bytes
    err: str


def execute(arguments: Sequence[str], *, progress: bool = False, text: Optional[str] = None) -> Ended:
    """Runs `flow` with these arguments and `text` as its input.

    An interrupt (Ctrl-C, or the notebook's stop button) is passed on: a run ends after the iteration at hand, and at once by a second interrupt. Either is
    raised as `KeyboardInterrupt` once the program has ended."""
    program, variables = found()
    # Jupyter asks for colours, which an error's text can't have.
    variables.pop("CLICOLOR_FORCE", None)
    variables["NO_COLOR"] = "1"
    shown = line.shown(progress)
    # In a session of its own, the program gets an interrupt from here only: a terminal and Jupyter send it to the whole group.
    with subprocess.Popen([program, *arguments], stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=variables, start_new_session=True, preexec_fn=tied(os.getpid())) as process:
        interrupts = 0
        try:
            reader = Reader(process, text)
            while True:
                try:
                    if reader.follow(shown):
                        process.wait()
                    break
                except KeyboardInterrupt:
                    interrupts += 1
                    if interrupts > 2:
                        raise
                    process.send_signal(signal.SIGINT)
                    reader.until = PATIENCE if interrupts > 1 else None
        finally:
            shown.end()
            finish(process)
    ended = Ended(process.returncode, reader.out, "\n".join(reader.err))
    if interrupts:
        raise KeyboardInterrupt(ended.err.strip().splitlines()[-1] if ended.err.strip() else "")
    return ended


def finish(process: "subprocess.Popen[bytes]") -> None:
    """Leaves no process behind."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


class Reader:
    """Reads both outputs of a process while it runs. Lines of standard error are shown by the thread that waits: a notebook's outputs belong to it."""

    def __init__(self, process: "subprocess.Popen[bytes]", text: Optional[str]) -> None:
        self.out = b""
        self.err: Deque[str] = collections.deque(maxlen=KEPT)
        self.lines: "queue.Queue[Optional[str]]" = queue.Queue()
        self.failing, self.open = False, 2
        # Seconds without any output after which `follow` gives up.
        self.until: Optional[float] = None
        self.started = [self.start(self.read_out, process.stdout), self.start(self.read_err, process.stderr)]
        if text is not None and process.stdin is not None:
            self.started.append(self.start(lambda pipe: write(pipe, text), process.stdin))

    def start(self, work: "Callable[[IO[bytes]], None]", pipe: Optional[IO[bytes]]) -> threading.Thread:
        assert pipe is not None
        thread = threading.Thread(target=work, args=(pipe,), daemon=True)
        thread.start()
        return thread

    def read_out(self, pipe: IO[bytes]) -> None:
        self.out = pipe.read()
        self.lines.put(None)

    def read_err(self, pipe: IO[bytes]) -> None:
        for read in pipe:
            self.lines.put(read.decode("utf-8", "replace").rstrip("\r\n"))
        self.lines.put(None)

    def follow(self, shown: line.Silent) -> bool:
        """Shows the lines that the process prints until it has closed both outputs: whether it has."""
        while self.open:
            try:
                read = self.lines.get(timeout=self.until)
            except queue.Empty:
                return False
            if read is None:
                self.open -= 1
                continue
            # An error's text is raised, so it isn't shown too.
            self.failing = self.failing or read.startswith("error: ")
            if line.PROGRESS.match(read) is None:
                self.err.append(read)
            if not self.failing and read:
                shown.show(read)
        return True


def write(pipe: IO[bytes], text: str) -> None:
    # A program that ends without reading says why on standard error.
    try:
        pipe.write(text.encode())
        pipe.close()
    except BrokenPipeError:
        pass


def tied(parent: int) -> "Optional[Callable[[], None]]":
    """Lets the program end when this process is killed, on Linux: in a session of its own, nothing else would end it."""
    if not sys.platform.startswith("linux"):
        return None
    prctl, terminate, die = ctypes.CDLL(None, use_errno=True).prctl, int(signal.SIGTERM), 1

    def tie() -> None:
        prctl(die, terminate)
        # The parent may have ended before the call.
        if os.getppid() != parent:
            os._exit(1)

    return tie
