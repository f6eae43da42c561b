#!/usr/bin/env python3
"""Writes python/flow/operators.py, the operators as typed functions, from the schema of the pipeline language: python3 scripts/stubs.py [SCHEMA [FILE]]."""

import json
import keyword
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMA, FILE = ROOT / "schemas/flow.schema.json", ROOT / "python/flow/operators.py"
WIDTH = 118
# Longer unions of texts are unreadable in a signature.
CHOICES = 24
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "Settings", "array": "List[Any]"}

HEAD = '''"""Generated from schemas/flow.schema.json by scripts/stubs.py; don't edit it. The operators of a pipeline, a function each.

A function returns a node's `op` and `with`: `p.node("update", flow.ops.gpu_update(model=actor, lr=1e-3), inputs=credit)`. A setting that isn't given
isn't written, so the default in its text applies. A None is written as null. A setting whose name is a word of Python has an underscore at its end."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Literal, Mapping, Union

__all__ = [
@names@,
]

Settings = Mapping[str, Any]


class Unset:
    """A setting that isn't given."""

    def __repr__(self) -> str:
        return "..."


UNSET: Any = Unset()


def made(op: str, settings: Dict[str, Any]) -> Dict[str, Any]:
    """A node without inputs, of the settings that are given."""
    given = {name.rstrip("_"): value for name, value in settings.items() if value is not UNSET}
    return {"op": op, "with": given} if given else {"op": op}
'''


class Operators:
    """The operators of a schema."""

    def __init__(self, schema):
        self.defs = schema["$defs"]
        self.ops = [(one["const"], one["description"]) for one in self.defs["node"]["properties"]["op"]["oneOf"]]
        self.ports = {rule["if"]["properties"]["op"]["const"]: rule["then"]["properties"].get("inputs") for rule in self.defs["node"]["allOf"]
                      if "const" in rule["if"].get("properties", {}).get("op", {})}

    def text(self):
        names = textwrap.fill(", ".join(f'"{python(op)}"' for op, _ in self.ops), WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4)
        return HEAD.replace("@names@", names) + "".join("\n\n" + self.function(op, about) for op, about in self.ops)

    def function(self, op, about):
        rules = self.defs[f"with.{op}"]
        settings, required = self.settings(rules), rules.get("required", [])
        order = [*(name for name in settings if name in required), *(name for name in settings if name not in required)]
        parameters = [f"    {python(name)}: {self.type(settings[name])}" + ("" if name in required else " = UNSET") + "," for name in order]
        star = ["    *,"] if parameters else []
        lines = [f"def {python(op)}(", *star, *parameters, ") -> Dict[str, Any]:"] if parameters else [f"def {python(op)}() -> Dict[str, Any]:"]
        lines += self.docs(op, about, settings, order, required)
        lines += [f'    return made("{op}", {{**locals()}})' if parameters else f'    return made("{op}", {{}})']
        return "\n".join(lines) + "\n"

    def settings(self, rules):
        """Each setting with its schema. Where its type depends on another setting, all its types."""
        found = {name: dict(one) for name, one in rules.get("properties", {}).items()}
        for rule in rules.get("allOf", []):
            for branch in (rule.get("then", {}), rule.get("else", {})):
                for name, one in branch.get("properties", {}).items():
                    if isinstance(one, dict) and name in found and "type" not in one and not {"$ref", "anyOf", "oneOf"} & set(one):
                        continue
                    if isinstance(one, dict) and name in found and not {"type", "$ref", "oneOf"} & set(found[name]):
                        kinds = found[name].setdefault("anyOf", [])
                        kinds.extend([] if one in kinds else [one])
        return found

    def type(self, one):
        kinds = list(dict.fromkeys(self.kinds(one)))
        values = [kind for kind in kinds if kind.startswith(("'", '"')) or kind in ("True", "False")]
        if len(values) > CHOICES:
            kinds, values = [kind for kind in kinds if kind not in values] + ["str"], []
        others = [kind for kind in kinds if kind not in values and not (kind == "int" and "float" in kinds)]
        if "Any" in others or not kinds:
            return "Any"
        # Any text is possible beside the known ones.
        if "str" in others:
            values = []
        last = ["None"] if "None" in others else []
        parts = [*([f"Literal[{', '.join(values)}]"] if values else []), *(kind for kind in others if kind != "None"), *last]
        return parts[0] if len(parts) == 1 else f"Union[{', '.join(parts)}]"

    def kinds(self, one):
        if "$ref" in one:
            return self.kinds(self.defs[one["$ref"].rsplit("/", 1)[1]])
        if "const" in one:
            return [json.dumps(one["const"]) if isinstance(one["const"], str) else repr(one["const"])]
        if "enum" in one:
            return [kind for value in one["enum"] for kind in self.kinds({"const": value})]
        for several in ("anyOf", "oneOf"):
            if several in one:
                return [kind for part in one[several] for kind in self.kinds(part)]
        if one.get("x-names") == "function":
            return ["str", "Callable[..., Any]"]
        types = one.get("type", [])
        found = []
        for name in [types] if isinstance(types, str) else types:
            found.append(f"List[{self.type(one['items'])}]" if name == "array" and isinstance(one.get("items"), dict) else PLAIN[name])
        return found or ["Any"]

    def docs(self, op, about, settings, order, required):
        lines = [f'    """`{op}`: {one_line(about)}.']
        ports = self.inputs(op)
        if ports:
            lines += ["", "    Inputs:"] + [line for port in ports for line in wrapped(*port)]
        if order:
            lines += ["", "    Settings:"]
        for name in order:
            one = settings[name]
            lines += wrapped(python(name), one_line(self.describes(one)) + note(one, name in required)) + self.choices(one)
        text = "\n".join(lines).replace("\\", "\\\\")
        return [text + '"""' if len(lines) == 1 else text + '\n    """']

    def describes(self, one):
        return one.get("description") or next((part["description"] for part in one.get("anyOf", []) if part.get("description")), "")

    def choices(self, one):
        """What each of the known texts of a setting means."""
        if "$ref" in one:
            return self.choices(self.defs[one["$ref"].rsplit("/", 1)[1]])
        found = []
        for part in [*one.get("oneOf", []), *one.get("anyOf", [])]:
            if "const" in part and part.get("description"):
                found += wrapped(f'"{part["const"]}"', one_line(part["description"]), 12)
            elif "const" not in part:
                found += self.choices(part)
        return list(dict.fromkeys(found)) if found else []

    def inputs(self, op):
        ports = self.ports.get(op) or {}
        for form in ports.get("anyOf", [ports]):
            if form.get("type") == "object":
                others = form.get("additionalProperties")
                other = [("any other name", one_line(others["description"]))] if isinstance(others, dict) and others.get("description") else []
                return [(name, one_line(port.get("description", ""))) for name, port in form.get("properties", {}).items()] + other
        return []


def python(name):
    """A name as one of Python's."""
    name = name.replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


def note(one, required):
    """The default of a setting, where its description doesn't say it."""
    default, said = one.get("default"), "Default:" in one.get("description", "")
    return " Required." if required else "" if default is None or said else f" Default: {json.dumps(default, ensure_ascii=False)}."


def one_line(text):
    return " ".join(text.split())


def wrapped(name, text, indent=8):
    return textwrap.wrap(f"{name}: {text}".rstrip(": "), WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4), break_long_words=False, break_on_hyphens=False)


def generated(schema=SCHEMA):
    return Operators(json.loads(Path(schema).read_text(encoding="utf-8"))).text()


if __name__ == "__main__":
    given = sys.argv[1:]
    Path(given[1] if len(given) > 1 else FILE).write_text(generated(*given[:1]), encoding="utf-8")
