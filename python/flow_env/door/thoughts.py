"""The thoughts in an answer. Nothing in them is said to the program's tools: a draft of a call isn't a call."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from .forms import MARKS as CALL_MARKS

MARKS = (
    ("<think>", "</think>"),  # Qwen, DeepSeek, GLM, MiniMax, Kimi and most others
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<reflection>", "</reflection>"),
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command
    ("◁think▷", "◁/think▷"),  # Kimi-VL
)
CLOSED = re.compile("|".join(f"{re.escape(start)}.*?{re.escape(end)}" for start, end in MARKS), re.DOTALL)
START = re.compile("|".join(re.escape(start) for start, _ in MARKS))
END = re.compile("|".join(re.escape(end) for _, end in MARKS))
# A mark inside a call is a part of its arguments.
CALLS = (
    ("<tool_call>", "</tool_call>"),
    ("<minimax:tool_call>", "</minimax:tool_call>"),
    ("<function_call>", "</function_call>"),
    ("<|tool_call_begin|>", "<|tool_call_end|>"),
    ("<start_function_call>", "<end_function_call>"),
)


def split(text: str) -> Tuple[str, str, str]:
    """The thoughts that an answer begins with, the text after them, and later thoughts. Many templates open the first thought in the
    prompt, so an end alone closes one, too.

    >>> split("I might <call>.</think> <call> <think> And")
    ('I might <call>.</think>', ' <call> ', '<think> And')
    >>> split("<tool_call>{}</tool_call> <think>Done.</think>")
    ('', '<tool_call>{}</tool_call> ', '<think>Done.</think>')
    """
    said = 0
    while (closing := first(END, text, said)) is not None:
        opening = first(START, text, said)
        spoken = text[said:opening.start()] if opening is not None and opening.start() < closing.start() else ""
        if any(mark in spoken for mark in CALL_MARKS):
            break
        said = closing.end()
    before, rest, later = text[:said], "", ""
    while (opening := first(START, text, said)) is not None:
        closing = first(END, text, opening.end())
        until = closing.end() if closing is not None else len(text)
        rest, later, said = rest + text[said:opening.start()], later + text[opening.start():until], until
    return before, rest + text[said:], later


def first(mark: "re.Pattern[str]", text: str, at: int) -> "Optional[re.Match[str]]":
    """The first mark from a place on that isn't inside a call."""
    return next((match for match in mark.finditer(text, at) if not in_call(text, match.start())), None)


def in_call(text: str, at: int) -> bool:
    """Whether a place is inside a call: one is open there, and closed before another one begins."""
    for opens, closes in CALLS:
        if text.rfind(opens, 0, at) > text.rfind(closes, 0, at):
            close, other = text.find(closes, at), text.find(opens, at)
            if close >= 0 and (other < 0 or close < other):
                return True
    return False


def without(text: str) -> str:
    """A text without the thoughts that are closed in it."""
    return CLOSED.sub("", text)
