"""Calls of tools in the text that a policy wrote, in the forms of the model families: Hermes and Qwen (JSON between tags), Qwen-coder
(XML), Mistral and Llama 3."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..limits import Json
from . import strict

Call = Tuple[str, Json]

TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
XML = re.compile(r"<function=([^>\s]+)>\s*(.*?)\s*(?:</function>|\Z)", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
MISTRAL = re.compile(r"\[TOOL_CALLS\]\s*")
MISTRAL_NAMED = re.compile(r"\s*(?:\[TOOL_CALLS\])?([\w.-]+)(?:\[CALL_ID\][\w-]+)?\[ARGS\]\s*")
LLAMA = "<|python_tag|>"
MARKS = ("<tool_call>", "<function=", "[TOOL_CALLS]", LLAMA)


class Anything(Dict[str, Any]):
    """Tools that all exist, by name."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Json:
        return {}


def parse(text: str, tools: Sequence[Mapping[str, Any]], strangers: bool = False) -> Tuple[str, List[Call], bool]:
    """The text beside the calls, the calls, and whether all that was marked as a call is one. What isn't the call of a known tool stays
    text; with `strangers` a marked call of an unknown one is a call, too, but not all is right then.

    >>> add = [{"function": {"name": "add", "parameters": {}}}]
    >>> parse('So: <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', add)
    ('So:', [('add', {'a': 1})], True)
    >>> parse('<tool_call>{"name": "fly"}</tool_call>', add)
    ('<tool_call>{"name": "fly"}</tool_call>', [], False)
    """
    known = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    marked = Anything(known) if strangers else known
    found: List[Call] = []

    def taken(match: "re.Match[str]") -> str:
        some = [call for part in XML.finditer(match.group(0)) for call in xml(part, marked)] or objects(match.group(1), marked)
        found.extend(some)
        return "" if some else match.group(0)

    if not known:
        return text, [], True
    if "<tool_call>" in text or "<function=" in text:
        rest = (TAGGED if "<tool_call>" in text else XML).sub(taken, text)
    elif MISTRAL.search(text):
        before, after = MISTRAL.split(text, maxsplit=1)
        found = mistral(after, marked)
        rest = before if found else text
    else:
        found = objects(text.replace(LLAMA, "", 1), marked if LLAMA in text else known)
        rest = "" if found else text
    return rest.strip() if found else text, found, not any(mark in rest for mark in MARKS) and all(name in known for name, _ in found)


def objects(text: str, known: Mapping[str, Any]) -> List[Call]:
    """Calls in a text that is nothing but JSON: one object, a list, or several after each other (Llama separates them by semicolons)."""
    some: List[Call] = []
    for value in values(text):
        for each in value if isinstance(value, list) else [value]:
            call = called(each, known)
            if call is None:
                return []
            some.append(call)
    return some


def values(text: str) -> Iterator[Any]:
    text = text.strip()
    while text:
        try:
            value, end = strict.first(text)
        except ValueError:
            yield None
            return
        yield value
        text = text[end:].lstrip("; \t\r\n")


def called(value: Any, known: Mapping[str, Any]) -> Optional[Call]:
    """The call that an object names."""
    if not isinstance(value, dict):
        return None
    name, arguments = value.get("name"), value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):  # JSON in a text
        try:
            arguments = strict.loads(arguments)
        except ValueError:
            return None
    return (name, arguments) if isinstance(name, str) and name in known and isinstance(arguments, dict) else None


def mistral(text: str, known: Mapping[str, Any]) -> List[Call]:
    """A list of calls, or NAME[ARGS]{...} of newer models, several after each other."""
    if not MISTRAL_NAMED.match(text):
        return objects(text, known)
    some: List[Call] = []
    while text.strip():
        match = MISTRAL_NAMED.match(text)
        try:
            arguments, end = strict.first(text, match.end()) if match else (None, 0)
        except ValueError:
            return []
        call = called({"name": match.group(1), "arguments": arguments}, known) if match else None
        if call is None:
            return []
        some.append(call)
        text = text[end:]
    return some


def xml(match: "re.Match[str]", known: Mapping[str, Any]) -> List[Call]:
    """The call in a match of `XML`, as a list of one; empty where the tool is unknown. Values are read by the tool's schema."""
    name, body = match.groups()
    if name not in known or PARAMETER.sub("", body).strip():
        return []
    properties = known[name].get("properties")
    arguments: Dict[str, Any] = {}
    for key, text in PARAMETER.findall(body):
        schema = properties.get(key) if isinstance(properties, dict) else None
        kind = schema.get("type", "string") if isinstance(schema, dict) else "string"
        try:
            arguments[key] = text if kind == "string" else strict.loads(text)
        except ValueError:
            arguments[key] = text
    return [(name, arguments)]
