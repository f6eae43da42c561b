"""The second call: the same rows in another order must give the same values."""

from __future__ import annotations

import random
from typing import Any, List, Optional

import pyarrow as pa
import pyarrow.compute as pc

from .arrow_types import is_list
from .errors import Error
from .functions import NAMES
from .groups import Answer, Call
from .names import order, row_name

RELATIVE, ABSOLUTE = 1e-6, 1e-9
"""How far floats may differ: by this share of the column's largest value, because sums in another order round differently."""


def check(call: Call, first: Answer, seed: int) -> None:
    """Calls the function again, the groups in reverse order and the rows of each in another one (unless `ordered`)."""
    parts: List[Any] = []
    state = call.state
    for at, group in reversed(list(enumerate(call.groups))):
        rows = call.rows.slice(group.start, group.end - group.start)
        mixed = None if call.spec.ordered else permutation(rows.num_rows, seed + at)
        try:
            part, state = call.once(group, rows if mixed is None else rows.take(pa.array(mixed, pa.int64())))
        except Error as error:
            error.message += " (only in the second call, with its rows in another order)"
            raise
        if call.spec.form == "columns" and mixed is not None:
            back = pc.sort_indices(pa.array(mixed, pa.int64()))
            part = [column.take(back) for column in part]
        parts.append(part)
    compare(first, call.joined(parts[::-1], state), call)


def permutation(count: int, seed: int) -> Optional[List[int]]:
    """Another order of the rows, the same for the same seed; None if there is no other."""
    if count < 2:
        return None
    mixed = list(range(count))
    random.Random(seed).shuffle(mixed)
    return mixed[::-1] if mixed == list(range(count)) else mixed


def compare(first: Answer, second: Answer, call: Call) -> None:
    causes = "the clock, chance that isn't from flow_op.rng(), or a global that the function changes"
    if not call.spec.ordered:
        causes += ", or the order of the rows: a function that sorts them returns the six columns that name a row, or says ordered=True in its decorator"
    else:
        causes += ", or the order of the groups"
    if call.spec.form == "rows":
        if set(first.columns) != set(second.columns):
            raise Error("differs", f"two calls with the same rows give different columns. It can be {causes}")
        first, second = sorted_by_name(first), sorted_by_name(second)
        for name in NAMES:
            at = different(first.columns[name], second.columns[name])
            if at is not None:
                one, call_name = (first, "first") if at < first.rows.num_rows else (second, "second")
                raise Error("differs", f"two calls with the same rows give different rows: the {call_name} has {row_name(one.rows, at)}, which the other lacks or has elsewhere. It can be {causes}")
    for name, column in first.columns.items():
        at = different(column, second.columns[name])
        if at is not None:
            raise Error("differs", f"two calls with the same rows give column `{name}` of {row_name(first.rows, at)} as {short(column[at])} and {short(second.columns[name][at])}. "
                                   f"It can be {causes}")
    if not close_json(first.state, second.state):
        raise Error("differs", f"two calls with the same rows and state give the states {str(first.state)[:200]} and {str(second.state)[:200]}. It can be {causes}")


def sorted_by_name(answer: Answer) -> Answer:
    positions = order(answer.rows)
    return Answer({name: column.take(positions) for name, column in answer.columns.items()}, answer.state, answer.rows.take(positions))


def different(first: Any, second: Any) -> Optional[int]:
    """The position of the first value that differs."""
    if first.equals(second):
        return None
    if len(first) != len(second):
        return min(len(first), len(second))
    if is_list(first.type):
        lengths = pc.not_equal(pc.list_value_length(first), pc.list_value_length(second))
        at = pc.index(lengths, True).as_py()
        if at >= 0:
            return int(at)
        at = different(first.flatten(), second.flatten())
        if at is None:
            return None
        for row, count in enumerate(pc.list_value_length(first).to_pylist()):
            if at < count:
                return row
            at -= count
    if pa.types.is_floating(first.type):
        first, second = first.cast(pa.float64()), second.cast(pa.float64())
        largest = pc.max(pc.abs(first)).as_py() or 0.0
        unequal = pc.greater(pc.abs(pc.subtract(first, second)), RELATIVE * largest + ABSOLUTE)
    else:
        unequal = pc.not_equal(first, second)
    at = pc.index(unequal, True).as_py()
    return None if at < 0 else int(at)


def short(value: Any) -> str:
    text = repr(value.as_py())
    return text if len(text) <= 120 else f"{text[:117]}..."


def close_json(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, (int, float)) or isinstance(second, float) and isinstance(first, int):
        return abs(first - second) <= RELATIVE * max(abs(first), abs(second)) + ABSOLUTE
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(close_json, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(close_json(one, second[key]) for key, one in first.items())
    return type(first) is type(second) and bool(first == second)
