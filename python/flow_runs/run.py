"""A run, and the questions that it answers."""

from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

try:
    import duckdb
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("flow_runs.Run needs DuckDB: pip install 'flow-rl[runs]', or pip install duckdb", name=error.name) from error

from . import index, views
from .index import DamagedRun
from .views import literal, quoted

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]


class Run:
    """The run in a folder, as it is now; `refresh` looks again. Answers are DuckDB relations: `.df()`, `.pl()`, `.to_arrow_table()`, `.fetchall()`."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self.refresh()

    def __repr__(self) -> str:
        return f"<run {self.name} in {self.folder}: {self.status}, {sum(i < self._index.info['iterations'] for i in self.iterations)} iterations>"

    def refresh(self) -> Run:
        """Takes in what was committed since."""
        self._lock = _reading(self.folder)
        self._index = index.read(self.folder)
        self._db = self._connected()
        return self

    @property
    def name(self) -> str:
        return str(self._index.info["name"])

    @property
    def status(self) -> str:
        """`running`, `finished`, `stopped` or `failed`; a run that was killed says `running`."""
        status = self._index.info["status"]
        return status if isinstance(status, str) else next(iter(status))

    @property
    def iterations(self) -> list[int]:
        """Those that are committed."""
        return self._index.iterations

    @property
    def nodes(self) -> list[str]:
        """The nodes whose rows were logged."""
        return [node["id"] for node in self._index.info["nodes"]]

    def sql(self, question: str) -> duckdb.DuckDBPyRelation:
        """Any question over the tables of `tables()`."""
        return self._db.sql(question)

    def tables(self) -> list[str]:
        """A table for each logged node, `errors`, `metrics`, and the joined views."""
        return [name for (name,) in self._db.sql("select table_name from duckdb_columns() where not internal group by 1 order by min(table_oid)").fetchall()]

    def table(self, name: str, iterations: int | Iterable[int] | None = None) -> duckdb.DuckDBPyRelation:
        """The rows of a table, of this iteration or these alone where they are given."""
        if iterations is None:
            return self.sql(f"select * from {quoted(name)}")
        several = iterations if isinstance(iterations, Iterable) else [operator.index(iterations)]
        return self.sql(f"select * from {quoted(name)} where iteration in ({', '.join(str(int(i)) for i in several) or 'NULL'})")

    def trajectories(self, iterations: int | Iterable[int] | None = None) -> duckdb.DuckDBPyRelation:
        """Every turn with what each node made of it. A `ValueError` if no turns were logged."""
        self._require("trajectories", "turns", "rollout")
        return self.table("trajectories", iterations)

    def metrics(self, node: str | None = None, name: str | None = None) -> duckdb.DuckDBPyRelation:
        """The figures: iteration, node, name, value. A warning if there are none of this node or name so far."""
        wanted = [f"{column} = {literal(value)}" for column, value in (("node", node), ("name", name)) if value is not None]
        known = sorted({(n, figure) for _, by_node in self._index.figures for n, named in by_node.items() for figure in named})
        if wanted and not any(node in (None, n) and name in (None, figure) for n, figure in known):
            asked = " ".join(filter(None, (name and f"`{name}`", node and f"of `{node}`")))
            names = [figure for n, figure in known if n == node]
            there = f"the figures {', '.join(names)}" if names else f"figures of {', '.join(sorted({n for n, _ in known})) or 'no node yet'}"
            warnings.warn(f"{self.folder.name} has no figure {asked}: it has {there}", stacklevel=2)
        return self.sql("select * from metrics" + (f" where {' and '.join(wanted)}" if wanted else ""))

    def provenance(self, **row: Any) -> duckdb.DuckDBPyRelation:
        """What each update made of each row; of one row or some, by parts of their names: `iteration`, `task`, `sample`, `attempt`, `turn`, `phase`.
        A warning if there is no such row so far; a `ValueError` if no update was logged."""
        unknown = set(row) - set(views.NAME)
        if unknown:
            raise TypeError(f"a row's name has the parts {', '.join(views.NAME)}, and not {', '.join(sorted(unknown))}")
        wanted = [f"{quoted(part)} = {literal(value) if isinstance(value, str) else int(value)}" for part, value in row.items()]
        self._require("provenance", "update", "gpu-update")
        question = "select * from provenance" + (f" where {' and '.join(wanted)}" if wanted else "")
        if wanted and not self.sql(f"{question} limit 1").fetchall():
            parts = ", ".join(f"{part} = {value!r}" for part, value in row.items())
            warnings.warn(f"{self.folder.name} has no row with {parts} in an update so far; trajectories() has the names of rows", stacklevel=2)
        return self.sql(question)

    def memory_at(self, iteration: int) -> duckdb.DuckDBPyRelation:
        """The entries of the run's memories after an iteration. A `ValueError` if the run logged none."""
        self._require("memory_at", "memory", "memory-update")
        return self.sql(f"from memory_at({int(iteration)})")

    def _require(self, name: str, what: str, op: str) -> None:
        """Insists on a view or macro, which is there only if the run's log has its rows."""
        there = "select 1 from duckdb_views() where view_name = $1 union all select 1 from duckdb_functions() where function_name = $1"
        if not self._db.execute(there, [name]).fetchall():
            raise ValueError(f"{self.folder.name} has no {what} in its log: it needs a node with `op: {op}` that `log` names")

    def _connected(self) -> duckdb.DuckDBPyConnection:
        # A question about a run neither fetches nor loads an extension.
        db = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
        # An extension of DuckDB has this name, too.
        db.execute("create macro text(tokens) as error('flow_runs has no text(tokens): `flow query` has it')")
        nodes = {node["id"]: node for node in self._index.info["nodes"]}
        for name in [*nodes, "errors"]:
            db.execute(f"create view {quoted(name)} as {self._rows(name, nodes.get(name))}")
        db.execute("create table metrics (iteration ubigint, node varchar, name varchar, value double)")
        figures = [
            (iteration, node, name, float("nan") if value is None else value)
            for iteration, by_node in self._index.figures
            for node, named in sorted(by_node.items())
            for name, value in sorted(named.items())
        ]
        for start in range(0, len(figures), 5000):
            part = figures[start : start + 5000]
            db.execute(f"insert into metrics values {', '.join(['(?, ?, ?, ?)'] * len(part))}", [value for row in part for value in row])
        turns = []
        for node in nodes.values():
            columns = [column for (column,) in db.sql(f"select column_name from duckdb_columns() where table_name = {literal(node['id'])} order by column_index").fetchall()]
            if node.get("role") not in views.APART and all(column in columns for column in views.NAME):
                turns.append(views.Turns(node["id"], columns, node.get("upstream", [])))
        for name, view in (("trajectories", views.trajectories(turns)), ("provenance", views.provenance(turns))):
            if view:
                db.execute(f"create view {name} as {view}")
        remembering = [node["id"] for node in nodes.values() if node.get("role") == "remembers" and node["columns"]]
        if remembering:
            db.execute(views.memory_at(remembering))
        clustering = [node["id"] for node in nodes.values() if "prototype" in node["columns"]]
        if clustering:
            db.execute(views.clusters_at(clustering))
        return db

    def _rows(self, name: str, node: dict[str, Any] | None) -> str:
        files = self._index.files.get(name)
        if not files:
            columns = (node or {}).get("columns") or views.NAME
            return f"select {', '.join(f'NULL::VARCHAR as {quoted(column)}' for column in columns)} where false"
        # An empty text is no JSON.
        figures = "select * replace (nullif(info, '') as info) " if "info" in (node or {}).get("columns", ()) else ""
        return f"{figures}from read_parquet([{', '.join(literal(str(file)) for file in files)}], hive_partitioning = false)"


def _reading(folder: Path) -> Any:
    """A shared lock: while it is held, a run that goes on removes no file that it has merged into another."""
    with contextlib.suppress(OSError):
        file = (folder / "readers").open("rb")
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_SH)
        return file
    return None


def runs(folder: str | Path = "runs") -> Iterator[Run]:
    """The runs in a folder, by name; what is no run is passed over."""
    for manifest in sorted(Path(folder).glob("*/manifest.json")):
        with contextlib.suppress(DamagedRun):
            yield Run(manifest.parent)
