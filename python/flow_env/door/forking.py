"""`start: fork`: the door's side of the process that has imported a program's packages and forks an episode (`zygote.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from .variables import environment

SCRIPT = str(Path(__file__).with_name("zygote.py"))


def end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


class Forked:
    """A forked process, as asyncio's processes are."""

    def __init__(self, pid: int, status: "asyncio.Future[int]") -> None:
        self.pid, self.status = pid, status

    async def wait(self) -> int:
        return await asyncio.shield(self.status)


class Forks:
    """Starts processes of one program in one folder by forks."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        self.command, self.folder = command, folder
        self.process: Optional[asyncio.subprocess.Process] = None
        self.requests: Optional[socket.socket] = None
        self.sender = ThreadPoolExecutor(1, "forks")
        self.begun: Dict[int, "asyncio.Future[Union[int, str]]"] = {}
        self.ended: Dict[int, "asyncio.Future[int]"] = {}
        self.number = 0
        self.starting = asyncio.Lock()
        self.listening: Optional["asyncio.Task[None]"] = None
        self.kept: Any = None
        """The pipe that is listened to: asyncio itself keeps neither."""

    async def start(self, env: Mapping[str, str], descriptors: List[int]) -> Forked:
        """A process with this environment and these descriptors as its first three."""
        loop = asyncio.get_running_loop()
        async with self.starting:  # one after the other, so that no request's descriptors come with another's
            if self.process is None or self.process.returncode is not None:
                await self.open()
            self.number += 1
            number = self.number
            own = self.ended
            self.begun[number], own[number] = loop.create_future(), loop.create_future()
            try:
                await loop.run_in_executor(self.sender, self.send, json.dumps({"id": number, "env": dict(env)}).encode() + b"\n", descriptors)
                pid = await self.begun[number]
            except OSError as error:
                pid = str(error)
            except asyncio.CancelledError:
                # It may still be forked: whoever hears of it then ends it.
                own.pop(number, None)
                raise
            finally:
                self.begun.pop(number, None)
        if isinstance(pid, str):
            raise OSError(f"`start: fork`: the process that forks has ended: {pid}")
        ended = own[number]
        ended.add_done_callback(lambda _: own.pop(number, None))
        return Forked(pid, ended)

    def send(self, line: bytes, descriptors: List[int]) -> None:
        assert self.requests
        sent = socket.send_fds(self.requests, [line], descriptors)
        self.requests.sendall(line[sent:])

    async def open(self) -> None:
        """Starts the process that forks. It has the variables that describe the machine, and none of an episode."""
        self.begun, self.ended = {}, {}
        self.requests, theirs = socket.socketpair()
        reports, end = os.pipe()
        try:
            env = environment((), {"PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "0"})
            self.process = await asyncio.create_subprocess_exec(
                self.command[0], SCRIPT, str(theirs.fileno()), str(end), *self.command[1:], cwd=self.folder, env=env, stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), end), start_new_session=True)
        finally:
            theirs.close()
            os.close(end)
        reader = asyncio.StreamReader()
        self.kept = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reports, "rb"))
        self.listening = asyncio.ensure_future(self.listen(reader))

    async def listen(self, reader: asyncio.StreamReader) -> None:
        begun, ended = self.begun, self.ended  # those of this process; another one has its own
        while True:
            line = await reader.readline()
            if not line:
                break
            report = json.loads(line)
            if "pid" in report:
                beginning = begun.get(report["id"])
                if beginning is not None and not beginning.done():
                    beginning.set_result(report["pid"])
                else:  # its episode ended while it was forked
                    end_group(report["pid"])
            else:
                ending = ended.get(report["id"])
                if ending is not None and not ending.done():
                    ending.set_result(report["status"])
        # What waits now waits in vain.
        for beginning in list(begun.values()):
            if not beginning.done():
                beginning.set_result("it closed its reports")
        for ending in list(ended.values()):
            if not ending.done():
                ending.set_result(-9)

    async def close(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self.sender.shutdown(wait=False)
