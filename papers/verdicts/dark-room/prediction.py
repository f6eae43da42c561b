"""A reward a turn for predicting what the environment shows next, and a placebo that pays the same amounts to other turns.

Source: Dark Room (arXiv:2607.21273), as a list of papers describes it.
reward' = reward + weight * F1(words of <predict>...</predict>, words of the next observation).
The placebo pays each turn the F1 of another turn, drawn without replacement from the whole iteration: the same amounts, shuffled.
"""

import re
from collections import Counter

import flow_op
import pyarrow as pa


@flow_op.columns(needs=["reward", "response", "observation", "outcome"], adds={"reward": pa.float32(), "derived_prediction": pa.float32()})
def prediction(rows: pa.Table, *, weight: float = 0.1, placebo: bool = False) -> pa.Table:
    """The reward with the weighted pay, and the F1 of the turn's own prediction; 0 without a prediction or a next observation."""
    rows = rows.sort_by([(name, "ascending") for name in ("task", "sample", "attempt", "phase", "turn")])  # chance goes by position
    turns = rows.to_pylist()
    follows = [a["turn"] + 1 == b["turn"] and all(a[name] == b[name] for name in ("task", "sample", "attempt", "phase")) for a, b in zip(turns, turns[1:])] + [False]
    targets = [turn["outcome"] or (turns[at + 1]["observation"] if follows[at] else "") for at, turn in enumerate(turns)]
    scores = [f1(" ".join(re.findall(r"<predict>(.*?)</predict>", turn["response"], re.S)), target) for turn, target in zip(turns, targets)]
    paid = [scores[at] for at in flow_op.rng().permutation(len(scores))] if placebo else scores
    rewards = [turn["reward"] + weight * pay for turn, pay in zip(turns, paid)]
    return pa.table({**{name: rows[name] for name in rows.column_names if name != "reward"}, "reward": rewards, "derived_prediction": scores})


def f1(said: str, shown: str) -> float:
    """The harmonic mean of precision and recall over words."""
    first, second = Counter(said.split()), Counter(shown.split())
    both = sum((first & second).values())
    return 2 * both / (sum(first.values()) + sum(second.values())) if both else 0.0
