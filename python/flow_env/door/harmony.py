"""Answers of gpt-oss: messages in channels, of which one is a thought, one a call, one the answer."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from .json_calls import Call, Known, called

ENDS = re.compile(r"<\|(?:end|call|return)\|>")
TO = re.compile(r"\bto=(?:functions\.)?([\w.-]+)")


def channels(text: str, known: Known) -> Optional[Tuple[str, List[Call], bool]]:
    """The text for the program, the calls, and whether all calls could be read. None where the text is in no channel."""
    if "<|channel|>" not in text or "<|message|>" not in text:
        return None
    said: List[str] = []
    calls: List[Call] = []
    whole = True
    for message in text.split("<|start|>"):
        head, marked, rest = message.partition("<|message|>")
        if not marked:
            continue
        to, body = TO.search(head), ENDS.split(rest, maxsplit=1)[0]
        if to:
            call = called({"name": to.group(1), "arguments": body.strip() or "{}"}, known)
            calls += [call] if call else []
            whole = whole and call is not None
            said += [] if call else [body]
        elif "<|channel|>analysis" not in head:
            said.append(body)
    return "\n".join(part.strip() for part in said if part.strip()), calls, whole
