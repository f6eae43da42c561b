"""A curriculum by success: kinds of tasks whose success moves weigh more than kinds that are solved, or that stay unsolved.

Source: learning progress, as in Teacher-Student Curriculum Learning (arXiv:1707.00183), as a weight in place of a chance of being drawn.
Each kind has a fast and a slow running mean of its success, which begin alike. With p_i = |fast_i - slow_i| + floor,
weight_i = p_i / mean over all kinds of p. Multiply the advantage by it (`derive`). A large `floor` is the control: each kind weighs 1.
"""

import flow_op
import pyarrow as pa


@flow_op.columns(needs=["type", "won"], adds={"derived_weight": pa.float32()}, state={})
def success_progress(rows: pa.Table, *, fast: float = 0.1, slow: float = 0.02, floor: float = 0.02, state: dict) -> tuple:
    """The weight of the row's kind of task; its mean over all kinds is 1. The state is the two means of each kind."""
    won = rows.set_column(rows.column_names.index("won"), "won", rows["won"].cast(pa.int8()))
    episodes = won.group_by(["type", "task", "sample"], use_threads=False).aggregate([("won", "max")])  # threads guarantee no order
    means = dict(state)
    for one in episodes.group_by("type", use_threads=False).aggregate([("won_max", "mean")]).to_pylist():
        kind, success = one["type"], one["won_max_mean"]
        before = means.get(kind, [success, success])
        means[kind] = [mean + rate * (success - mean) for mean, rate in zip(before, (fast, slow))]
    progress = {kind: abs(one - other) + floor for kind, (one, other) in means.items()}
    weight = {kind: len(progress) * of / sum(progress.values()) for kind, of in sorted(progress.items())}
    return {"derived_weight": [weight[kind] for kind in rows["type"].to_pylist()]}, means
