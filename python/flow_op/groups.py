"""A request to run: the function is called once a group, and the answer is one batch."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import pyarrow as pa

from .chance import seeded
from .errors import Error
from .functions import NAMES, Spec
from .names import row_name, twice
from .result import Columns, for_columns, for_rows, joined, kind, refuse_missing
from .settings import values
from .state import json_value


class Group(NamedTuple):
    """Rows `start` to `end` of the table, the seed of their chance, and their name for errors."""

    start: int
    end: int
    seed: int
    name: str


class Answer(NamedTuple):
    columns: Columns
    state: Any
    rows: Any
    """The names of the answer's rows, for errors."""


class Call:
    """A function with its settings for one request."""

    def __init__(self, spec: Spec, rows: Any, groups: List[Group], settings: Dict[str, Any], state: Any) -> None:
        groups = [group for group in groups if group.end > group.start]  # without rows there is no call
        lacking = [name for name in NAMES if name not in rows.column_names]
        if lacking:
            raise Error("protocol", f"the table lacks the column `{lacking[0]}`")
        if spec.state is not None and len(groups) > 1:
            raise Error("protocol", f"a function with a state is called once, not for {len(groups)} groups")
        self.spec, self.rows, self.groups = spec, rows, groups
        self.given = settings
        self.settings = values(spec.settings, settings)
        self.state = spec.first_state() if state is None else state
        self.at: Optional[Group] = None

    def where(self) -> str:
        """The group that was at work, for the text of an exception."""
        return f" in {self.at.name}" if self.at and self.at.name else ""

    def once(self, group: Group, rows: Any) -> Tuple[Any, Any]:
        """The function's result for one group, in the checked form, and the next state."""
        self.at = group
        keywords = values(self.spec.settings, self.given) if self.spec.settings else {}
        if self.spec.state is not None:
            keywords["state"] = json_value(self.state, "state")
        with seeded(group.seed):
            result = self.spec.function(rows, **keywords)
        state: Any = None
        if self.spec.state is not None:
            if not isinstance(result, tuple) or len(result) != 2:
                raise Error("result", f"a function with a state returns (result, state), and this one returns a {kind(result)}")
            result, state = result
            state = json_value(state, "the state")
            if state is None:
                raise Error("result", "the state that the function returns is None: return a JSON value such as a dict")
        try:
            return (for_columns if self.spec.form == "columns" else for_rows)(self.spec, result, rows), state
        except Error as error:
            error.message += self.where()
            raise

    def answer(self) -> Answer:
        parts: List[Any] = []
        state = self.state
        for group in self.groups:
            part, state = self.once(group, self.rows.slice(group.start, group.end - group.start))
            parts.append(part)
        return self.joined(parts, state)

    def joined(self, parts: List[Any], state: Any) -> Answer:
        """The groups' parts as one answer, checked row by row."""
        if self.spec.form == "columns":
            made = {name: joined([part[at] for part in parts], wanted) for at, (name, wanted) in enumerate(self.spec.adds.items())}
            rows = self.rows
            columns = {**{name: joined([rows[name]], rows[name].type) for name in NAMES}, **made}
        else:
            columns = made = self.rows_of(parts)
            rows = pa.table({name: columns[name] for name in NAMES})
        for name, column in made.items():
            refuse_missing(name, column, rows)
        if self.spec.form == "rows":
            at = twice(rows)
            if at is not None:
                raise Error("result", f"the result has {row_name(rows, at)} twice: give each row that you make its own sample or turn")
        return Answer(columns, state, rows)

    def rows_of(self, parts: List[Columns]) -> Columns:
        if not parts:
            return {**{name: pa.array([], self.rows[name].type) for name in NAMES}, **{name: pa.array([], one) for name, one in self.spec.adds.items()}}
        for group, part in zip(self.groups, parts):
            if set(part) != set(parts[0]):
                name = sorted(set(part) ^ set(parts[0]))[0]
                raise Error("result", f"some groups' results have the column `{name}` and others lack it ({self.groups[0].name}, {group.name}): give all the same columns")
        return {name: joined([part[name] for part in parts], one.type) for name, one in parts[0].items()}


def batch(columns: Columns) -> Any:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
