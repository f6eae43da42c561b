"""Writes YAML: the few forms that a pipeline needs, read alike by readers of YAML 1.1 and 1.2."""

from __future__ import annotations

import json
import math
import re
from typing import Any, List, Mapping

# A map or a list on one line is no wider than this.
WIDTH = 120
# Texts that need no quotes: in a line of its own, and between brackets.
PLAIN = re.compile(r"(?:(?:\.\.?/)+|[A-Za-z_/])(?:[A-Za-z0-9_./+=()%'<>*,-]|:(?=[A-Za-z0-9_./])| (?=[A-Za-z0-9_/(<>+=*%]))*")
# These would be read as something else than a text.
WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
# YAML reads these as breaks of a line, or not at all.
HIDDEN = "\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff"
UNPRINTABLE = re.compile(f"[{HIDDEN}]")
# A text that can stand in a block. Its first line has no space at its beginning, which would be read as the block's own.
BLOCK = re.compile(rf"[^\x00-\x20{HIDDEN}][^\x00-\x08\x0b-\x1f{HIDDEN}]*")


def document(source: Mapping[str, Any]) -> str:
    """A pipeline as a file. Its parts (nodes, models, agents) have a line or a block for each of their names."""
    lines: List[str] = []
    for key, value in source.items():
        if isinstance(value, Mapping) and value and key != "keep":
            lines.append(f"{name_of(key)}:")
            for name, one in value.items():
                entry(lines, name, one, 1)
        else:
            entry(lines, key, value, 0)
    return "\n".join(lines) + "\n"


def entry(lines: List[str], key: str, value: Any, depth: int) -> None:
    """A key and its value: on one line where they fit, in a block otherwise."""
    begin = "  " * depth + name_of(key) + ":"
    if isinstance(value, str) and is_block(value):
        lines.append(f"{begin} |" + ("" if value.endswith("\n") else "-"))
        lines.extend("  " * (depth + 1) + line if line else "" for line in block(value))
    elif not has_block(value) and (not isinstance(value, (Mapping, list, tuple)) or not value or len(begin) + 1 + len(inline(value)) <= WIDTH):
        lines.append(f"{begin} {inline(value, flow=False)}")
    elif isinstance(value, Mapping):
        lines.append(begin)
        for name, one in value.items():
            entry(lines, name, one, depth + 1)
    else:
        lines.append(begin)
        for one in value:
            item(lines, one, depth + 1)


def item(lines: List[str], value: Any, depth: int) -> None:
    """An element of a list in a block."""
    begin = "  " * depth + "- "
    if isinstance(value, (Mapping, list, tuple)) and value and (has_block(value) or len(begin) + len(inline(value)) > WIDTH):
        inner: List[str] = []
        if isinstance(value, Mapping):
            for name, one in value.items():
                entry(inner, name, one, depth + 1)
        else:
            for one in value:
                item(inner, one, depth + 1)
        lines.append(begin + inner[0].lstrip(" "))
        lines.extend(inner[1:])
    elif isinstance(value, str) and is_block(value):
        lines.append(begin + "|" + ("" if value.endswith("\n") else "-"))
        lines.extend("  " * (depth + 1) + line if line else "" for line in block(value))
    else:
        lines.append(begin + inline(value, flow=False))


def inline(value: Any, flow: bool = True) -> str:
    """A value on one line; `flow` where brackets are around it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name_of(key)}: {inline(one)}" for key, one in value.items()) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inline(one) for one in value) + "]"
    return scalar(value, flow)


def name_of(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key of a pipeline is a text, and not {key!r}")
    return text(key, True)


def scalar(value: Any, flow: bool = True) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return text(value, flow)
    raise TypeError(f"a pipeline has texts, numbers, lists and maps, and not {value!r}")


def number(value: float) -> str:
    """The shortest digits that give the same number; with a point, which readers of YAML 1.1 need."""
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    digits, e, exponent = repr(float(value)).partition("e")
    return digits + ("" if "." in digits or not e else ".0") + e + (exponent if exponent[:1] in ("", "-", "+") else "+" + exponent)


def text(value: str, flow: bool) -> str:
    plain = PLAIN.fullmatch(value) and value.lower() not in WORDS and not (flow and "," in value)
    if plain:
        return value
    value.encode()  # Half of a surrogate pair is no text: it raises an error here.
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def is_block(value: str) -> bool:
    lost = value.endswith("\n\n") or any(line.isspace() for line in value.split("\n") if line)
    return "\n" in value[:-1] and not lost and BLOCK.fullmatch(value) is not None


def block(value: str) -> List[str]:
    return (value[:-1] if value.endswith("\n") else value).split("\n")


def has_block(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(has_block(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return any(has_block(one) for one in value)
    return isinstance(value, str) and is_block(value)
