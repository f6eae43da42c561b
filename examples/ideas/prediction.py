"""A reward for predicting what the environment shows next, with a shuffled placebo as its control.

Source: Dark Room (arXiv:2607.21273): a dense prediction reward, compared with the same reward on shuffled targets.
reward' = reward + weight * F1(words of <predict>...</predict>, words of the next observation).
The placebo takes another row's next observation: it pays for any text of that kind, and not for foresight.
`derive` can't do it: SQL here neither draws nor compares bags of words.
"""

import re
from collections import Counter

import flow_op
import pyarrow as pa


@flow_op.columns(needs=["reward", "response", "observation", "outcome"], adds={"reward": pa.float32(), "derived_prediction": pa.float32()})
def prediction(rows: pa.Table, *, weight: float = 0.1, placebo: bool = False) -> pa.Table:
    """The reward with the weighted F1 of the prediction, and that F1; 0 without a prediction or a next observation."""
    rows = rows.sort_by([(name, "ascending") for name in ("task", "sample", "attempt", "phase", "turn")])  # chance goes by position
    turns = rows.to_pylist()
    follows = [a["turn"] + 1 == b["turn"] and all(a[name] == b[name] for name in ("task", "sample", "attempt", "phase")) for a, b in zip(turns, turns[1:])] + [False]
    targets = [turn["outcome"] or (turns[at + 1]["observation"] if follows[at] else "") for at, turn in enumerate(turns)]
    if placebo:
        targets = [targets[at] for at in flow_op.rng().permutation(len(targets))]
    scores = [f1(" ".join(re.findall(r"<predict>(.*?)</predict>", turn["response"], re.S)), target) for turn, target in zip(turns, targets)]
    rewards = [turn["reward"] + weight * score for turn, score in zip(turns, scores)]
    return pa.table({**{name: rows[name] for name in rows.column_names if name != "reward"}, "reward": rewards, "derived_prediction": scores})


def f1(said: str, shown: str) -> float:
    """The harmonic mean of precision and recall over words."""
    first, second = Counter(said.split()), Counter(shown.split())
    both = sum((first & second).values())
    return 2 * both / (sum(first.values()) + sum(second.values())) if both else 0.0
