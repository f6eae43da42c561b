"""A file of tasks, by split and name."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List

from .. import words
from ..limits import NAME, TASK, WORDS, Json, clean
from .settings import Wrong, digest


class Tasks:
    """Tasks by split and name."""

    def __init__(self, splits: Dict[str, Dict[str, Json]]) -> None:
        self.splits = splits

    @classmethod
    def of_file(cls, path: str) -> Tasks:
        """The tasks of a file, an object a line."""
        splits: Dict[str, Dict[str, Json]] = {}
        places: Dict[str, int] = {}
        try:
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Wrong(f"the tasks can't be read: {path}: {error}") from None
        for place, line in enumerate(lines, 1):
            if line.strip():
                name, split, task = parsed(line, f"{path}:{place}")
                if name in places:
                    raise Wrong(f"{path}:{place}: the task {name} stands in line {places[name]} already; give each an `id` of its own")
                places[name] = place
                splits.setdefault(split, {})[name] = task
        if not places:
            raise Wrong(f"{path} has no task; each line is a JSON object")
        return cls(splits)

    @classmethod
    def held_out(cls, tasks: Dict[str, Json]) -> Tasks:
        """Tasks without splits: the last tenth is `test`. One task alone is `train`."""
        names = list(tasks)
        cut = len(names) - (max(1, len(names) // 10) if len(names) > 1 else 0)
        parts = {"train": names[:cut], "test": names[cut:]}
        return cls({split: {name: tasks[name] for name in some} for split, some in parts.items() if some})

    def words(self) -> List[str]:
        """The words of the tasks' texts, for small models."""
        texts = (text for tasks in self.splits.values() for task in tasks.values() for text in strings(task))
        return words.of_texts(words.beginning(texts, words.TEXT))[:WORDS]


def parsed(line: str, place: str) -> "tuple[str, str, Json]":
    """Name, split and object of a task."""
    try:
        task = json.loads(line)
    except ValueError as error:
        raise Wrong(f"{place}: no JSON ({error})") from None
    if not isinstance(task, dict):
        raise Wrong(f"{place}: a task is a JSON object, not {line[:60]}")
    name, split = task.get("id"), task.get("split", "train")
    if name is None:
        name = digest({key: value for key, value in task.items() if key != "split"})[:16]
    if not isinstance(name, str) or not TASK.match(name):
        raise Wrong(f"{place}: the `id` {name!r} isn't of 1 to 128 letters, digits and . _ / : + -")
    if not isinstance(split, str) or not NAME.match(split):
        raise Wrong(f"{place}: the `split` {split!r} isn't called by lower-case letters, digits and _")
    return name, split, task


def strings(value: Any) -> Iterator[str]:  # a generator, which `words.beginning` closes
    if isinstance(value, str):
        yield clean(value)
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)
