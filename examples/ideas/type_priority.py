"""A curriculum over kinds of tasks: kinds with larger advantages weigh more, by rank among all kinds so far.

Source: rank prioritisation of Prioritized Level Replay (arXiv:2010.03934), as a weight in place of a chance of replay.
S_i = mean |advantage| of kind i in the last iteration that had it. With rank 1 for the largest of N kinds,
weight_i = N (1 / rank_i) ** (1 / beta) / sum_j (1 / rank_j) ** (1 / beta). Multiply the advantage by it (`derive`).
`derive` can't do it: `last_NAME` finds the value of a row's own kind; the ranks are over all, also those that are absent.
"""

import flow_op
import pyarrow as pa
import pyarrow.compute as pc


@flow_op.columns(needs=["type", "advantage"], adds={"derived_weight": pa.float32()}, state={})
def type_priority(rows: pa.Table, *, beta: float = 1.0, state: dict) -> tuple:
    """The weight of the row's kind of task; its mean over all kinds is 1. The state is the score of each kind."""
    kinds = rows.append_column("size", pc.abs(rows["advantage"])).group_by("type", use_threads=False)  # threads guarantee no order
    means = kinds.aggregate([("size", "mean")]).to_pylist()
    scores = {**state, **{one["type"]: one["size_mean"] for one in means}}
    ranked = sorted(scores, key=lambda kind: (-scores[kind], kind))
    shares = {kind: (1 / rank) ** (1 / beta) for rank, kind in enumerate(ranked, 1)}
    weight = {kind: len(shares) * share / sum(shares.values()) for kind, share in shares.items()}
    return {"derived_weight": [weight[kind] for kind in rows["type"].to_pylist()]}, scores
