"""The forms of calls, by the marks that the model families' chat templates write. A new family is a line here."""

from __future__ import annotations

import re
from typing import Callable, List, NamedTuple, Tuple

from .json_calls import Call, Known, deepseek, kimi, mistral, objects
from .python_calls import functiongemma, gemma4, pythonic
from .xml_calls import invoked, qwen, tagged


class Form(NamedTuple):
    families: str
    marks: Tuple[str, ...]
    """It is this form where one of these stands in the text."""
    block: "re.Pattern[str]"
    """What is taken out of the text for calls; `read` gets its first group."""
    read: Callable[[str, Known], List[Call]]


def between(start: str, end: str) -> "re.Pattern[str]":
    """From a mark to its end, or to the end of the text."""
    return re.compile(rf"{start}(.*?)(?:{end}|\Z)", re.DOTALL)


def after(start: str) -> "re.Pattern[str]":
    return re.compile(rf"{start}\s*(.*)\Z", re.DOTALL)


FORMS = (
    Form("Hermes, Qwen, Granite 4, GLM", ("<tool_call>",), between("<tool_call>", "</tool_call>"), tagged),
    Form("Qwen-coder, Llama 3.1", ("<function=",), re.compile(r"(<function=[^>\s]+>.*?(?:</function>|\Z))", re.DOTALL), qwen),
    Form("Mistral", ("[TOOL_CALLS]",), after(r"\[TOOL_CALLS\]"), mistral),
    Form("Llama 3", ("<|python_tag|>",), after(r"<\|python_tag\|>"), objects),
    Form("Llama 4", ("<|python_start|>",), between(r"<\|python_start\|>", r"<\|python_end\|>"), pythonic),
    Form("Kimi K2", ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
         re.compile(r"(?:<\|tool_calls_section_begin\|>\s*)?(<\|tool_call_begin\|>.*?)(?:<\|tool_calls_section_end\|>|\Z)", re.DOTALL), kimi),
    Form("DeepSeek V3, R1, V3.1", ("<｜tool▁calls▁begin｜>",), between("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"), deepseek),
    Form("DeepSeek V3.2", ("<｜DSML｜",), between("<｜DSML｜(?:function_calls|tool_calls)>", "</｜DSML｜(?:function_calls|tool_calls)>"), invoked),
    Form("MiniMax M2", ("<minimax:tool_call>",), between("<minimax:tool_call>", "</minimax:tool_call>"), invoked),
    Form("MiniMax M1", ("<tool_calls>",), between("<tool_calls>", "</tool_calls>"), objects),
    Form("Phi-4-mini, Granite 3", ("<|tool_call|>",), between(r"<\|tool_call\|>", r"<\|/tool_call\|>"), objects),
    Form("Phi-4-mini", ("functools[",), after(r"functools(?=\[)"), objects),
    Form("Granite 20B", ("<function_call>",), between("<function_call>", "(?:</function_call>|(?=<function_call>))"), objects),
    Form("LFM2", ("<|tool_call_start|>",), between(r"<\|tool_call_start\|>", r"<\|tool_call_end\|>"), pythonic),
    Form("Gemma 4", ("<|tool_call>",), between(r"<\|tool_call>", r"<tool_call\|>"), gemma4),
    Form("FunctionGemma", ("<start_function_call>",), between("<start_function_call>", "<end_function_call>"), functiongemma),
    Form("Gemma 3", ("```tool_code",), between("```tool_code", "```"), pythonic),
)
MARKS = tuple(mark for form in FORMS for mark in form.marks)
FENCE = re.compile(r"\s*```(?:json|python)?[ \t]*\n")


def unmarked(text: str, known: Known) -> List[Call]:
    """Calls in a text that is nothing else: JSON of Llama 3, a list of Python's calls of Llama 3.2, either in a fence of Gemma 3."""
    fence, inner = FENCE.match(text), text.rstrip()
    if fence and inner.endswith("\n```"):
        inner = inner[fence.end():-3]
    return objects(inner, known) or (pythonic(inner, known) if inner.lstrip().startswith("[") else [])
