"""Calls of tools that are written as expressions: Python's, and Gemma's own."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, List, Optional

from . import strict
from .json_calls import Call, Known, called, objects

LONGEST = 100_000
"""Characters of a text that is read as Python."""
WORDS = {"true": True, "false": False, "null": None, "none": None}
GEMMA = re.compile(r"\s*call:\s*([\w.-]+)\s*(\{.*\})\s*\Z", re.DOTALL)
KEY = re.compile(r"([{,]\s*)([A-Za-z_][\w.-]*)\s*:")


def pythonic(text: str, known: Known) -> List[Call]:
    """`[f(x=1), g()]` or `f(x=1)`, of Llama 3.2 and 4, LFM2 and Gemma 3. LFM2 may be told to write JSON.

    >>> pythonic("[f(x='a', n=[1, {'b': None}])]", {"f": {}})
    [('f', {'x': 'a', 'n': [1, {'b': None}]})]
    """
    try:
        body = ast.parse(text.strip(), mode="exec").body if len(text) <= LONGEST else []
        some: List[Call] = []
        for statement in body:
            if not isinstance(statement, ast.Expr):
                return []
            inner = statement.value
            for each in inner.elts if isinstance(inner, ast.List) else [inner]:
                call = expression(each, known)
                if call is None:
                    return objects(text, known)
                some.append(call)
        return some
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return objects(text, known)


def expression(node: ast.expr, known: Known) -> Optional[Call]:
    """The call that an expression of Python is."""
    if not isinstance(node, ast.Call) or node.args or any(each.arg is None for each in node.keywords):
        return None
    arguments = {str(each.arg): literal(each.value) for each in node.keywords}
    # By JSON, so that nothing is left that a program couldn't be sent.
    return called({"name": ast.unparse(node.func), "arguments": json.dumps(arguments)}, known)


def literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (str, int, float))):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = literal(node.operand)
        if isinstance(number, (int, float)):
            return -number
    if isinstance(node, (ast.List, ast.Tuple)):
        return [literal(each) for each in node.elts]
    if isinstance(node, ast.Dict):
        keys = [literal(key) if key else None for key in node.keys]
        if all(isinstance(key, str) for key in keys):
            return dict(zip(keys, map(literal, node.values)))
    if isinstance(node, ast.Name) and node.id.lower() in WORDS:
        return WORDS[node.id.lower()]
    raise ValueError("no literal")


def gemma4(text: str, known: Known) -> List[Call]:
    return gemma(text, '<|"|>', known)


def functiongemma(text: str, known: Known) -> List[Call]:
    return gemma(text, "<escape>", known)


def gemma(text: str, quote: str, known: Known) -> List[Call]:
    """`call:NAME{key:VALUE}`, where keys are bare and this mark stands around texts, which have no escapes."""
    match = GEMMA.match(text)
    parts = match.group(2).split(quote) if match else []
    if not match or len(parts) % 2 == 0:
        return []
    written = [json.dumps(part) if place % 2 else KEY.sub(r'\1"\2":', part) for place, part in enumerate(parts)]
    try:
        call = called({"name": match.group(1), "arguments": strict.loads("".join(written))}, known)
    except ValueError:
        return []
    return [call] if call else []
