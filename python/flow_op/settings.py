"""Settings: keyword-only parameters, described as JSON Schema by their annotations."""

from __future__ import annotations

import inspect
import json
import typing
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

from .errors import Error, Json
from .state import json_value

SIMPLE: Dict[Any, str] = {int: "integer", float: "number", bool: "boolean", str: "string", list: "array", dict: "object"}
KNOWN = "int, float, bool, str, list[...], dict, Literal[...] or Optional of one of them"


class Setting(NamedTuple):
    schema: Json
    required: bool
    default: Any

    def described(self) -> Json:
        return {"schema": self.schema, "required": self.required, **({} if self.required else {"default": self.default})}


def schema(annotation: Any) -> Optional[Json]:
    """The JSON Schema of an annotation; None if it has none."""
    if annotation in (inspect.Parameter.empty, Any, object):
        return {}
    if isinstance(annotation, type) and annotation in SIMPLE:
        return {"type": SIMPLE[annotation]}
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return {"enum": list(inner)}
    parts = [schema(part) for part in inner if part not in (..., type(None))]
    if any(part is None for part in parts):
        return None
    if origin is list:
        return {"type": "array", "items": parts[0]}
    if origin is dict and inner[0] is str:
        return {"type": "object", "additionalProperties": parts[1]}
    if type(None) in inner and len(parts) == 1 and parts[0] is not None:  # Optional[X], X | None
        whole = dict(parts[0])
        if "enum" in whole:
            return {"enum": [*whole["enum"], None]}
        return {**whole, "type": [whole["type"], "null"]} if isinstance(whole.get("type"), str) else whole
    return None


def settings(function: Callable[..., Any], skip: typing.Collection[str], positional: typing.Collection[str] = ()) -> Dict[str, Setting]:
    """The settings of a function, by its signature. `skip` are keywords that aren't settings; `positional` are its parameters
    before them, where these are others than one table."""
    name, found = function.__name__, {}
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise wrong(function, f"`{name}` takes no rows: its first parameter is the table")
    for at, parameter in enumerate(parameters):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise wrong(function, f"`{name}` has a parameter `{parameter}`: name each setting as a keyword after `*`, so that a pipeline is checked against it")
        if (at == 0 or parameter.name in positional) and parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        if at == 0:
            raise wrong(function, f"`{name}` takes no rows: its first parameter is the table, before `*`")
        if parameter.kind is not parameter.KEYWORD_ONLY:
            raise wrong(function, f"`{name}` has a second positional parameter `{parameter.name}`: settings are keywords, so write `*` before it")
        if parameter.name not in skip:
            found[parameter.name] = setting(function, parameter)
    return found


def setting(function: Callable[..., Any], parameter: inspect.Parameter) -> Setting:
    annotation = parameter.annotation
    if isinstance(annotation, str):  # from __future__ import annotations
        try:
            annotation = eval(annotation, getattr(function, "__globals__", {}))
        except Exception as error:
            raise wrong(function, f"the annotation `{annotation}` of setting `{parameter.name}` can't be read ({error}): write {KNOWN}") from None
    made = schema(annotation)
    if made is None:
        raise wrong(function, f"setting `{parameter.name}` has the annotation `{inspect.formatannotation(annotation)}`: write {KNOWN}, or none for any JSON value")
    if parameter.default is parameter.empty:
        return Setting(made, True, None)
    try:
        return Setting(made, False, fitted(parameter.default, made, f"the default of setting `{parameter.name}`"))
    except Error as error:
        raise wrong(function, error.message) from None


def wrong(function: Callable[..., Any], message: str) -> Error:
    code = getattr(function, "__code__", None)
    return Error("signature", message, getattr(code, "co_filename", None), getattr(code, "co_firstlineno", None))


def values(declared: Mapping[str, Setting], given: Mapping[str, Any]) -> Dict[str, Any]:
    """The keywords of a call: the settings that were given, checked, and the defaults of the others."""
    for name in given:
        if name not in declared:
            raise Error("signature", f"there is no setting `{name}`; there {'are ' + ', '.join(declared) if declared else 'is none'}")
    for name, one in declared.items():
        if one.required and name not in given:
            raise Error("signature", f"setting `{name}` is required and not given")
    # A default is copied, so that a function that changes a list doesn't change the next call.
    return {name: fitted(given[name], one.schema, f"setting `{name}`") if name in given else json.loads(json.dumps(one.default)) for name, one in declared.items()}


def fitted(value: Any, schema: Json, what: str) -> Any:
    """The value as its annotation says (1 for 1.0 where int is meant); an error if it isn't of that type."""
    value = json_value(value, what, "signature")
    if "enum" in schema:
        if not any(value == one and type(value) is type(one) for one in schema["enum"]):
            raise Error("signature", f"{what} is {value!r}, and may be one of {', '.join(map(repr, schema['enum']))}")
        return value
    types = schema.get("type")
    if types is None or value is None and "null" in types:
        return value
    kind = types if isinstance(types, str) else types[0]
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind == "number" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    wanted = next(python for python, name in SIMPLE.items() if name == kind)
    if not isinstance(value, wanted) or isinstance(value, bool) and wanted is not bool:
        raise Error("signature", f"{what} is {value!r}, and must be of type {kind}")
    if kind == "array" and schema.get("items"):
        return [fitted(one, schema["items"], f"{what}[{at}]") for at, one in enumerate(value)]
    if kind == "object" and schema.get("additionalProperties"):
        return {key: fitted(one, schema["additionalProperties"], f"{what}.{key}") for key, one in value.items()}
    return value
