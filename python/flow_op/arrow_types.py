"""The types of columns, and the casts that lose nothing but precision."""

from __future__ import annotations

from typing import Any, Dict, Optional

import pyarrow as pa

from .errors import Error

NAMED: Dict[str, Any] = {
    "u64": pa.uint64(), "u32": pa.uint32(), "i32": pa.int32(), "f32": pa.float32(), "bool": pa.bool_(), "utf8": pa.string(),
    "list of u64": pa.list_(pa.uint64()), "list of u32": pa.list_(pa.uint32()), "list of f32": pa.list_(pa.float32()),
}
"""Each type that columns of rows have, by its name in the protocol."""
TYPES = ["pa.uint64()", "pa.uint32()", "pa.int32()", "pa.float32()", "pa.bool_()", "pa.string()", "pa.list_(pa.float32())", "pa.list_(pa.uint32())", "pa.list_(pa.uint64())"]
NAME_TYPES: Dict[str, Any] = {"iteration": pa.uint64(), "task": pa.string(), "sample": pa.uint32(), "attempt": pa.uint32(), "turn": pa.uint32(), "phase": pa.string()}


def type_name(type: Any) -> Optional[str]:
    return next((name for name, one in NAMED.items() if one == type), None)


def is_list(type: Any) -> bool:
    kinds = pa.types
    views = getattr(kinds, "is_list_view", None)
    return bool(kinds.is_list(type) or kinds.is_large_list(type) or kinds.is_fixed_size_list(type) or views and (views(type) or kinds.is_large_list_view(type)))


def is_text(type: Any) -> bool:
    views = getattr(pa.types, "is_string_view", None)
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or views and views(type))


def castable(given: Any, wanted: Any) -> bool:
    """Whether values of one type can become another's without loss but of precision."""
    if given == wanted or pa.types.is_null(given):  # nulls are refused later, with the row's name
        return True
    if is_list(wanted):
        return is_list(given) and castable(given.value_type, wanted.value_type)
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_floating(given) or pa.types.is_integer(given))
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(given))
    return pa.types.is_string(wanted) and is_text(given)


def cast(array: Any, wanted: Any, column: str) -> Any:
    """An array or chunked array of the wanted type."""
    given = array.type
    if given == wanted:
        return array
    if pa.types.is_dictionary(given):
        return cast(array.cast(given.value_type), wanted, column)
    if not castable(given, wanted):
        raise Error("result", f"column `{column}` must be {shown(wanted)}, and the function gave {shown(given)}: {advice(given, wanted)}")
    try:
        # Not safe: a large integer may lose precision in a float. An infinity is refused later, with the row's name.
        inner = wanted.value_type if is_list(wanted) else wanted
        return array.cast(wanted, safe=not pa.types.is_floating(inner))
    except MemoryError:
        raise
    except pa.ArrowException as error:
        raise Error("result", f"column `{column}` must be {shown(wanted)}, and a value of the {shown(given)} given isn't one: {error}") from None


def shown(type: Any) -> str:
    name = type_name(type)
    return f"{name} ({type})" if name and name != str(type) else str(type)


def advice(given: Any, wanted: Any) -> str:
    if pa.types.is_boolean(given) and not is_list(wanted):
        return "cast it, for example pc.cast(x, pa.float32())"
    if pa.types.is_floating(given) and pa.types.is_integer(wanted):
        return "round it and cast it, for example pc.cast(pc.round(x), pa.int64())"
    if is_list(given) != is_list(wanted):
        return "give one list a row" if is_list(wanted) else "give one value a row"
    return f"give values of type {wanted}, or declare another type in `adds`"
