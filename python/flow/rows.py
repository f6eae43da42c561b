"""The answer to a question in SQL."""

from __future__ import annotations

import html
import io
import json
import os
from typing import Any, Dict, List, Optional, Union

from . import errors
from .process import execute

# Rows of an answer that a notebook shows.
SHOWN = 50


class Rows(List[Dict[str, Any]]):
    """The rows of an answer, a dict each. A NaN is None. `arrow()` and `pandas()` ask again, and have each column's own type."""

    folder = ""
    sql = ""

    @classmethod
    def asked(cls, run: "Union[str, os.PathLike[str]]", sql: str) -> "Rows":
        folder = os.path.abspath(os.fspath(run))
        rows = cls(json.loads(answer(folder, sql, "json")))
        rows.folder, rows.sql = folder, sql
        return rows

    def arrow(self) -> Any:
        """The answer as a table of pyarrow."""
        import pyarrow.parquet

        return pyarrow.parquet.read_table(io.BytesIO(answer(self.folder, self.sql, "parquet")))

    def pandas(self) -> Any:
        """The answer as a data frame of pandas, which needs pyarrow, too."""
        return self.arrow().to_pandas()

    def _repr_html_(self) -> str:
        columns = list(self[0]) if self else []
        head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(shown(row[column]))}</td>" for column in columns) + "</tr>" for row in self[:SHOWN])
        more = f", {SHOWN} shown" if len(self) > SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{len(self)} row{'' if len(self) == 1 else 's'}{more}</p>"


def answer(folder: str, sql: str, form: str) -> bytes:
    # A question may be longer than an argument may be, and may begin with a hyphen.
    ended = execute(["query", f"--format={form}", "--", folder, "-"], text=sql)
    if ended.code != 0:
        raise errors.from_output(ended.err, ended.code)
    return ended.out


def shown(value: Optional[Any]) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:199] + "…"
