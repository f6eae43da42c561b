"""Rows by their names: six columns that no two rows share."""

from __future__ import annotations

from typing import Any, List, Optional

import pyarrow as pa
import pyarrow.compute as pc

from .arrow_types import NAME_TYPES, cast
from .errors import Error
from .functions import NAMES

BY_NAME = [(name, "ascending") for name in NAMES]


def row_name(rows: Any, at: int) -> str:
    """How errors name a row."""
    task, sample, attempt, turn, phase = (rows[name][at].as_py() for name in NAMES[1:])
    return f"row (task {task!r}, sample {sample}, attempt {attempt}, turn {turn}{'' if phase == 'play' else f', phase {phase}'})"


def names_of_result(columns: Any) -> Any:
    """The table of the six name columns of a result, in their types."""
    arrays = {}
    for name in NAMES:
        arrays[name] = cast(columns[name], NAME_TYPES[name], name)
        if arrays[name].null_count:
            raise Error("result", f"column `{name}` of the result has nulls: it is one of the columns that name a row")
    return pa.table(arrays)


def equal(left: Any, right: Any) -> bool:
    return all(left[name].equals(right[name]) for name in NAMES)


def order(rows: Any) -> Any:
    """The rows' positions in the order of names."""
    return pc.sort_indices(rows, sort_keys=BY_NAME)


def twice(rows: Any, positions: Optional[Any] = None) -> Optional[int]:
    """The position of a row whose name another row has."""
    positions = order(rows) if positions is None else positions
    if len(positions) < 2:
        return None
    same = None
    for name in ("turn", "sample", "task", "attempt", "iteration", "phase"):
        column = rows[name].take(positions)
        one = pc.equal(column.slice(0, len(positions) - 1), column.slice(1))
        same = one if same is None else pc.and_(same, one)
    at = pc.index(same, True).as_py()
    return None if at < 0 else int(positions[at].as_py())


def match(rows: Any, given: Any) -> Optional[Any]:
    """For each input row the position of the result's row of its name; None if they already have the same order."""
    if equal(rows, given):
        return None
    mine, theirs = order(rows), order(given)
    if len(mine) == len(theirs) and all(rows[name].take(mine).equals(given[name].take(theirs)) for name in NAMES):
        return theirs.take(pc.sort_indices(mine))
    raise unmatched(rows, given)


def unmatched(rows: Any, given: Any) -> Error:
    """What is wrong with names that don't match; counted row by row."""
    def keys(table: Any) -> List[Any]:
        return list(zip(*(table[name].to_pylist() for name in NAMES)))

    wanted, found = keys(rows), keys(given)
    known, seen = set(wanted), set()
    for at, key in enumerate(found):
        if key not in known:
            return Error("result", f"the result has {row_name(given, at)}, which isn't among the rows that came: add columns to the rows that come, or use @flow_op.rows to make rows")
        if key in seen:
            return Error("result", f"the result has {row_name(given, at)} twice")
        seen.add(key)
    at = next(at for at, key in enumerate(wanted) if key not in seen)
    return Error("result", f"the result lacks {row_name(rows, at)} ({len(wanted) - len(seen)} of {len(wanted)} rows are missing): give each row a value, or use @flow_op.rows to drop rows")
