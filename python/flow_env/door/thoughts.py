"""The thoughts in an answer. Nothing in them is said to the program's tools: a draft of a call isn't a call."""

from __future__ import annotations

import re
from typing import Tuple

MARKS = (
    ("<think>", "</think>"),  # Qwen, DeepSeek, GLM, MiniMax, Kimi and most others
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command
    ("◁think▷", "◁/think▷"),  # Kimi-VL
)
CLOSED = re.compile("|".join(f"{re.escape(start)}.*?{re.escape(end)}" for start, end in MARKS), re.DOTALL)


def split(text: str) -> Tuple[str, str, str]:
    """The text up to the last end of a thought, the text after it, and a thought after that which doesn't end. Many templates open the
    first thought in the prompt, so an end alone closes one, too.

    >>> split("I might <call>.</think> <call> <think> And")
    ('I might <call>.</think>', ' <call> ', '<think> And')
    """
    said = max((text.rfind(end) + len(end) for _, end in MARKS if end in text), default=0)
    opened = min((place for start, _ in MARKS if (place := text.find(start, said)) >= 0), default=len(text))
    return text[:said], text[said:opened], text[opened:]


def without(text: str) -> str:
    """A text without the thoughts that are closed in it."""
    return CLOSED.sub("", text)
