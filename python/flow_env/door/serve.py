"""Requests of flow from standard input, answers to standard output: in any order, those of one episode in the order of its requests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Set

from .. import limits
from ..episodes import Refused
from ..limits import Json
from ..serve import GRACE, WRITER, lines
from ..world import Fatal
from . import folders
from .episode import Episode
from .settings import Wrong
from .world import World

PROTOCOL = 3


class Door:
    def __init__(self, world: World, words: Optional[List[str]], writer: BinaryIO) -> None:
        self.world, self.settings, self.tasks, self.words, self.writer = world, world.settings, world.tasks, words, writer
        self.open: Dict[int, Episode] = {}
        self.last: Dict[int, "asyncio.Task[None]"] = {}
        self.closing: Set[Episode] = set()

    def hello(self) -> Json:
        return {
            "protocol": PROTOCOL, "world": self.world.name, "splits": {name: list(some) for name, some in self.tasks.splits.items()},
            "live": self.settings.live, "abilities": list(self.world.abilities), "rules": "", "words": self.tasks.words() if self.words is None else self.words,
            "parallel": self.settings.parallel,
        }

    def take(self, request: Json) -> None:
        """Begins to answer a request."""
        if request.get("request") == "hello":
            return self.write(self.hello())
        number = request.get("episode")
        if not isinstance(number, int) or isinstance(number, bool):
            raise Fatal(f"the request names no episode: {str(request)[:200]}")
        before, old, failure = self.last.get(number), self.open.get(number), None
        if request.get("request") in ("reset", "close") and old is not None:
            self.close(self.open.pop(number))
        if request.get("request") == "reset":
            try:
                self.open[number] = self.reset(request)
            except Refused as refused:
                failure = refused
            except OSError as error:  # a full disk
                failure = Refused(f"the episode's folder can't be made: {error}")
        task = asyncio.ensure_future(self.reply(before, number, request, self.open.get(number), failure))
        self.last[number] = task
        task.add_done_callback(lambda done: self.last.pop(number) if self.last.get(number) is done else None)

    async def reply(self, before: "Optional[asyncio.Task[None]]", number: int, request: Json, episode: Optional[Episode], failure: Optional[Refused]) -> None:
        """Answers a request once those before it about the same episode are answered."""
        if before is not None:
            await asyncio.wait({before})
        try:
            if failure is not None:
                raise failure
            answer = await self.answer(request, episode)
        except Refused as refused:
            answer = {"error": str(refused)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
            if episode is not None:
                episode.finish(answer)
        self.write({"episode": number, **answer})

    async def answer(self, request: Json, episode: Optional[Episode]) -> Json:
        what = request.get("request")
        if what == "close":
            return {"closed": True}
        if episode is None:
            raise Refused("the episode isn't open")
        if what == "expert":
            return {"action": None if episode.outcome is not None else episode.expert()}
        if what == "reset":
            episode.start()
        elif what in ("step", "refuse"):
            episode.answer(request)
        else:
            raise Refused(f"there is no request {what!r}")
        return await episode.view()

    def reset(self, request: Json) -> Episode:
        split, name, seed = request.get("split"), request.get("task"), request.get("seed")
        task = self.tasks.splits.get(str(split), {}).get(str(name))
        if task is None:
            raise Refused(f"there is no task {name!r} in a split {split!r}")
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise Refused("the reset has no `seed` from 0 on")
        if len(self.open) >= self.settings.live:
            raise Refused(f"{len(self.open)} episodes are open, and `live` is {self.settings.live}")
        return self.world.episode(task, seed)

    def close(self, episode: Episode) -> None:
        """Ends an episode now; what is left of it is cleaned up beside."""
        episode.abandon("the episode was closed")
        self.world.closed(episode)
        self.closing.add(episode)
        task = asyncio.ensure_future(episode.clean_up())
        task.add_done_callback(lambda _: self.closing.discard(episode))

    async def end(self) -> None:
        for episode in self.open.values():
            self.close(episode)
        while self.closing:
            await asyncio.sleep(0.01)
        await self.world.end()

    def write(self, answer: Json) -> None:
        try:
            line = WRITER.encode(answer).encode()
            wrong = f"its answer has {len(line)} bytes, and {limits.LINE} are allowed" if len(line) > limits.LINE else ""
        except ValueError as error:  # an infinite number, or a text that UTF-8 can't hold
            wrong = f"its answer can't be written: {error}"
        if wrong:
            line = json.dumps({"episode": answer.get("episode"), "error": wrong}).encode()
        self.writer.write(line + b"\n")
        self.writer.flush()


def main(make: Callable[[], World], reader: BinaryIO, writer: BinaryIO, words: Optional[List[str]]) -> int:
    """Answers until the input ends; gives the exit status."""
    try:
        world = make()
    except Wrong as wrong:
        print(f"flow-env: {wrong}", file=sys.stderr, flush=True)
        folders.remove_own()
        return 1
    folders.remove_stale()
    try:
        asyncio.run(conversation(Door(world, words, writer), reader))
    except (Fatal, BrokenPipeError) as error:
        print(f"the door can't go on: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        folders.remove_own()
    return 0


async def conversation(door: Door, reader: BinaryIO) -> None:
    loop, requests = asyncio.get_running_loop(), asyncio.Queue()  # type: ignore[var-annotated]
    loop.add_signal_handler(signal.SIGTERM, requests.put_nowait, None)
    await door.world.begin()

    def read() -> None:
        try:
            for line in lines(reader):
                loop.call_soon_threadsafe(requests.put_nowait, line)
            loop.call_soon_threadsafe(requests.put_nowait, None)
        except Fatal as error:
            loop.call_soon_threadsafe(requests.put_nowait, error)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            line = await requests.get()
            if line is None:
                return
            if isinstance(line, Fatal):
                raise line
            for request in requested(line):
                door.take(request)
    finally:
        watch = threading.Timer(GRACE, give_up)
        watch.daemon = True
        watch.start()
        await door.end()


def give_up() -> None:
    folders.remove_own()
    os._exit(1)


def requested(line: bytes) -> List[Json]:
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise Fatal(f"a request is no JSON ({error}): {line[:80]!r}") from None
    requests = value if isinstance(value, list) else [value]
    if not all(isinstance(request, dict) for request in requests):
        raise Fatal(f"a request is no object: {str(value)[:80]}")
    return requests
