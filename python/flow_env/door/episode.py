"""One run of a program: its calls, its rewards, its end."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
from typing import Any, Dict, List, Optional

from ..episodes import Refused
from ..limits import Json, clean, wrong_view
from . import calls, graph, reward
from .ask import Ask, Refusal, Reply
from .graph import Graph, Node
from .program import Program, environment
from .settings import Settings, canonical



class Call:
    """A call that waits for its answer, or has it. Several requests may wait for one: an SDK tries again."""

    def __init__(self, ask: Ask, node: Node) -> None:
        self.ask: Optional[Ask] = ask
        self.node = node
        self.reply: "asyncio.Future[Reply]" = asyncio.get_running_loop().create_future()
        self.requests = 0
        self.delivered = False


class Episode:
    """Flow's requests for a view wait in `view`, the program's calls in `ask`."""

    def __init__(self, settings: Settings, port: int, split: str, task: Json, seed: int) -> None:
        self.settings, self.port, self.split, self.seed = settings, port, split, seed
        self.task = canonical(task)
        self.key = secrets.token_hex(16)
        self.home = tempfile.mkdtemp(prefix="flow-")
        self.folder = os.path.join(self.home, "folder")
        self.graph = Graph(self.scrub)
        self.calls: Dict[str, Call] = {}
        self.waiting: List[Call] = []
        self.shown: Optional[Call] = None
        self.changed = asyncio.Event()
        self.outcome: Optional[Json] = None
        self.told = False
        self.valid = True
        self.posted: Optional[Json] = None
        self.credit: Dict[str, float] = {}
        self.store: Json = {}
        self.digests: Dict[str, List[Call]] = {}
        self.programs: List[Program] = []
        self.run: Optional["asyncio.Task[None]"] = None

    def scrub(self, text: str) -> str:
        return text.replace(self.home, "FOLDER").replace(self.key, "KEY").replace(f"127.0.0.1:{self.port}", "127.0.0.1:PORT")

    def start(self) -> None:
        if self.outcome is None:
            self.run = asyncio.ensure_future(self.play())

    async def play(self) -> None:
        """Runs the program to its end."""
        seconds = self.settings.episode_seconds
        try:
            outcome = await asyncio.wait_for(self.played(), seconds)
        except asyncio.TimeoutError:
            outcome = {"error": f"the program took longer than `episode_seconds` ({seconds:g} s) after {self.so_far()}{self.last_words()}"}
        except reward.NoReward as error:
            outcome = {"error": f"{error}{self.last_words()}"}
        except OSError as error:
            outcome = {"error": f"the program can't be started: {error}"}
        except Exception as error:
            outcome = {"error": f"{type(error).__name__}: {error}"}
        self.finish(outcome)

    async def played(self) -> Json:
        os.mkdir(self.folder)
        with open(os.path.join(self.home, "task"), "w", encoding="utf-8") as file:
            file.write(self.task + "\n")
        settings, program = self.settings, await self.started(self.settings.command, {})
        status = await program.wait()
        if self.outcome is not None:
            return self.outcome
        self.close_calls()
        checker = settings.reward.get("command") if isinstance(settings.reward, dict) else None
        if status != 0 and not checker:
            how = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
            return {"error": f"the program {how} after {self.so_far()}{program.last_words()}"}
        if not self.graph.nodes:
            return {"error": f"the program ended without a call of the model: it must use OPENAI_BASE_URL or ANTHROPIC_BASE_URL{program.last_words()}"}
        return self.end(await self.rewarded(program, checker))

    async def started(self, command: List[str], more: Dict[str, str]) -> Program:
        program = Program(self.home)
        self.programs.append(program)
        base = f"http://127.0.0.1:{self.port}/e/{self.key}"
        env = environment(self.settings.passed, {
            "OPENAI_BASE_URL": base + "/v1", "OPENAI_API_KEY": self.key, "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": self.key,
            "ANTHROPIC_AUTH_TOKEN": self.key, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "0", "FLOW_TASK": self.task, "FLOW_SEED": str(self.seed), "FLOW_FOLDER": self.folder, **more,
        })
        await program.start(command, self.settings.folder, env, os.path.join(self.home, "task"))
        if self.outcome is not None:
            program.kill()
        return program

    async def rewarded(self, program: Program, checker: Optional[List[str]]) -> Json:
        """The reward, in the way that the settings say."""
        way, output = self.settings.reward, program.output.decode("utf-8", "replace")
        if checker:
            path = os.path.join(self.home, "output")
            with open(path, "wb") as kept:
                kept.write(program.output)
            check = await self.started(checker, {"FLOW_OUTPUT": path})
            status = await check.wait()
            said = reward.of_text(check.output.decode("utf-8", "replace"), "the last line of the checking command")
            lacking = f"the checking command ended with exit status {status} and printed no reward in its last line"
            if said is None and self.posted is not None:
                raise reward.NoReward(lacking)
        elif isinstance(way, dict):
            places = [os.path.join(folder, way["file"]) for folder in (self.folder, self.settings.folder)]
            said = next((each for each in map(reward.of_file, places) if each is not None), None)
            lacking = f"the program wrote no reward to {way['file']}"
        elif way == "output":
            said = reward.of_text(output, "the last line of the program's output")
            lacking = 'the program printed no reward in its last line, such as {"reward": 1.0, "won": true}'
        else:
            said = {"reward": 0.0} if self.credit and self.posted is None else None
            lacking = "the program posted no reward"
        return reward.agreed(said, self.posted, lacking)

    def end(self, said: Json) -> Json:
        view = {"observation": "The program ended.", "reward": said["reward"], "done": True, "won": said.get("won", said["reward"] >= self.settings.won_at),
                "score": said.get("score", said["reward"]), "info": said.get("info", {})}
        wrong = wrong_view(view, True, False)
        if wrong:
            raise reward.NoReward("; ".join(wrong))
        if self.credit:
            view["credit"] = [[name, value] for name, value in sorted(self.credit.items())]
        return view

    def finish(self, outcome: Json) -> None:
        """The episode is over: nothing waits any more, and all that runs is killed."""
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
        for program in self.programs:
            await program.end()
        await asyncio.get_running_loop().run_in_executor(None, lambda: shutil.rmtree(self.home, ignore_errors=True))

    def so_far(self) -> str:
        count = len(self.graph.nodes)
        return f"{count} call{'' if count == 1 else 's'}"

    def last_words(self) -> str:
        return self.programs[-1].last_words() if self.programs else ""

    # Of the program

    def ask(self, asked: Ask) -> Call:
        """A new call of the program."""
        if self.outcome is not None:
            raise over()
        if len(self.graph.nodes) >= self.settings.calls:
            self.finish({"error": f"limit of {self.settings.calls} calls{self.last_words()}"})
            raise over()
        call = Call(asked, self.graph.add(asked))
        self.calls[call.node.id] = call
        self.waiting.append(call)
        self.changed.set()
        return call

    def earn(self, body: Json) -> None:
        """A reward that the program posts: of the episode, or of a call."""
        if self.outcome is not None:
            raise over()
        named = body.pop("call", None)
        try:
            said = reward.read(body, "the body")
        except reward.NoReward as error:
            raise Refusal(str(error)) from None
        if named is None:
            self.posted = said
            return
        call = self.calls.get(str(named).rpartition("-" if "-" in str(named) else "_")[2])
        if call is None:
            raise Refusal(f"no call has the id {str(named)[:80]!r}: take the `id` of a response", 404)
        self.credit[call.node.id] = self.credit.get(call.node.id, 0.0) + said["reward"]

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
                            ("max_tokens", ask.max_tokens), ("stop", ask.stop)):
            if value:
                about[name] = value
        texts = [shown(message) for message in tail]
        view: Json = {"observation": (tail[0]["content"] if len(tail) == 1 else "\n".join(texts)) or "(no text)", "state": node.state, "reward": 0,
                      "done": False, "call": about}
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
        content, found, self.valid = calls.parse(text, ask.tools)
        names = [(f"call_{call.node.id}_{place}", name, arguments) for place, (name, arguments) in enumerate(found[:1] if ask.single else found)]
        prompt, response = (request.get("usage") or [0, 0])[:2]
        reply = Reply(clean(content), names, bool(request.get("cut")), int(prompt), int(response))
        call.node.answer = graph.answer(reply)
        call.reply.set_result(reply)


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
