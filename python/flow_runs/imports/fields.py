"""Which fields of a line are read, or change nothing: all others are named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# The most names that are kept: a file may have a name of its own in each line.
MOST = 64
END, BELOW, ANY = "", "**", "*"


def patterns(*lists: Iterable[str]) -> dict[str, Any]:
    """Paths as a tree: `*` is any name or place in a list, and a last `**` is all below."""
    tree: dict[str, Any] = {}
    for path in (path for paths in lists for path in paths):
        at = tree
        for part in path.split("."):
            at = at.setdefault(part, {})
        at[END] = {}
    return tree


def unread(value: Any, known: dict[str, Any], into: set[str], path: tuple[str, ...] = (), at: list[dict[str, Any]] | None = None) -> None:
    """Adds the paths of fields of `value` that no pattern has. Null, empty texts, lists and objects say nothing."""
    if value is None or value == "" or value == [] or value == {} or len(into) >= MOST:
        return
    trees = [known] if at is None else at
    if not path or any(part not in (END, BELOW) for tree in trees for part in tree):
        items: Iterable[tuple[str, Any]] = ((ANY, item) for item in value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
        for name, item in items:
            names = (name,) if name == ANY else (name, ANY)
            inside = [tree[part] for tree in trees for part in names if part in tree and part not in (END, BELOW)]
            inside += [{BELOW: {}} for tree in trees if BELOW in tree]
            unread(item, known, into, (*path, name), inside)
    elif not any(END in tree or BELOW in tree for tree in trees):
        into.add(".".join(path).replace(".*", "[]"))
