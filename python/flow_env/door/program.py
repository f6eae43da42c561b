"""A process with all its children, what it has printed, and its end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from asyncio.subprocess import Process
from pathlib import Path
from typing import List, Mapping, Optional, Sequence, Set, Union

from . import files
from .forking import Forked, Forks

OUTPUT = 1 << 20
"""So many bytes of standard output are kept: the last ones."""
COMPLAINTS = 8 << 10
"""So many bytes of standard error are kept."""
DRAIN = 2.0
"""Seconds in which the output of a dead process must come to its end."""
ROUNDS = 5
"""How often children that have left the group are looked for: one that is just being killed may have started another."""


class Program:
    """A running program in a process group of its own. `mark` is a text that stands in its environment and in no other one's."""

    def __init__(self, mark: str, boxed: bool = False) -> None:
        self.mark, self.boxed = mark.encode(), boxed
        self.output = bytearray()
        self.complaints = bytearray()
        self.process: Union[Process, Forked, None] = None
        self.pipes: List["asyncio.Task[None]"] = []

    async def start(self, command: Sequence[str], folder: str, env: Mapping[str, str], given: str, forks: Optional[Forks] = None) -> None:
        """Starts it, or has it forked; `given` is its standard input."""
        ends = [await self.pipe(self.output, OUTPUT), await self.pipe(self.complaints, COMPLAINTS)]
        try:
            with files.of_text(given) as stdin:
                if forks is not None:
                    self.process = await forks.start(env, [stdin.fileno(), *ends])
                    return
                self.process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=env, stdin=stdin, stdout=ends[0], stderr=ends[1],
                                                                    start_new_session=True)
        finally:
            for end in ends:
                os.close(end)

    async def pipe(self, into: bytearray, most: int) -> int:
        """A descriptor; the last bytes that are written to it are kept. A pipe of asyncio's own would make `wait` wait for grandchildren."""
        reader, (end, write) = asyncio.StreamReader(), os.pipe()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(end, "rb"))
        self.pipes.append(asyncio.ensure_future(kept(reader, into, most)))
        return write

    async def wait(self) -> int:
        """Its exit status, once it has ended and its output is read. Its children end with it."""
        assert self.process
        status = await self.process.wait()
        self.kill()
        await swept(self.mark)
        await asyncio.wait(self.pipes, timeout=DRAIN)
        return 128 - status if self.boxed and status > 128 else status  # a sandbox says a signal as a shell does

    def kill(self) -> None:
        """Kills the group."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    async def end(self) -> None:
        """Kills it with all its children and waits until they are gone."""
        if self.process is not None:
            self.kill()
            await self.process.wait()
            await swept(self.mark)
            for pipe in self.pipes:
                pipe.cancel()

    def last_words(self) -> str:
        return said_last(bytes(self.complaints))


def said_last(complaints: bytes) -> str:
    """The end of a standard error, the last line first: of a traceback it is the one that tells."""
    lines = [line for line in complaints.decode("utf-8", "replace").splitlines() if line.strip()][-12:]
    if not lines:
        return ""
    before = "\n  and before that:\n    " + "\n    ".join(lines[:-1]) if lines[:-1] else ""
    return f"\n  it last said: {lines[-1][:1000]}{before}"


async def kept(stream: asyncio.StreamReader, into: bytearray, most: int) -> None:
    """Reads a stream to its end and keeps the last bytes."""
    while True:
        chunk = await stream.read(1 << 16)
        if not chunk:
            return
        into += chunk
        del into[:max(0, len(into) - most)]


MARKS: Set[bytes] = set()
SWEEP = asyncio.Lock()


async def swept(mark: bytes) -> None:
    """Kills the processes with this text in their environment. One look at all processes serves everybody who waits for it."""
    MARKS.add(mark)
    async with SWEEP:
        if mark in MARKS:
            batch = set(MARKS)
            await asyncio.get_running_loop().run_in_executor(None, sweep, re.compile(b"|".join(map(re.escape, sorted(batch)))))
            MARKS.difference_update(batch)


def sweep(marks: "re.Pattern[bytes]") -> None:
    """Kills the processes in whose environment one of the marks stands (Linux; none elsewhere)."""
    for _ in range(ROUNDS):
        left = False
        for entry in Path("/proc").glob("[0-9]*/environ"):
            try:
                if marks.search(entry.read_bytes()):
                    os.kill(int(entry.parent.name), signal.SIGKILL)
                    left = True
            except OSError:
                continue
        if not left:
            return
