"""Ideas of your own in a flow pipeline: a function from rows to columns, from rows to rows, or from tokens to losses.

    import flow_op, pyarrow as pa, pyarrow.compute as pc

    @flow_op.columns(needs=["reward"], adds={"derived_centred": pa.float32()})
    def centred(rows: pa.Table, *, share: float = 1.0) -> pa.Table:
        "The reward less `share` of its mean over the group."
        reward = rows["reward"]
        return pa.table({"derived_centred": pc.subtract(reward, share * pc.mean(reward).as_py())})

In the pipeline: `op: python, with: { call: my_credit.py:centred, by: [task], settings: { share: 0.5 } }`.
"""

from __future__ import annotations

from typing import Any

from .chance import rng, seed, seeded
from .errors import Error
from .functions import columns, rows
from .losses import loss

__version__ = "0.2.0"
__all__ = ["Error", "call", "columns", "loss", "rng", "rows", "seed", "seeded"]


def call(function: Any, rows: Any, /, **settings: Any) -> Any:
    """Runs a decorated function on one group of rows with all checks of a run, for unit tests.

    `rows` is a table, a dict of lists or a data frame. Columns that name a row may be missing: `sample` then counts the
    rows. Doubles become float32, as in a run. The result is a table of the names and the added columns; with `state` a
    pair of that table and the next state. Raises `flow_op.Error`, or the function's own exception."""
    from .trial import trial  # pyarrow is imported only when it is needed

    return trial(function, rows, settings)
