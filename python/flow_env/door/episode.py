"""An episode that asks: its calls of the policy, what flow sees of them, its end. What asks is a subclass."""

from __future__ import annotations

import asyncio
import os
import secrets
from typing import Any, ClassVar, Dict, List, Optional, Tuple, Union

from ..episodes import Refused
from ..limits import Json, clean, wrong_view
from . import calls, folders, graph, reward
from .ask import Ask, Refusal, Reply
from .forking import Forks
from .graph import Graph, Node
from .program import Program
from .removal import remove
from .sandbox import Sandbox
from .settings import Settings, canonical
from .variables import environment


TASK = 100_000
"""A task of more bytes isn't in `FLOW_TASK`: Linux starts no program with a variable of 128 kB."""


class Failure(Exception):
    """Why an episode has failed, in a text that says all."""


class Call:
    """A call that waits for its answer, or has it. Several requests may wait for one: an SDK tries again."""

    def __init__(self, ask: Ask, node: Node) -> None:
        self.ask: Optional[Ask] = ask
        self.node = node
        self.reply: "asyncio.Future[Reply]" = asyncio.get_running_loop().create_future()
        self.requests = 0
        self.delivered = False


class Episode:
    """Flow's requests for a view wait in `view`, the calls in `ask`."""

    ending: ClassVar[str] = "The program ended."
    strangers: ClassVar[bool] = False
    """Whether calls of unknown tools are calls, too, and no text."""
    sandbox: Optional[Sandbox] = None
    """Where its programs run; on this machine as they are if there is none."""

    def __init__(self, settings: Settings, task: Json, seed: int) -> None:
        self.settings, self.seed = settings, seed
        self.task = canonical(task)
        self.key = secrets.token_hex(16)
        self.home = folders.new()
        self.folder = os.path.join(self.home, "folder")
        self.homes = [self.home]
        """All its folders."""
        self.file = os.path.join(self.home, "task")
        self.input = self.task + "\n"
        """What its programs read from their standard input: not from the file, which they may change."""
        self.graph = Graph(self.scrub)
        self.calls: Dict[str, Call] = {}
        self.waiting: List[Call] = []
        self.shown: Optional[Call] = None
        self.changed = asyncio.Event()
        self.outcome: Optional[Json] = None
        self.told = False
        self.valid = True
        self.credit: Dict[str, float] = {}
        self.programs: List[Program] = []
        self.run: Optional["asyncio.Task[None]"] = None
        os.mkdir(self.folder)
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(self.input)

    def scrub(self, text: str) -> str:
        """A text without what differs between equal episodes."""
        for home in self.homes:
            text = text.replace(home, "FOLDER")
        return text

    def start(self) -> None:
        if self.outcome is None:
            self.run = asyncio.ensure_future(self.play())

    async def play(self) -> None:
        """Runs it to its end."""
        seconds = self.settings.episode_seconds
        try:
            outcome = await asyncio.wait_for(self.played(), seconds)
        except asyncio.TimeoutError:
            outcome = {"error": f"the episode took longer than `episode_seconds` ({seconds:g} s) after {self.so_far()}{self.last_words()}"}
        except (reward.NoReward, Failure) as error:
            outcome = {"error": f"{error}{self.last_words()}"}
        except OSError as error:
            outcome = {"error": f"a program can't be started: {error}"}
        except Exception as error:
            outcome = {"error": f"{cause(error)}{self.last_words()}"}
        self.finish(outcome)

    async def played(self) -> Json:
        """How the episode ended."""
        raise NotImplementedError

    def end(self, said: Json, truncated: bool = False) -> Json:
        """The last view, with this reward."""
        view = {"observation": self.ending, "reward": said["reward"], "done": True, "won": said.get("won", said["reward"] >= self.settings.won_at),
                "score": said.get("score", said["reward"]), "info": said.get("info", {})}
        if truncated:
            view["truncated"] = True
        wrong = wrong_view(view, True, False)
        if wrong:
            raise reward.NoReward("; ".join(wrong))
        if self.credit:
            view["credit"] = [[name, value] for name, value in sorted(self.credit.items())]
        return view

    def finish(self, outcome: Json) -> None:
        """The episode is over: nothing waits any more."""
        if self.outcome is None:
            self.outcome = {name: clean(value) if isinstance(value, str) else value for name, value in outcome.items()}
            if "error" in self.outcome:
                self.outcome["error"] = self.outcome["error"][:8000]
        for program in self.programs:
            program.kill()
        self.close_calls()
        self.changed.set()

    def close_calls(self) -> None:
        for call in self.calls.values():
            if not call.reply.done():
                call.reply.set_exception(over())
                call.reply.exception()  # so that nobody complains that it was never asked for

    def abandon(self, why: str) -> None:
        """Flow closes the episode, wherever it is."""
        self.finish({"error": why})

    async def clean_up(self) -> None:
        """Waits until nothing of it is left."""
        if self.run is not None:
            await asyncio.wait({self.run})
        await self.swept()
        for home in self.homes:
            await asyncio.get_running_loop().run_in_executor(folders.REMOVER, remove, home)

    async def swept(self) -> None:
        """Waits until no process of it is left."""
        for program in self.programs:
            await program.end()
        if self.sandbox is not None:
            await self.sandbox.ended(self.home)

    def so_far(self) -> str:
        count = len(self.graph.nodes)
        return f"{count} call{'' if count == 1 else 's'}"

    def last_words(self) -> str:
        """What its programs complained of last, to be added to an error."""
        return self.programs[-1].last_words() if self.programs else ""

    def variables(self) -> Dict[str, str]:
        """What its programs find in their environment, besides how the machine is set up."""
        task = {"FLOW_TASK": self.task} if len(self.task.encode()) <= TASK else {}
        return {"PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "0", **task, "FLOW_TASK_FILE": self.file, "FLOW_SEED": str(self.seed), "FLOW_FOLDER": self.folder}

    async def started(self, command: List[str], folder: str, more: Optional[Dict[str, str]] = None, forks: Optional[Forks] = None) -> Program:
        """A program in this folder, with the task on its input. One that gets `more` variables checks what another has done."""
        program = Program(self.home, self.sandbox is not None)
        self.programs.append(program)
        await program.start(self.boxed(command, folder, more), folder, self.environment(more), self.input, forks)
        if self.outcome is not None:
            program.kill()
        return program

    def environment(self, more: Optional[Dict[str, str]] = None) -> Dict[str, str]:
        """The environment of a program, or of the sandbox that it runs in."""
        client = self.sandbox.client if self.sandbox else ()
        return environment([*self.settings.passed, *client], {**self.variables(), **(more or {})})

    def boxed(self, command: List[str], folder: str, more: Optional[Dict[str, str]] = None) -> List[str]:
        """The command in the episode's sandbox, if it has one."""
        if self.sandbox is None:
            return command
        files = [path for path in (self.file, *(more or {}).values()) if os.path.isfile(path) and path.startswith(folders.own())]
        names = [*self.settings.passed, *self.variables(), *(more or {})]
        return self.sandbox.wrapped(command, folder, self.writable(), files, self.door(), more is not None, self.home, names)

    def writable(self) -> List[Tuple[str, str]]:
        """The folders that its programs may write to, each with the place where they find it."""
        return [(self.folder, self.folder)]

    def door(self) -> Optional[Tuple[int, str]]:
        """The port and the socket at which its programs reach the door."""
        return None

    async def checked(self, command: List[str], folder: str, **texts: Tuple[str, Union[str, bytes]]) -> Json:
        """The reward that a checking command prints. The task and these texts are files in a folder that no earlier program knows: each
        variable names a file and has its content."""
        self.homes.append(folders.new())
        paths = {}
        for variable, (name, text) in {"FLOW_TASK_FILE": ("task", self.input), **texts}.items():
            paths[variable] = os.path.join(self.homes[-1], name)
            with open(paths[variable], "wb") as file:
                file.write(text.encode() if isinstance(text, str) else text)
        check = await self.started(command, folder, paths)
        status = await check.wait()
        said = reward.of_text(check.output.decode("utf-8", "replace"), "the last line of the checking command")
        if said is None or status != 0:
            lacking = "" if said is not None else f" and printed no reward{reward.last_line(check.output)}"
            raise reward.NoReward(f"the checking command ended with exit status {status}{lacking}")
        return said

    def expert(self) -> Optional[str]:
        """What an expert would answer now."""
        return None

    def ask(self, asked: Ask) -> Call:
        """A new call."""
        if self.outcome is not None:
            raise over()
        if len(self.graph.nodes) >= self.settings.calls:
            self.finish({"error": f"it makes more than the {self.settings.calls} calls that the setting `calls` allows{self.last_words()}"})
            raise over()
        if not self.settings.parallel and any(call.requests for call in [*self.waiting, self.shown] if call):
            self.finish({"error": "two of its calls overlap, and which one comes first differs from run to run: say `parallel: true` in the "
                                  f"environment's settings, so that rows don't depend on it{self.last_words()}"})
            raise over()
        call = Call(asked, self.graph.add(asked))
        self.calls[call.node.id] = call
        self.waiting.append(call)
        self.changed.set()
        return call

    # Of flow

    async def view(self) -> Json:
        """The next call of the program, or how it ended."""
        while self.outcome is None and not self.waiting:
            self.changed.clear()
            await self.changed.wait()
        if self.outcome is not None:
            self.told = True
            return self.outcome if self.valid or "error" in self.outcome else {**self.outcome, "valid": False}
        self.shown = min(self.waiting, key=lambda call: (call.node.depth, call.node.id))
        self.waiting.remove(self.shown)
        node, ask = self.shown.node, self.shown.ask
        assert ask
        tail = ask.messages[node.since:]
        about: Json = {"id": node.id, "model": ask.model, "messages": ask.messages}
        for name, value in (("tools", ask.tools), ("on", node.on and node.on.id), ("since", node.since), ("fork", node.fork),
                            ("max_tokens", ask.max_tokens), ("stop", ask.stop), ("must_call", ask.must_call)):
            if value:
                about[name] = value
        texts = [shown(message) for message in tail]
        view: Json = {"observation": (tail[0]["content"] if len(tail) == 1 else "\n".join(texts)) or "(no text)", "state": node.state, "reward": 0,
                      "done": False, "call": about}
        if ask.choices:
            view["actions"] = ask.choices
        return view if self.valid else {**view, "valid": False}

    def answer(self, request: Json) -> None:
        """Answers the call that was shown last."""
        if self.told:
            raise Refused("the episode is over")
        call, self.shown = self.shown, None
        if self.outcome is not None:
            return
        if call is None:
            raise Refused("no call waits for an answer")
        ask, call.ask = call.ask, None
        self.valid = True
        if request["request"] == "refuse":
            call.reply.set_exception(too_long(request))
            call.reply.exception()
            return
        text = request.get("action")
        if not isinstance(text, str):
            raise Refused("the step has no `action`")
        assert ask
        content, found, self.valid = calls.parse(text, ask.tools, self.strangers)
        names = [(f"call_{call.node.id}_{place}", name, arguments) for place, (name, arguments) in enumerate(found[:1] if ask.single else found)]
        prompt, response = (request.get("usage") or [0, 0])[:2]
        reply = Reply(clean(content), names, bool(request.get("cut")), int(prompt), int(response))
        call.node.answer = graph.answer(reply)
        call.reply.set_result(reply)


def cause(error: BaseException) -> str:
    """What an error says; of several that came together the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, (reward.NoReward, Failure)) else f"{type(error).__name__}: {error}"


def shown(message: Json) -> str:
    """A message for people."""
    parts = [message["content"], *(f"{call['function']['name']}({canonical(call['function']['arguments'])})" for call in message.get("tool_calls", []))]
    return f"{message['role']}: " + "\n".join(part for part in parts if part)


def over() -> Refusal:
    return Refusal("the episode is over", 409, "conflict_error", "episode_over")


def too_long(request: Json) -> Refusal:
    reason, tokens, limit = request.get("reason"), request.get("tokens"), request.get("limit")
    if reason != "too_long":
        return Refusal(f"the call can't be answered: {reason}")
    refusal = Refusal(f"prompt is too long: {tokens} tokens > {limit} maximum", param="messages")
    refusal.tokens = (int(tokens or 0), int(limit or 0))
    return refusal
