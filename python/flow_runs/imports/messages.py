"""Messages of a conversation: their text, and which call goes on from which."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flow_env.games.seeds import mix, text

from .fields import patterns, unread
from .values import at, parsed, spelled

FIELDS = patterns("""role from value content content.*.type content.*.text content.*.refusal content.*.thinking content.*.reasoning
    content.*.signature content.*.annotations.** content.*.logprobs.** reasoning_content reasoning thinking thinking_blocks.**
    provider_specific_fields.** tool_calls.*.id tool_calls.*.type tool_calls.*.index tool_calls.*.name tool_calls.*.arguments.**
    tool_calls.*.function.name tool_calls.*.function.arguments.** tool_call_id function_call.** name""".split())
"""The fields of a message that are read, or change nothing."""
ROLES = {
    **dict.fromkeys(("human",), "user"), **dict.fromkeys(("gpt", "model", "bot", "chatgpt", "function_call"), "assistant"),
    **dict.fromkeys(("observation", "function", "function_response", "ipython"), "tool"),
}


@dataclass
class Message:
    """A message, whatever its format. Calls of tools are `name(arguments)`."""

    role: str = ""
    text: str = ""
    thought: str = ""
    tools: list[str] = field(default_factory=list)

    def said(self) -> str:
        """What it says, without its thought."""
        return "\n".join(part for part in (self.text, *self.tools) if part)

    def whole(self) -> str:
        """With its thought."""
        return (f"<think>\n{self.thought}\n</think>\n" if self.thought else "") + self.said()

    def hash(self) -> int:
        return mix(text(self.role), text(self.said()))


def hashed(start: int, messages: list[Message]) -> int:
    for message in messages:
        start = mix(start, message.hash())
    return start


def string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def read(value: Any, names: set[str]) -> Message:
    """A message of OpenAI's chats or of ShareGPT; the names of fields that aren't read are added to `names`."""
    unread(value, FIELDS, names)
    role = next((at(value, key) for key in ("role", "from") if isinstance(at(value, key), str)), "")
    said = at(value, "value") if at(value, "content") is None else at(value, "content")
    thoughts = (at(value, key) for key in ("reasoning_content", "reasoning", "thinking"))
    calls = at(value, "tool_calls")
    message = Message(ROLES.get(role, role), content(said), next((t for t in thoughts if isinstance(t, str)), ""),
                      [tool(call) for call in calls] if isinstance(calls, list) else [])
    if isinstance(at(value, "function_call"), dict):
        message.tools.append(tool(at(value, "function_call")))
    if role == "function_call":
        # ShareGPT writes the call as a text of JSON.
        try:
            message.tools, message.text = [tool(parsed(message.text.encode()))], ""
        except ValueError:
            pass
    message.thought = message.thought or texts(said, "thinking") or texts(said, "reasoning")
    return message


def content(value: Any) -> str:
    """The text of a content: a text, or the texts among its parts."""
    return value if isinstance(value, str) else texts(value, "text", "refusal")


def texts(parts: Any, *keys: str) -> str:
    """The texts that the parts of a content have by one of these names."""
    found = (next((at(part, key) for key in keys if isinstance(at(part, key), str)), None) for part in (parts if isinstance(parts, list) else ()))
    return "\n".join(text for text in found if text is not None)


def tool(call: Any) -> str:
    """A call of a tool, whose name and arguments may be in a `function` of their own. Arguments are an object, or its text; they have one
    spelling."""
    call = at(call, "function") if isinstance(at(call, "function"), dict) else call
    arguments = at(call, "arguments")
    if isinstance(arguments, str):
        try:
            arguments = spelled(parsed(arguments.encode()), ordered=True)
        except ValueError:
            pass
    else:
        arguments = "" if arguments is None else spelled(arguments, ordered=True)
    return f"{string(at(call, 'name'))}({arguments})"


def observation(new: list[Message]) -> str:
    """New messages before a call, as its observation."""
    said = new[0].said() if len(new) == 1 else "\n".join(f"{message.role}: {message.said()}" for message in new)
    return said or "(no text)"


class Root(NamedTuple):
    """What tells conversations apart: the system message, the first user message, the number of messages."""

    system: int
    user: int
    length: int


class Calls:
    """The calls of an episode so far."""

    def __init__(self) -> None:
        self.asked: dict[tuple[int, int], int] = {}
        self.continued: set[int] = set()
        self.roots: list[Root] = []

    def add(self, parent: int, new: list[Message], path: list[Message]) -> tuple[int, str]:
        """The name of a call that goes on from `parent` with the messages `new`, of all the messages `path`; and why it is no plain
        continuation."""
        asked = hashed(0, new)
        times = self.asked.get((parent, asked), 0)
        self.asked[parent, asked] = times + 1
        system, user = (next((message.hash() for message in path if message.role == role), 0) for role in ("system", "user"))
        root = Root(system, user, len(path))
        fork = "again" if times else self.begins(root) if parent == 0 else "edited" if parent in self.continued else ""
        self.continued.add(parent)
        self.roots.append(root)
        return max(mix(mix(parent, asked), times), 1), fork

    def begins(self, root: Root) -> str:
        """Why a call begins another conversation."""
        if not self.roots:
            return ""
        kin = [other for other in self.roots if other.system == root.system]
        same = [other for other in kin if other.user == root.user]
        if not same and root.system != self.roots[0].system:
            return "sub_agent"
        longest = max((other.length for other in (same if same or root.system == 0 else kin)), default=0)
        return "compacted" if root.length < longest else "edited"


def plain(name: str) -> str:
    """A part of a task's name: letters and digits as they are, all else as `-`."""
    return re.sub(r"[^A-Za-z0-9._]", "-", name[:40]).strip("-.")


def failure(cause: str, error: str, tries: int = 1) -> dict[str, Any]:
    return {"cause": cause, "error": error, "tries": tries}


def episode(**known: Any) -> dict[str, Any]:
    """An episode, or the failure that it ended with."""
    return {"iteration": 0, "sample": None, "kind": "", "weights": None, "truncated": "", "info": "", "reward": 0.0, "calls": [], "failure": None, **known}


def call(new: list[Message], message: Message, **known: Any) -> dict[str, Any]:
    """A sampled message."""
    said = {"observation": observation(new), "response": message.whole(), "action": message.said()}
    return {**said, "tokens": None, "temperature": None, "cut": None, "advantage": None, **known}
