"""A process with all its children, what it has printed, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

OUTPUT = 1 << 20
"""So many bytes of standard output are kept: the last ones."""
COMPLAINTS = 8 << 10
"""So many bytes of standard error are kept."""
DRAIN = 2.0
"""Seconds in which the output of a dead process must come to its end."""
ROUNDS = 5
"""How often children that have left the group are looked for: one that is just being killed may have started another."""
PASSED = {
    "PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "NODE_PATH",
    "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
    "FLOW_PROGRAM",  # by which flow finds what is left when this process was killed
}


def environment(passed: Sequence[str], more: Mapping[str, str]) -> Dict[str, str]:
    """The variables of a program: only such as say how the machine is set up, because others may be secrets."""
    chosen = {name: value for name, value in os.environ.items() if name in PASSED or name in passed or name.startswith(("LC_", "XDG_"))}
    return {**chosen, **more}


class Program:
    """A running program in a process group of its own. `mark` is a text that stands in its environment and in no other one's."""

    def __init__(self, mark: str) -> None:
        self.mark = mark.encode()
        self.output = bytearray()
        self.complaints = bytearray()
        self.process: Optional[Process] = None
        self.pipes: List["asyncio.Task[None]"] = []
        self.killed = False

    async def start(self, command: Sequence[str], folder: str, env: Mapping[str, str], given: bytes) -> None:
        self.process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True)
        process = self.process
        assert process.stdout and process.stderr
        self.pipes = [asyncio.ensure_future(read) for read in (
            self.feed(given), kept(process.stdout, self.output, OUTPUT), kept(process.stderr, self.complaints, COMPLAINTS))]

    async def feed(self, given: bytes) -> None:
        assert self.process and self.process.stdin
        stdin = self.process.stdin
        try:
            stdin.write(given)
            await stdin.drain()
            stdin.close()
        except (BrokenPipeError, ConnectionResetError):
            pass  # it doesn't read its input

    async def wait(self) -> int:
        """Its exit status, once it has ended and its output is read. Its children end with it."""
        assert self.process
        status = await self.process.wait()
        self.kill()
        await asyncio.wait(self.pipes, timeout=DRAIN)
        return status

    def kill(self) -> None:
        """Kills the group, and such children as have left it."""
        if self.process is None:
            return
        for pipe in self.pipes[:1]:
            pipe.cancel()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        for _ in range(0 if self.killed else ROUNDS):
            left = marked(self.mark)
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            if not left:
                break
        self.killed = True

    async def end(self) -> None:
        """Kills it and waits until it is gone."""
        if self.process is not None:
            self.kill()
            await self.process.wait()
            for pipe in self.pipes:
                pipe.cancel()

    def last_words(self) -> str:
        """The end of its standard error, the last line first: of a traceback it is the one that tells."""
        lines = [line for line in self.complaints.decode("utf-8", "replace").splitlines() if line.strip()][-12:]
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


def marked(mark: bytes) -> List[int]:
    """The processes with this text in their environment (Linux; none elsewhere)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
