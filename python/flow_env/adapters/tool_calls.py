"""Calls of tools in the text of an answer, and how a policy is told which tools there are."""

from __future__ import annotations

import json
import re
from typing import Any, Collection, Dict, List, Mapping, Sequence, Tuple

TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
HOW = 'Tools, one a line. To call one, answer with JSON alone: {"name": "...", "arguments": {...}}'


def told(tools: Sequence[Mapping[str, Any]]) -> str:
    """The tools, for the head of a task."""
    return "\n".join([HOW, *(json.dumps(tool, ensure_ascii=False) for tool in tools)]) if tools else ""


def calls(answer: str, known: Collection[str]) -> Tuple[str, List[Tuple[str, Dict[str, Any]]]]:
    """The text of an answer and the calls in it: the whole of it is one, or parts of it are, each between the tags of Hermes and Qwen.
    What is no call of a known tool is text.

    >>> calls('{"name": "add", "arguments": {"a": 1}}', ["add"])
    ('', [('add', {'a': 1})])
    >>> calls('So: <tool_call>{"name": "add"}</tool_call>', ["add"])
    ('So:', [('add', {})])
    >>> calls('{"name": "fly"}', ["add"])
    ('{"name": "fly"}', [])
    """
    found: List[Tuple[str, Dict[str, Any]]] = []
    for part in TAGGED.findall(answer) or [answer]:
        try:
            call = json.loads(part)
        except ValueError:
            continue
        if isinstance(call, dict) and call.get("name") in known and isinstance(call.get("arguments", {}), dict):
            found.append((call["name"], call.get("arguments", {})))
    if not found:
        return answer, []
    return (TAGGED.sub("", answer).strip() if TAGGED.search(answer) else ""), found
