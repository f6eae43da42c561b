"""JSON within the limits of flow's own parser, which refuses a whole line for one value beyond them."""

from __future__ import annotations

import json
import math
from typing import Any, Tuple, Union

DEPTH = 100
"""Objects and lists in one another. The view around a program's request adds a few, and flow reads 127."""
DIGITS = 20
"""The longest integer of 64 bits, with its sign."""


def integer(text: str) -> int:
    value = int(text) if len(text) <= DIGITS else None
    if value is None or not -1 << 63 <= value < 1 << 64:
        raise ValueError(f"{text[:DIGITS]}{'…' * (len(text) > DIGITS)} is no integer of 64 bits")
    return value


def real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:DIGITS]} is no finite number")
    return value


DECODER = json.JSONDecoder(parse_float=real, parse_int=integer, parse_constant=real)


def loads(text: str) -> Any:
    """The value of a text. Raises `ValueError` where it is no JSON, or beyond the limits."""
    try:
        return shallow(DECODER.decode(text))
    except RecursionError:
        raise too_deep() from None


def first(text: str, start: int = 0) -> Tuple[Any, int]:
    """The value that begins here, and where it ends."""
    try:
        value, end = DECODER.raw_decode(text, start)
    except RecursionError:
        raise too_deep() from None
    return shallow(value), end


def shallow(value: Any) -> Any:
    """The value itself, if it isn't nested too deeply."""
    level = [value]
    for _ in range(DEPTH):
        level = [part for each in level if isinstance(each, (dict, list)) for part in (each.values() if isinstance(each, dict) else each)]
    if any(isinstance(each, (dict, list)) for each in level):
        raise too_deep()
    return value


def too_deep() -> ValueError:
    return ValueError(f"it is nested more than {DEPTH} deep")
