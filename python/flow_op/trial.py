"""`flow_op.call`: one group of rows through a function, with the checks of a run."""

from __future__ import annotations

from typing import Any, Dict

import pyarrow as pa
import pyarrow.compute as pc

from . import chance
from .again import check
from .arrow_types import NAME_TYPES, cast, is_list
from .errors import Error
from .functions import DECORATORS, NAMES, Spec, spec_of
from .groups import Call, Group
from .result import flat, given_columns


def trial(function: Any, rows: Any, settings: Dict[str, Any]) -> Any:
    spec = spec_of(function)
    if spec is None:
        raise Error("signature", f"`{getattr(function, '__name__', function)}` isn't decorated: write {DECORATORS}")
    state = settings.pop("state", None) if spec.state is not None else None
    table = as_rows(spec, rows)
    call = Call(spec, table, [Group(0, table.num_rows, chance.seed(), "")], settings, state)
    answer = call.answer()
    check(call, answer, chance.seed())
    made = pa.table(answer.columns)
    return (made, answer.state) if spec.state is not None else made


def as_rows(spec: Spec, rows: Any) -> Any:
    """The table as a run gives it: the names, the needed columns and no others."""
    given = given_columns(rows)
    lacking = [name for name in ([] if spec.needs == "all" else spec.needs) if name not in given and name not in NAMES]
    if lacking:
        raise Error("signature", f"the rows lack the column `{lacking[0]}`, which the function needs")
    count = len(next(iter(given.values()))) if given else 0
    columns = {name: cast(given[name], wanted, name) if name in given else filled(name, count) for name, wanted in NAME_TYPES.items()}
    for name in given if spec.needs == "all" else spec.needs:
        if name not in NAMES:
            columns[name] = as_in_a_run(given[name])
    return pa.table({name: flat(column) for name, column in columns.items()})


def filled(name: str, count: int) -> Any:
    """A name column that a test leaves out: `sample` counts the rows."""
    if name == "sample":
        return pa.array(range(count), pa.uint32())
    return pa.array([{"task": "task", "phase": "play"}.get(name, 0)] * count, NAME_TYPES[name])


def as_in_a_run(column: Any) -> Any:
    """Python's numbers in the types of columns: doubles as float32, integers that aren't negative as uint64."""
    inner = column.type.value_type if is_list(column.type) else column.type
    if pa.types.is_float64(inner):
        wanted = pa.float32()
    elif pa.types.is_int64(inner) and (pc.min(flat(column).flatten() if is_list(column.type) else column).as_py() or 0) >= 0:
        wanted = pa.uint64()
    else:
        return column
    return column.cast(pa.list_(wanted) if is_list(column.type) else wanted)
