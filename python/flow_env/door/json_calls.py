"""Calls of tools that are written as JSON."""

from __future__ import annotations

import re
from typing import Any, Iterator, List, Mapping, Optional, Tuple

from ..limits import Json
from . import strict

Call = Tuple[str, Json]
Known = Mapping[str, Any]
"""Tools that may be called, each with the schema of its arguments."""

MISTRAL = re.compile(r"\s*(?:\[TOOL_CALLS\])?([\w.-]+)(?:\[CALL_ID\][\w-]+)?\[ARGS\]\s*")
KIMI = re.compile(r"<\|tool_call_begin\|>\s*(?:functions\.)?([^<\s]+?)(?::\d+)?\s*"
                  r"<\|tool_call_argument_begin\|>(.*?)(?:<\|tool_call_end\|>|\Z)", re.DOTALL)
DEEPSEEK = re.compile(r"<｜tool▁call▁begin｜>\s*(?:function<｜tool▁sep｜>)?([^<\s]+)\s*"
                      r"(?:<｜tool▁sep｜>|```json\n)(.*?)(?:<｜tool▁call▁end｜>|\Z)", re.DOTALL)


def objects(text: str, known: Known) -> List[Call]:
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


def called(value: Any, known: Known) -> Optional[Call]:
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


def mistral(text: str, known: Known) -> List[Call]:
    """A list of calls, or NAME[ARGS]{...} of newer models, several after each other."""
    if not MISTRAL.match(text):
        return objects(text, known)
    some: List[Call] = []
    while text.strip():
        match = MISTRAL.match(text)
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


def kimi(text: str, known: Known) -> List[Call]:
    return named(KIMI, text, known)


def deepseek(text: str, known: Known) -> List[Call]:
    """Name and JSON; of V3 and R1 with the word `function` before and a fence around."""
    return named(DEEPSEEK, text, known)


def named(pattern: "re.Pattern[str]", text: str, known: Known) -> List[Call]:
    """Calls in a text that is nothing but matches of a name and JSON."""
    if pattern.sub("", text).strip():
        return []
    some = [called({"name": name, "arguments": unfenced(arguments) or "{}"}, known) for name, arguments in pattern.findall(text)]
    return [call for call in some if call] if all(some) else []


def unfenced(arguments: str) -> str:
    arguments = arguments.strip()
    return arguments[:-3] if arguments.endswith("```") else arguments
