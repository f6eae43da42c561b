"""Checks of a function's result: its form, its rows, its types, no missing and no infinite number."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

import pyarrow as pa
import pyarrow.compute as pc

from .arrow_types import NAME_TYPES, cast, is_list
from .errors import Error
from .functions import NAMES, Spec
from .names import match, names_of_result, row_name

Columns = Dict[str, Any]


def given_columns(result: Any) -> Columns:
    """The columns of a result, by name."""
    if isinstance(result, (pa.Table, pa.RecordBatch)):
        names = result.schema.names
        if len(set(names)) < len(names):
            raise Error("result", f"the result has two columns of one name: {', '.join(names)}")
        return dict(zip(names, result.columns))
    if isinstance(result, Mapping):
        return {str(name): array(str(name), one) for name, one in result.items()}
    if hasattr(result, "__arrow_c_stream__"):
        try:
            return given_columns(pa.table(result))
        except Error:
            raise
        except Exception as error:
            raise Error("result", f"the {kind(result)} that the function returns can't become a table: {error}") from None
    end = ": does a `return` lack?" if result is None else ": return a pa.Table, a pa.RecordBatch, a dict of columns or a data frame"
    raise Error("result", f"the function returns {'None' if result is None else 'a ' + kind(result)}{end}")


def array(name: str, values: Any) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if not (isinstance(values, (list, tuple)) or any(hasattr(values, one) for one in ("__array__", "__arrow_array__", "__arrow_c_array__", "__arrow_c_stream__"))):
        raise Error("result", f"column `{name}` is a {kind(values)}: give a pa.Array, a numpy array or a list")
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if hasattr(values, "__array__") and not hasattr(values, "__arrow_c_array__") and not hasattr(values, "index"):  # numpy, torch, jax; pandas has an index
            values = values.__array__()
            values = list(values) if values.ndim == 2 else values
        return pa.array(values)
    except Exception as error:
        raise Error("result", f"column `{name}` can't become an Arrow array: {error}") from None


def kind(value: Any) -> str:
    return type(value).__qualname__ if type(value).__module__ == "builtins" else f"{type(value).__module__}.{type(value).__qualname__}"


def for_columns(spec: Spec, result: Any, rows: Any) -> List[Any]:
    """The added columns, one value a row of the input and in its order, in the types declared."""
    given = given_columns(result)
    lacking = [name for name in spec.adds if name not in given]
    if lacking:
        has = f"it has {', '.join(given)}" if given else "it has no columns"
        raise Error("result", f"the result lacks the column `{lacking[0]}`, which the function adds: {has}")
    named = [name for name in NAMES if name in given]
    positions = None
    if len(named) == len(NAMES):
        positions = match(rows, names_of_result(given))
    for name in spec.adds:
        if len(given[name]) != rows.num_rows:
            raise Error("result", f"column `{name}` has {len(given[name])} values for {rows.num_rows} rows: give one a row")
    if positions is None and len(named) < len(NAMES):
        for name in named:
            if len(given[name]) != rows.num_rows or not flat(cast(given[name], NAME_TYPES[name], name)).equals(flat(rows[name])):
                raise Error("result", f"the result's column `{name}` isn't in the order of the rows that came: keep that order, or keep all of {', '.join(NAMES)}, so that rows are matched by name")
    return [cast(given[name] if positions is None else given[name].take(positions), wanted, name) for name, wanted in spec.adds.items()]


def for_rows(spec: Spec, result: Any, rows: Any) -> Columns:
    """The names, the added columns and the other columns of the input that the result has."""
    given = given_columns(result)
    lacking = [name for name in (*NAMES, *spec.adds) if name not in given]
    if lacking:
        why = "each row of a result has a name" if lacking[0] in NAMES else "which the function adds"
        raise Error("result", f"the result lacks the column `{lacking[0]}` ({why}): it has {', '.join(given) or 'no columns'}")
    counts = {name: len(given[name]) for name in given}
    if len(set(counts.values())) > 1:
        raise Error("result", "the result's columns have different lengths: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    names = names_of_result(given)
    return {name: names[name] if name in NAMES else cast(given[name], wanted, name) for name, wanted in wanted_types(spec, rows, given).items()}


def wanted_types(spec: Spec, rows: Any, given: Columns) -> Dict[str, Any]:
    others = {field.name: field.type for field in rows.schema if field.name in given}
    return {**{name: NAME_TYPES[name] for name in NAMES}, **spec.adds, **{name: one for name, one in others.items() if name not in NAMES and name not in spec.adds}}


def flat(column: Any) -> Any:
    """One array of a chunked one."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def joined(parts: List[Any], wanted: Any) -> Any:
    """One array of the groups' parts."""
    chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], wanted)


def refuse_missing(column: str, values: Any, rows: Any) -> None:
    """An error that names the first row with a null, a NaN or an infinity in this column."""
    at, what = missing(values)
    if at is not None:
        raise Error("result", f"column `{column}` is {what} in {row_name(rows, at)}: give each row a number, for example by pc.fill_null or by a default for a division by 0"
                    if what != "null" else f"column `{column}` is null in {row_name(rows, at)}: give each row a value, for example by pc.fill_null")


def missing(values: Any) -> Tuple[Any, str]:
    if values.null_count:
        return pc.index(values.is_null(), True).as_py(), "null"
    nested = is_list(values.type)
    inner = values.flatten() if nested else values
    if inner.null_count:
        at, what = pc.index(inner.is_null(), True).as_py(), "null"
    elif pa.types.is_floating(inner.type) and pc.all(pc.is_finite(inner)).as_py() is False:
        at = pc.index(pc.is_finite(inner), False).as_py()
        what = str(inner[at].as_py())
    else:
        return None, ""
    if not nested:
        return at, what
    for row, count in enumerate(pc.list_value_length(values).to_pylist()):
        if at < count:
            return row, f"a list with {what} at place {at}"
        at -= count
    return None, ""
