"""Calls of tools in the text that a policy wrote, in the forms of the model families (`forms.py`)."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..limits import Json, clean
from . import thoughts
from .forms import FORMS, MARKS, unmarked
from .harmony import channels
from .json_calls import Call


class Anything(Dict[str, Any]):
    """Tools that all exist, by name."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Json:
        return {}


def parse(text: str, tools: Sequence[Mapping[str, Any]], strangers: bool = False) -> Tuple[str, List[Call], bool]:
    """The text beside the calls, the calls, and whether all that was marked as a call is one. What isn't the call of a known tool stays
    text; with `strangers` a marked call of an unknown one is a call, too, but not all is right then. A thought has no calls.

    >>> add = [{"function": {"name": "add", "parameters": {}}}]
    >>> parse('So: <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', add)
    ('So:', [('add', {'a': 1})], True)
    >>> parse('<tool_call>{"name": "fly"}</tool_call>', add)
    ('<tool_call>{"name": "fly"}</tool_call>', [], False)
    """
    known = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    marked = Anything(known) if strangers else known
    spoken = channels(text, marked)
    if spoken is not None:
        said, found, whole = spoken
        return said, cleaned(found, text), whole and all(name in known for name, _ in found) or not known
    if not known:
        return text, [], True
    before, said, thought = thoughts.split(text)
    found = []
    form = next((form for form in FORMS if any(mark in said for mark in form.marks)), None)
    if form is None:
        found = unmarked(said, known)
        rest = "" if found else said
    else:
        read = form.read

        def taken(match: Any) -> str:
            some = read(match.group(1), marked)
            found.extend(some)
            return "" if some else match.group(0)

        rest = form.block.sub(taken, said)
    right = not any(mark in rest for mark in MARKS) and all(name in known for name, _ in found)
    return (before + rest + thought).strip() if found else text, cleaned(found, text), right


def cleaned(found: List[Call], text: str) -> List[Call]:
    """Calls whose texts UTF-8 can hold: JSON may write half of a character."""
    if "\\u" not in text:
        return found
    return [(clean(name), json.loads(clean(json.dumps(arguments, ensure_ascii=False)))) for name, arguments in found]
