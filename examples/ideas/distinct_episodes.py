"""Of each task's episodes only a few are kept: well scored ones that differ from each other.

Source: maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998). The score may be a judge's number (docs/credit.md).
Next is the episode with the largest share * score / largest |score| - (1 - share) * similarity to the most similar one kept.
Similarity is the Jaccard index of the words of all responses, so responses need words: not moves such as (1, 4). Use `by: [task]`.
`derive` can't do it: it drops no rows, and each choice depends on those before it.
"""

import flow_op
import pyarrow as pa


@flow_op.rows(needs=["reward", "response"])
def distinct_episodes(rows: pa.Table, *, keep: int = 4, share: float = 0.5) -> pa.Table:
    """The rows of the episodes that are kept."""
    scores, words = {}, {}
    for row in rows.sort_by([(name, "ascending") for name in ("task", "sample", "attempt", "turn", "phase")]).to_pylist():
        name = (row["task"], row["sample"], row["attempt"])
        scores[name] = scores.get(name, 0.0) + row["reward"]
        words.setdefault(name, set()).update(row["response"].split())
    largest = max(map(abs, scores.values())) or 1.0
    kept: list = []
    while len(kept) < min(keep, len(scores)):
        left = [name for name in scores if name not in kept]
        kept.append(max(left, key=lambda name: share * scores[name] / largest - (1 - share) * max((jaccard(words[name], words[one]) for one in kept), default=0.0)))
    names = zip(rows["task"].to_pylist(), rows["sample"].to_pylist(), rows["attempt"].to_pylist())
    return rows.filter(pa.array([name in kept for name in names]))


def jaccard(first: set, second: set) -> float:
    return len(first & second) / len(first | second) if first or second else 1.0
