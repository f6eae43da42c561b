"""Conversations with rewards, one a line: OpenAI's messages, ShareGPT, verifiers before its traces, TRL's completions. Each message of
the assistant after the first other one is a turn."""

from __future__ import annotations

from typing import Any

from flow_env.games.seeds import mix, text

from . import messages
from .fields import patterns, unread
from .messages import Calls, Message, plain
from .values import Bad, at, is_number, mean, reward, spelled, summed

# Where a line has its conversation: messages, or a beginning and its continuation.
WHOLE = ("messages", "conversations")
PARTS = (("prompt", "completion"), ("prompt", "response"))
# Where it has its iteration, its task's name, the number of its sample.
STEPS = ("step", "global_step", "iteration")
TASKS = ("task_id", "example_id", "task", "id")
# The largest step that is read.
LAST_STEP = 1_000_000
# Fields that are read, or change nothing.
KNOWN = """reward rewards.** score metrics.** answer.** system tools.** advantage model step global_step iteration task_id example_id task.** id
    info.** timing.** is_truncated is_completed stop_condition generation_ms scoring_ms total_ms source created token_usage.** messages.**
    conversations.** prompt.** completion.** response.**""".split()


def is_one(line: Any) -> bool:
    """Whether a line looks like one of these."""
    return any(isinstance(at(line, key), list) for key in WHOLE) or parts(line) is not None


def parts(line: Any) -> tuple[str, str] | None:
    return next(((begin, end) for begin, end in PARTS if at(line, begin) is not None and at(line, end) is not None), None)


def read(line: Any, names: set[str]) -> dict[str, Any]:
    """The episode of a line; the names of fields that aren't read are added to `names`."""
    every, asked = conversation(line, names)
    prompt = messages.hashed(0, every[:asked])
    named = next((at(line, key) for key in TASKS if isinstance(at(line, key), str) or is_number(at(line, key))), None)
    name = prompt if named is None else mix(prompt, text(spelled(named)))
    kind = plain(messages.string(at(line, "task")))
    steps = (at(line, key) for key in STEPS)
    iteration = next((step for step in steps if isinstance(step, int) and not isinstance(step, bool) and step >= 0), 0)
    if iteration > LAST_STEP:
        raise Bad(f"its step is {iteration}, and a step becomes an iteration: it is at most {LAST_STEP}")
    earned, info = rewards(line)
    metrics = at(line, "metrics")
    info = {**info, **{key: value for key, value in (metrics.items() if isinstance(metrics, dict) else ()) if is_number(value)}}
    unread(line, patterns(KNOWN, info), names)
    task = "-".join(part for part in ("import", kind, f"{name:016x}") if part)
    truncated = "world" if at(line, "is_truncated") is True else ""
    episode = messages.episode(iteration=iteration, task=task, kind=kind, truncated=truncated, info=spelled(info) if info else "")
    own = at(line, "advantage")
    calls = answers(every, asked, mean([float(own)]) if is_number(own) else None)
    if not calls:
        return {**episode, "failure": messages.failure("error", "the conversation has no answer of an assistant")}
    if earned is None:
        why = "the conversation has no reward: give it `reward`, `rewards` or `score`"
        return {**episode, "failure": messages.failure("error", why)}
    return {**episode, "reward": reward(earned), "calls": calls}


def conversation(line: Any, names: set[str]) -> tuple[list[Message], int]:
    """The messages of a line, and how many of them were there before the model's first answer."""

    def several(value: Any, role: str) -> list[Message]:
        return [messages.read(message, names) for message in value] if isinstance(value, list) else [Message(role, messages.content(value))]

    system = [Message("system", at(line, "system"))] if isinstance(at(line, "system"), str) else []
    key = next((key for key in WHOLE if isinstance(at(line, key), list)), None)
    if key is not None:
        every = system + several(at(line, key), "user")
        return every, next((i for i, message in enumerate(every) if message.role == "assistant"), len(every))
    ends = parts(line)
    if ends is None:
        raise Bad("it has neither `messages`, `conversations` nor `prompt` with `completion`")
    begun = system + several(line[ends[0]], "user")
    return begun + several(line[ends[1]], "assistant"), len(begun)


def total(value: Any) -> float | None:
    if is_number(value):
        return float(value)
    every = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return summed([float(part) for part in every]) if every and all(map(is_number, every)) else None


def rewards(line: Any) -> tuple[float | None, dict[str, Any]]:
    """The reward of a line, and the parts that it has by name. TRL logs a number for each reward function and no sum."""
    own = next((key for key in ("reward", "rewards", "score") if at(line, key) is not None), None)
    if own is not None:
        earned = total(line[own])
        if earned is None:
            raise Bad(f"`{own}` is no number, and no numbers")
        return earned, dict(line[own]) if isinstance(line[own], dict) else {}
    if at(line, "advantage") is None:
        return None, {}
    # A run logs other numbers beside them, such as `kl`.
    found = {key: value for key, value in line.items() if is_number(value) and ("reward" in key or key.endswith("_func"))}
    return total(found), found


def answers(every: list[Message], asked: int, advantage: float | None) -> list[dict[str, Any]]:
    """The answers after the first `asked` messages; each has the conversation's advantage."""
    graph, calls, since, parent, state = Calls(), [], 0, 0, 0
    for i, message in enumerate(every):
        if i >= asked and message.role == "assistant":
            name, fork = graph.add(parent, every[since:i], every[:i])
            calls.append(messages.call(every[since:i], message, state=state, call=name, parent=parent, fork=fork, advantage=advantage))
            since, parent = i + 1, name
        state = mix(state, message.hash())
    return calls
