"""Calls of tools that are written in tags, an argument each. The schema says which values are texts."""

from __future__ import annotations

import re
from typing import Any, List, Tuple

from . import strict
from .json_calls import Call, Known, objects
from .schema import Schema

QWEN = re.compile(r"<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
QWEN_ARGUMENT = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
GLM_ARGUMENT = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
INVOKE = re.compile(r'<(?:｜DSML｜)?invoke name="([^"]+)">(.*?)(?:</(?:｜DSML｜)?invoke>|\Z)', re.DOTALL)
INVOKE_ARGUMENT = re.compile(r'<(?:｜DSML｜)?parameter name="([^"]+)"(?: string="(true|false)")?>(.*?)</(?:｜DSML｜)?parameter>', re.DOTALL)
WORDS = {"true": True, "false": False, "none": None}
"""Python's words, which coders write for JSON's."""


def qwen(text: str, known: Known) -> List[Call]:
    """Of Qwen-coder; Llama 3.1 writes the arguments as JSON."""
    some: List[Call] = []
    for name, body in QWEN.findall(text):
        some += with_json(name, body, known) or with_arguments(name, QWEN_ARGUMENT.sub("", body), QWEN_ARGUMENT.findall(body), known)
    return some


def tagged(text: str, known: Known) -> List[Call]:
    """Between `<tool_call>` and its end: JSON of Hermes, Qwen and Granite, tags of Qwen-coder, or a name and its arguments of GLM."""
    if "<function=" in text:
        return qwen(text, known)
    name = GLM_ARGUMENT.sub("", text).strip()
    # Without an argument a name alone is a call only where there is such a tool.
    if "<arg_key>" in text or dict.__contains__(known, name):
        return with_arguments(name, "", GLM_ARGUMENT.findall(text), known)
    return objects(text, known)


def invoked(text: str, known: Known) -> List[Call]:
    """Of MiniMax M2 and, with the mark DSML, of DeepSeek V3.2, whose arguments say themselves whether they are texts."""
    if INVOKE.sub("", text).strip():
        return []
    some: List[Call] = []
    for name, body in INVOKE.findall(text):
        pairs = [(key, given if text_or_not != "true" else Text(given)) for key, text_or_not, given in INVOKE_ARGUMENT.findall(body)]
        call = with_json(name, body, known) or with_arguments(name, INVOKE_ARGUMENT.sub("", body), pairs, known)
        if not call:
            return []
        some += call
    return some


class Text(str):
    """A value that is a text by itself."""


def with_json(name: str, body: str, known: Known) -> List[Call]:
    try:
        arguments = strict.loads(body) if body.lstrip().startswith("{") else None
    except ValueError:
        return []
    return [(name, arguments)] if name in known and isinstance(arguments, dict) else []


def with_arguments(name: str, rest: str, pairs: List[Tuple[str, str]], known: Known) -> List[Call]:
    """The call as a list of one; empty where the tool is unknown, or where there is more than arguments."""
    if name not in known or rest.strip():
        return []
    schema = Schema(known[name])
    return [(name, {key: given[:] if isinstance(given, Text) else value(given, schema.argument(key)) for key, given in pairs})]


def value(text: str, types: Any) -> Any:
    """The value of an argument that may have these types: a text wherever a text is allowed, null where null is."""
    plain = text.strip()
    if "null" in types and plain in ("null", "None"):
        return None
    if "string" in types:
        return text
    try:
        return WORDS[plain.lower()] if plain.lower() in WORDS else strict.loads(text)
    except ValueError:
        return text
