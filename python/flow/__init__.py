"""`flow` from Python: pipelines that are built here, and runs that are shown here.

    import flow

    p = flow.Pipeline("mine", iterations=20, seed=1)
    actor = p.model("actor", new="tiny", layers=1, width=32)
    tasks = p.node("tasks", op="tasks", env="minesweeper", size=4, mines=2, batch=6)
    ...
    run = flow.run(p)                                          # the notebook shows its progress, its graph and its curves
    run.query("select task, avg(reward) from rollout group by all")
    flow.replay(run, set={"nodes.advantage.with.baseline": "leave_one_out"})

Each function starts the program `flow`: the wheel's, else `target/release/flow` of the checkout, else the one on PATH. `FLOW_PROGRAM` names another.
Nothing beyond the standard library is imported; `run.metrics()` needs DuckDB, `query(...).arrow()` pyarrow, `.pandas()` both pandas and pyarrow.
"""

from flow_runs import DamagedRun

from . import operators as ops
from .errors import Error, Mistake
from .pipeline import Pipeline, after
from .rows import Rows
from .runs import Run
from .verbs import audit, check, query, replay, resume, run, verify

__all__ = ["DamagedRun", "Error", "Mistake", "Pipeline", "Rows", "Run", "after", "audit", "check", "ops", "query", "replay", "resume", "run", "verify"]
