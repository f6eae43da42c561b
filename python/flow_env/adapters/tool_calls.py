"""Calls of tools in the text of an answer, and how a policy is told which tools there are."""

from __future__ import annotations

import json
from typing import Any, Collection, Dict, List, Mapping, Sequence, Tuple

from ..door.calls import parse

HOW = 'Tools, one a line. To call one, answer with JSON alone: {"name": "...", "arguments": {...}}'


def told(tools: Sequence[Mapping[str, Any]]) -> str:
    """The tools, for the head of a task."""
    return "\n".join([HOW, *(json.dumps(tool, ensure_ascii=False) for tool in tools)]) if tools else ""


def calls(answer: str, known: Collection[str]) -> Tuple[str, List[Tuple[str, Dict[str, Any]]]]:
    """The text of an answer and the calls in it, in the form of any model family. What is no call of a known tool is text, and so is what
    stands in a thought.

    >>> calls('{"name": "add", "arguments": {"a": 1}}', ["add"])
    ('', [('add', {'a': 1})])
    >>> calls('So: <tool_call>{"name": "add"}</tool_call>', ["add"])
    ('So:', [('add', {})])
    >>> calls('{"name": "fly"}', ["add"])
    ('{"name": "fly"}', [])
    """
    content, found, _ = parse(answer, [{"function": {"name": name}} for name in known])
    return content, found
