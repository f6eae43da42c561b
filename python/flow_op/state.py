"""A state lasts from one iteration to the next: a JSON value, copied at each step so that it is the same after a resume."""

from __future__ import annotations

import math
from typing import Any

from .errors import Error


def json_value(value: Any, what: str, kind: str = "result") -> Any:
    """A copy of a JSON value. An error names the place of a value that JSON can't hold."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 64:
            return int(value)
        raise Error(kind, f"{what} is {value}, which has more than 64 bits")
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise Error(kind, f"{what} is {value}, which JSON can't hold: use None, or leave it out")
    if isinstance(value, (list, tuple)):
        return [json_value(one, f"{what}[{at}]", kind) for at, one in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise Error(kind, f"{what} has the key {key!r}: keys of JSON are texts, so write str({key!r})")
        return {key: json_value(one, f"{what}.{key}", kind) for key, one in value.items()}
    raise Error(kind, f"{what} is of type {type(value).__module__}.{type(value).__qualname__}: JSON holds numbers, texts, bools, None, lists and dicts (float(x), x.tolist())")
