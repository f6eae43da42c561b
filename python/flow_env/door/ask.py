"""A call in the form that all three protocols share, and the refusals."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..limits import Json
from . import strict

ORIGIN = re.compile(r"call_([0-9a-f]{16})_(\d{1,6})\Z")
"""Ids of tool calls name the call of the model that made them, and their place in its answer."""
REMINDER = "<system-reminder>\n{}\n</system-reminder>"
"""A system message in the middle of a conversation; most chat templates take only a first one."""


class Refusal(Exception):
    """The call is refused. Each protocol has a form of its own for this."""

    def __init__(self, text: str, status: int = 400, kind: str = "invalid_request_error", code: Optional[str] = None, param: Optional[str] = None) -> None:
        super().__init__(text)
        self.status, self.kind, self.code, self.param = status, kind, code, param
        self.tokens: Optional[Tuple[int, int]] = None
        """Of a prompt that is too long: its length and the limit."""


@dataclass
class Ask:
    """What a program asks: messages and tools in the form of chat completions."""

    model: str
    messages: List[Json]
    tools: List[Json] = field(default_factory=list)
    max_tokens: Optional[int] = None
    stop: List[str] = field(default_factory=list)
    stream: bool = False
    single: bool = False
    """Whether an answer may call one tool at most."""
    extra: Json = field(default_factory=dict)
    """What the protocol needs again for the answer."""
    choices: List[str] = field(default_factory=list)
    """The answer is one of these, where there are any."""
    must_call: List[str] = field(default_factory=list)
    """The tools of which the answer must call one; empty where it needn't."""


@dataclass
class Reply:
    """The policy's answer: its text as sampled, and what the program gets of it."""

    content: str
    calls: List[Tuple[str, str, Json]]
    """Id, name and arguments of each call of a tool."""
    cut: bool
    prompt_tokens: int
    response_tokens: int


def refuse(body: Mapping[str, Any], **allowed: Sequence[Any]) -> None:
    """Refuses settings that would change the meaning of the answer. A setting may be absent, null or one of the values given."""
    for name, values in allowed.items():
        value = body.get(name)
        if value is not None and value not in values:
            raise Refusal(f"`{name}` isn't supported here: leave it out", param=name)


def forced(choice: Any, tools: Sequence[Json]) -> List[str]:
    """The tools of which a `tool_choice` demands a call, in the forms of the three protocols; none where it leaves the answer free."""
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if kind in (None, "auto", "none"):
        return []
    names = [tool["function"]["name"] for tool in tools]
    if kind in ("required", "any"):
        wanted = names
    elif kind == "allowed_tools" and (choice.get(kind) or choice).get("mode") == "required":
        wanted = [named_tool(each) for each in list_of(choice.get(kind) or choice, "tools")]
    elif kind in ("function", "tool", "custom"):
        wanted = [named_tool(choice)]
    else:
        raise Refusal(f"a `tool_choice` of `{str(kind)[:80]}` isn't supported here", param="tool_choice")
    strangers = [name for name in wanted if name not in names]
    if strangers or not wanted:
        raise Refusal(f"`tool_choice` demands a call of {f'`{strangers[0]}`' if strangers else 'a tool'}, which `tools` doesn't have", param="tool_choice")
    return wanted


def named_tool(choice: Json) -> str:
    function = choice.get(str(choice.get("type")))
    return str(function.get("name") if isinstance(function, dict) else choice.get("name"))


def model_of(body: Mapping[str, Any]) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not 0 < len(model) <= 256:
        raise Refusal("`model` is no text", param="model")
    return model


def limit_of(body: Mapping[str, Any], *names: str) -> Optional[int]:
    for name in names:
        value = body.get(name)
        if value is not None:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise Refusal(f"`{name}` is no number from 1 on", param=name)
            return value
    return None


def stops_of(body: Mapping[str, Any], name: str) -> List[str]:
    value = body.get(name)
    texts = [value] if isinstance(value, str) else value or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Refusal(f"`{name}` is no list of texts", param=name)
    return [text for text in texts if text]


def list_of(body: Mapping[str, Any], name: str) -> List[Json]:
    """A list of objects."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise Refusal(f"`{name}` is no list of objects", param=name)
    return value


def text_of(content: Any, param: str = "messages") -> str:
    """The text of a content: a text, null, or parts of text. Images, sounds and documents are refused."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        if kind == "refusal" and isinstance(part.get("refusal"), str):
            texts.append(part["refusal"])
        elif kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            raise Refusal(f"content of type `{kind}` isn't supported here: only text is", param=param)
    return "\n".join(texts)


def tool(name: Any, description: Any, parameters: Any) -> Json:
    """A tool in the form of chat completions."""
    if not isinstance(name, str) or not name:
        raise Refusal("a tool has no name", param="tools")
    function: Json = {"name": name}
    if isinstance(description, str):
        function["description"] = description
    function["parameters"] = parameters if isinstance(parameters, dict) else {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def tool_call(call_id: Any, name: Any, arguments: Any) -> Json:
    """A call of a tool as it stands in a message: the arguments are an object where they are the text of one."""
    if not isinstance(name, str) or not name:
        raise Refusal("a call of a tool has no name", param="messages")
    if isinstance(arguments, str):
        try:
            value = strict.loads(arguments or "{}")
        except ValueError:
            value = None
        arguments = value if isinstance(value, dict) else arguments
    elif not isinstance(arguments, dict):
        arguments = {}
    return {"id": call_id if isinstance(call_id, str) else "", "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(content: str, calls: Sequence[Json] = ()) -> Json:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


def settled(messages: Sequence[Json]) -> List[Json]:
    """Messages in one form, whichever client sent them: one system message and that first, an answer one message, tools' results named
    and in the order of the calls."""
    head = 0
    while head < len(messages) and messages[head]["role"] == "system":
        head += 1
    out: List[Json] = []
    if head:
        out.append({"role": "system", "content": "\n\n".join(message["content"] for message in messages[:head])})
    pending = ""
    for message in messages[head:]:
        last = out[-1] if out else {"role": ""}
        if message["role"] == "system":
            reminder = REMINDER.format(message["content"])
            if last["role"] == "user":
                out[-1] = {"role": "user", "content": last["content"] + "\n" + reminder}
            else:
                pending += reminder + "\n"
            continue
        if pending and message["role"] != "tool":
            text, pending = pending[:-1], ""
            if message["role"] == "user":
                message = {**message, "content": text + "\n" + message["content"]}
            else:
                out.append({"role": "user", "content": text})
        if message["role"] != "assistant" or not joined(out, message):
            out.append(message)
    if pending:
        out.append({"role": "user", "content": pending[:-1]})
    return named(ordered(out))


def joined(out: List[Json], message: Json) -> bool:
    """Puts the tool calls of an answer together again, where a client has split it: text and calls, or each call with its result."""
    calls = message.get("tool_calls")
    place = len(out) - 1
    while place >= 0 and out[place]["role"] == "tool":
        place -= 1
    if not calls or place < 0 or out[place]["role"] != "assistant":
        return False
    before = out[place]
    known = before.get("tool_calls", [])
    origins = {ORIGIN.sub(r"\1", call["id"]) if ORIGIN.match(call["id"]) else None for call in [*known, *calls]}
    same = len(origins) == 1 and None not in origins
    if not (same and message["content"] in ("", before["content"]) or place == len(out) - 1 and not message["content"]):
        return False
    out[place] = assistant(before["content"], [*known, *calls])
    return True


def ordered(messages: Sequence[Json]) -> List[Json]:
    """The messages, with the results of an answer's calls in the order of these calls. Clients send them as the tools come to an end, and
    most chat templates write no ids, so a model would read one call's result as another's."""
    out = list(messages)
    for place, message in enumerate(out):
        calls = in_place(message.get("tool_calls", []))
        ids = [call["id"] for call in calls]
        if len(set(ids)) < 2:
            continue
        out[place] = {**message, "tool_calls": calls}
        end = next((later for later in range(place + 1, len(out)) if out[later]["role"] == "assistant"), len(out))
        slots = [slot for slot in range(place + 1, end) if out[slot]["role"] == "tool" and out[slot].get("tool_call_id") in ids]
        for slot, result in zip(slots, sorted((out[slot] for slot in slots), key=lambda result: ids.index(result["tool_call_id"]))):
            out[slot] = result
    return out


def in_place(calls: List[Json]) -> List[Json]:
    """The calls as the answer had them, where their ids are ours."""
    ours = [ORIGIN.match(call["id"]) for call in calls]
    if len({match and match.group(1) for match in ours}) != 1 or not ours[0]:
        return calls
    return [call for _, call in sorted(zip(ours, calls), key=lambda each: int(each[0].group(2)))]  # type: ignore[union-attr]


def named(messages: Sequence[Json]) -> List[Json]:
    """The messages, each result of a tool with the tool's name where a call before it has the same id."""
    names: Dict[str, str] = {}
    out = []
    for message in messages:
        for call in message.get("tool_calls", []):
            names[call["id"]] = call["function"]["name"]
        name = names.get(message.get("tool_call_id", ""))
        out.append({**message, "name": name} if message["role"] == "tool" and name else message)
    return out
