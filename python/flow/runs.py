"""A run, as a notebook shows it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

from flow_runs import index

from . import picture
from .graph import Graph, of_run
from .rows import Rows

# What needs DuckDB and is `flow_runs.Run`'s own.
TABLES = ("sql", "tables", "trajectories", "provenance", "memory_at", "nodes")


class Run:
    """The run in a folder: that of `flow_runs`, with a picture and `query`. Everything that `flow_runs.Run` has is here, too, such as `metrics()`,
    `table("rollout")` and `trajectories()`: those need DuckDB. `query`, the name, the status and the picture need none.

    `summary` has the program's summary at the end of the run, if this process ran it."""

    def __init__(self, folder: Union[str, "os.PathLike[str]"], summary: Optional[Mapping[str, Any]] = None) -> None:
        self.folder = Path(folder).resolve()
        self.summary: Dict[str, Any] = dict(summary or {})
        self._tables: Any = None
        self._graph: Optional[Graph] = None
        self.refresh()

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        return f"<run {self.name} in {self.folder}: {self.status}, {len(self.iterations)} iterations>"

    def refresh(self) -> "Run":
        """Reads the iterations that were committed since."""
        self._index = index.read(self.folder)
        if self._tables is not None:
            self._tables.refresh()
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
    def iterations(self) -> List[int]:
        """The committed iterations."""
        planned = self._index.info["iterations"]
        return [iteration for iteration in self._index.iterations if iteration < planned]

    def query(self, sql: str) -> Rows:
        """A question in SQL, as `flow query` answers it: a list with a dict for each row."""
        return Rows.asked(self.folder, sql)

    def metrics(self, node: Optional[str] = None, name: Optional[str] = None) -> Any:
        """The metrics as a relation of DuckDB: iteration, node, name, value."""
        return self._duckdb().metrics(node, name)

    def table(self, name: str, iterations: Any = None) -> Any:
        """The rows of a node as a relation of DuckDB."""
        return self._duckdb().table(name, iterations)

    def __getattr__(self, name: str) -> Any:
        if name not in TABLES:
            raise AttributeError(f"a run has no {name}")
        return getattr(self._duckdb(), name)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *TABLES]

    def _duckdb(self) -> Any:
        if self._tables is None:
            from flow_runs.run import Run as Tables

            self._tables = Tables(self.folder)
        return self._tables

    def _repr_html_(self) -> str:
        if self._graph is None:
            self._graph = of_run(self.folder, self._index.info)
        planned = self._index.info["iterations"]
        figures = [(iteration, by_node) for iteration, by_node in self._index.figures if iteration < planned]
        return picture.page(self.name, f"{self.status}, {len(self.iterations)} of {planned} iterations", self._graph, figures)
