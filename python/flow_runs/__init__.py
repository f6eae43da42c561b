"""Runs of `flow` in Python: their rows and figures, as DuckDB relations.

    import flow_runs

    run = flow_runs.Run("runs/quickstart")
    run.trajectories(iterations=range(10, 20)).df()          # pandas
    run.metrics().pl()                                       # polars
    run.sql("select task, avg(reward) from rollout group by all").to_arrow_table()
    run.provenance(iteration=11, task="...", sample=2, turn=0).fetchall()

A run may be going on, finished, dead or a copy: what is committed is seen, as `flow query` sees it, and nothing else. `Run` needs `duckdb`; `df`, `pl`
and `arrow` need pandas, polars and pyarrow. Files are compared by their lengths; `flow query` verifies checksums, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .index import DamagedRun

if TYPE_CHECKING:
    from .run import Run, runs

__all__ = ["DamagedRun", "Run", "runs"]


def __getattr__(name: str) -> Any:
    """`Run` and `runs`, imported at their first use: `python -m flow_runs` needs no DuckDB."""
    if name not in ("Run", "runs"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import run

    return getattr(run, name)
