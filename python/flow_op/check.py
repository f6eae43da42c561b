"""`python -m flow_op check FILE:FUNCTION`: a description for people, or the first mistake."""

from __future__ import annotations

import os
import sys
from typing import Any, List

from .errors import Json, described
from .serve import need_arrow


def check(call: str) -> int:
    operator: Any = None
    try:
        need_arrow()
        from .load import Operator

        operator = Operator(call, os.getcwd())
        operator.load()
        print("\n".join(page(call, operator.described())))
        return 0
    except BaseException as error:
        wrong = described(error, operator.own if operator else lambda path: False)["error"]
        place = f"{wrong['file']}:{wrong['line'] or 1}: " if wrong["file"] else ""
        print(f"{place}{wrong['message']}", file=sys.stderr)
        if wrong["traceback"]:
            print(wrong["traceback"], end="", file=sys.stderr)
        return 1


def page(call: str, said: Json) -> List[str]:
    form = {"columns": "columns: a value for each row", "rows": "rows: keeps, drops, changes or makes rows", "loss": "loss: a value for each token"}[said["form"]]
    needs = "all columns" if said["needs"] == "all" else ", ".join(said["needs"]) or "the columns that name a row"
    lines = [call, *(f"  {line}".rstrip() for line in said["about"].splitlines()), "", f"form      {form}", f"needs     {needs}"]
    lines += listed("adds", [f"{name}: {one}" for name, one in said["adds"].items()])
    lines += listed("settings", [f"{name}: {type_words(one['schema'])}, {'required' if one['required'] else 'default ' + repr(one['default'])}" for name, one in said["settings"].items()])
    lines.append(f"state     {'yes: one call an iteration' if said['state'] else 'none'}")
    lines.append(f"order     {'the order of the rows matters' if said['ordered'] else 'any order of the rows gives the same values'}")
    lines += listed("files", [f"{one['path']} {one['sha256'][:12]}" for one in said["files"]])
    lines += listed("versions", [", ".join(f"{name} {one}" for name, one in said["versions"].items())])
    return lines


def listed(head: str, items: List[str]) -> List[str]:
    return [f"{head if at == 0 else '':10}{item}" for at, item in enumerate(items or ["none"])]


def type_words(schema: Json) -> str:
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    types = schema.get("type", "any value")
    words = types if isinstance(types, str) else " or ".join(types)
    return f"{words} of {type_words(schema['items'])}" if schema.get("items") else words
