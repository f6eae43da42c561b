"""Environments of verifiers: `verifiers:TASKSET[,key=value...]`, such as `verifiers:gsm8k-v1` or `verifiers:tasks/sums.py,test=20`.

TASKSET is what the package's `vf-eval` takes, the name of an installed module that exports a taskset; or a module's file. The episode is
the package's own, with the environment that the taskset brings, its hooks, users, tools, stops, rewards and metrics. What it asks of a
model is the observation, and the action is the answer: any text, in which a tool may be called (see `tool_calls`). The reward comes at the
end, with the metrics as `info`; 1 and more is a win.

Where the taskset has a setting `split`, its values are the splits; else the last tenth of its tasks is `test`. Settings of the adapter:
`steps` (answers at most; what is there then is scored), `tasks` (so many of the taskset, 1,000 of an endless one), `test` (so many of them
are held out), `expert` (the field of the task that an expert would say), `env` and `harness` (the package's ids), `deterministic=false`.
All others are the taskset's.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, get_args

import verifiers.v1 as vf

from ..limits import INFO, NAME
from ..world import Fatal, View, World
from . import tool_calls, verifiers_chat
from .arguments import split

SPLITS = {"train": "train", "validation": "dev", "val": "dev", "dev": "dev", "test": "test", "eval": "test"}
"""What the splits of tasksets are called here."""
ENDLESS = 1_000
PATIENCE = 2.0
"""Seconds that an episode which is given up may take to end."""


class Verifiers(World):
    reuse = True
    global_random = True

    def __init__(self, arguments: str = "") -> None:
        plain, settings = split(arguments)
        if len(plain) != 1:
            raise ValueError(f"verifiers:TASKSET[,key=value...] names one taskset, not `{arguments}`")
        self.deterministic = bool(settings.pop("deterministic", True))
        self.gold = settings.pop("expert", None)
        if self.gold is None:
            self.lacks = frozenset({"expert"})  # type: ignore[misc]
        self.bench: Optional[Bench] = Bench.hold(arguments, plain[0], settings)
        self.splits = tuple(self.bench.rows)
        self.world = f"verifiers {version('verifiers')}"
        self.play: Optional[Play] = None

    def tasks(self, split: str) -> int:
        return len(self.open_bench.rows.get(split, ()))

    @property
    def open_bench(self) -> Bench:
        if self.bench is None:
            raise RuntimeError("this environment was closed")
        return self.bench

    def reset(self, task: Any, seed: int) -> View:
        self.leave()
        before = sum(len(self.open_bench.rows[name]) for name in self.splits[: self.splits.index(self.split)])
        self.row = self.open_bench.rows[self.split][int(task) - before]
        self.play = Play(self.open_bench, self.row)
        view = self.show()
        view.type = self.open_bench.name
        return view

    def step(self, action: str) -> View:
        if self.play is None:
            raise RuntimeError("no episode is open")
        self.play.answer(action)
        return self.show()

    def show(self) -> View:
        """What the episode asks next, or how it ended."""
        assert self.play is not None
        request = self.play.wait()
        if request is None:
            return ended(self.play.task.result())
        messages, tools = request
        system = [text(message) for message in messages if message.role == "system"]
        about = "\n\n".join(part for part in [*system, tool_calls.told([described(tool) for tool in tools])] if part)
        first, self.play.asked_before = not self.play.asked_before, True
        rest = [message for message in messages if message.role != "system"]
        shown = text(rest[0]) if len(rest) == 1 else "\n".join(f"{getattr(message, 'name', None) or message.role}: {text(message)}" for message in rest)
        return View(shown or "Go on.", instruction=about or None, gold=self.expert()) if first else View(shown or "Go on.")

    def expert(self) -> Optional[str]:
        answer = getattr(self.row.data, str(self.gold), None)
        return None if answer is None else str(answer)

    def leave(self) -> None:
        if self.play is not None:
            play, self.play = self.play, None
            play.end()

    def close(self) -> None:
        self.leave()
        if self.bench is not None:
            bench, self.bench = self.bench, None
            bench.drop()


class Play:
    """An episode of the package. It goes on only while somebody waits for what it asks next."""

    def __init__(self, bench: Bench, row: Any) -> None:
        self.bench = bench
        self.pending: asyncio.Future[Tuple[List[Any], List[Any]]] = bench.loop.create_future()
        self.reply: asyncio.Future[str] = bench.loop.create_future()
        self.lock = asyncio.Lock()
        self.calls = itertools.count()
        self.traces: List[str] = []
        self.asked_before = False
        self.task = bench.loop.create_task(bench.env.run_episode(row, bench.context, on_trace=self.follow))

    def follow(self, trace: Any) -> None:
        """Requests name their trace."""
        self.traces.append(trace.id)
        self.bench.policy.plays[trace.id] = self

    async def ask(self, messages: List[Any], tools: List[Any]) -> str:
        """What is answered to these messages. Agents who ask at the same time wait for each other."""
        async with self.lock:
            self.reply = self.bench.loop.create_future()
            self.pending.set_result((messages, tools))
            return await self.reply

    def wait(self) -> Optional[Tuple[List[Any], List[Any]]]:
        """The next messages to be answered; None if the episode is over."""
        loop, served = self.bench.loop, self.bench.served
        loop.run_until_complete(asyncio.wait({self.task, self.pending, served}, return_when=asyncio.FIRST_COMPLETED))
        if served.done():
            raise Fatal(f"what serves the environment has ended: {served.exception()}")
        return None if self.task.done() else self.pending.result()

    def answer(self, action: str) -> None:
        self.pending = self.bench.loop.create_future()
        self.reply.set_result(action)

    def end(self) -> None:
        """Ends the episode, wherever it is."""
        for name in self.traces:
            self.bench.policy.plays.pop(name, None)
        if not self.task.done():
            self.task.cancel()
            self.bench.loop.run_until_complete(asyncio.wait({self.task}, timeout=PATIENCE))
        if self.task.done() and not self.task.cancelled():
            self.task.exception()  # so that nobody complains that it was never asked for


class Policy(vf.Client):  # type: ignore[misc]
    """Stands where the package expects a model."""

    def __init__(self) -> None:
        self.plays: Dict[str, Play] = {}

    async def get_response(
        self, dialect: Any, body: Dict[str, Any], sampling: Any, session_id: Optional[str] = None, turn: Any = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Any:
        request = dialect.parse_request(body)
        tools = request.tools or []
        play = self.plays[session_id or ""]
        content, calls = tool_calls.calls(await play.ask(turn.tail if turn else request.messages, tools), {tool.name for tool in tools})
        message: Dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = [{"id": f"call_{next(play.calls)}", "type": "function", "function": {"name": name, "arguments": json.dumps(said)}}
                                     for name, said in calls]
        completion = {"id": "flow", "object": "chat.completion", "created": int(time.time()), "model": body["model"],
                      "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]}
        response = dialect.parse_response(dialect.validate_response(completion))
        response.raw = completion
        return response


class Bench:
    """An environment of the package and its servers, shared by all `Verifiers` of a process. Its event loop runs only while one of them waits."""

    running: Dict[str, Bench] = {}

    def __init__(self, taskset: str, settings: Dict[str, Any]) -> None:
        self.holders = 0
        module = importable(taskset)
        self.name = re.sub(r"[^\w./:+-]", "_", module.rsplit("/", 1)[-1].split("@")[0])
        env, steps, harness = settings.pop("env", ""), settings.pop("steps", None), settings.pop("harness", None)
        tasks, test = settings.pop("tasks", None), settings.pop("test", None)
        own = vf.default_harness_id(module)  # `bash`, a coding agent with a shell, unless the taskset brings one
        chosen_harness = harness or (own if own != "bash" else verifiers_chat.NAME)
        kind = vf.env_config_type(module, env)
        roles = {name: field.default for name, field in kind.model_fields.items() if isinstance(field.default, vf.AgentConfig)}
        seats = {name: {"runtime": {"type": "subprocess"}, "max_turns": steps or role.max_turns,
                        **({"harness": {"id": chosen_harness}} if role.harness is None else {})} for name, role in roles.items()}
        config = vf.resolve_env_config({"id": env, "taskset": {"id": module, **settings}, "interception": {"type": "server"}, **seats})
        self.env = vf.load_environment(config)
        self.rows = rows(self.env.taskset, "split" in settings, tasks, test)
        client = vf.TrainClientConfig(base_url="http://flow.invalid", api_key_var="FLOW_HAS_NO_KEY")
        self.context = vf.ModelContext(model="flow", client=client)
        self.policy = Policy()
        self.loop = asyncio.new_event_loop()
        self.over = asyncio.Event()
        ready = self.loop.create_future()
        self.served = self.loop.create_task(self.serve(ready))
        self.loop.run_until_complete(asyncio.wait({self.served, ready}, return_when=asyncio.FIRST_COMPLETED))
        if self.served.done():
            self.served.result()

    async def serve(self, ready: asyncio.Future[None]) -> None:
        """Holds the environment's servers open. One task does it from beginning to end, as its contexts want."""
        async with self.env.serving():
            self.env._interception.clients[self.context.client.model_dump_json()] = self.policy
            ready.set_result(None)
            await self.over.wait()

    @classmethod
    def hold(cls, name: str, taskset: str, settings: Dict[str, Any]) -> Bench:
        bench = cls.running.get(name)
        if bench is None:
            bench = cls.running[name] = cls(taskset, settings)
        bench.holders += 1
        return bench

    def drop(self) -> None:
        self.holders -= 1
        if self.holders > 0:
            return
        Bench.running = {name: bench for name, bench in Bench.running.items() if bench is not self}
        self.over.set()
        self.loop.run_until_complete(asyncio.wait({self.served}, timeout=PATIENCE))
        self.loop.close()


def importable(taskset: str) -> str:
    """A taskset's id; that of a file is its name, once its folder is where this process and the tools that it starts look for modules."""
    if not taskset.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return taskset
    file = Path(taskset).resolve()
    if not file.is_file():
        raise ValueError(f"there is no file {taskset}")
    sys.path.insert(0, str(file.parent))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(file.parent), os.environ.get("PYTHONPATH")]))
    return file.stem


def rows(taskset: Any, chosen: bool, tasks: Optional[int], test: Optional[int]) -> Dict[str, Sequence[Any]]:
    """The tasks of each split; `chosen` says that the taskset's own split was named."""

    def some(taskset: Any) -> List[Any]:
        most = tasks or (None if taskset.bounded else ENDLESS)
        return list(itertools.islice(taskset, most))

    field = type(taskset.config).model_fields.get("split")
    if field is not None and not chosen:
        names = [name for name in get_args(field.annotation) if name in SPLITS] or ["train", "test"]
        return {SPLITS[name]: some(vf.load_taskset(taskset.config.model_copy(update={"split": name}))) for name in names}
    all_tasks = some(taskset)
    held_out = max(1, len(all_tasks) // 10) if test is None else test
    if not 0 <= held_out <= len(all_tasks):
        raise ValueError(f"test={held_out}, but the taskset has {len(all_tasks)} tasks")
    cut = len(all_tasks) - held_out
    return {name: part for name, part in (("train", all_tasks[:cut]), ("test", all_tasks[cut:])) if part}


def ended(episode: Any) -> View:
    """How an episode ended: reward and figures, each the mean over the agents that are trained."""
    wrong = [error for part in [episode, *episode.traces] for error in part.errors]
    if not episode.ok:
        raise RuntimeError(f"{wrong[-1].type}: {wrong[-1].message}" if wrong else "the episode failed and doesn't say why")
    traces = [trace for trace in episode.traces if trace.agent.trainable] or episode.traces
    reward = mean([float(trace.reward) for trace in traces])
    collected: Dict[str, List[float]] = {}
    for trace in traces:
        parts = {name: None if part is None else part.value for name, part in trace.rewards.items()}
        for name, value in {**trace.metrics, **parts}.items():
            if value is not None:
                collected.setdefault(re.sub(r"[^a-z0-9_]", "_", name.lower())[:32], []).append(float(value))
    figures = {name: mean(values) for name, values in itertools.islice(((n, v) for n, v in collected.items() if NAME.match(n)), INFO)}
    why = str(traces[-1].stop_condition or "done")
    return View(f"The episode is over: {why}.", reward=reward, done=True, won=reward >= 1.0, score=reward, truncated=why.startswith("max_"), info=figures)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def text(message: Any) -> str:
    """What a message says."""
    if isinstance(message.content, str):
        return message.content
    parts = message.content or []
    if any(part.type != "text" for part in parts):
        raise RuntimeError("the environment shows a picture, and an observation is text")
    return "\n".join(part.text for part in parts)


def described(tool: Any) -> Dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


WORLD = Verifiers
