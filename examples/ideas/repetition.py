"""Tokens that repeat an earlier part of the response get a lower advantage than the others.

Source: the n-gram repetition penalty of Yeo et al., Demystifying Long Chain-of-Thought Reasoning (arXiv:2502.03373),
which is put on the tokens that repeat and not on the whole response.
A_t = advantage - penalty for each token t of an n-gram that the response already had, else the row's advantage.
`derive` can't do it: its list expressions see one token, and not the n-grams before it.
"""

import flow_op
import pyarrow as pa


@flow_op.columns(needs=["response_tokens", "advantage"], adds={"token_advantages": pa.list_(pa.float32())})
def repetition(rows: pa.Table, *, n: int = 4, penalty: float = 0.1) -> dict:
    """The advantage of each response token, less the penalty where it repeats."""
    lists = []
    for tokens, advantage in zip(rows["response_tokens"].to_pylist(), rows["advantage"].to_pylist()):
        seen, repeated = set(), set()
        for at in range(len(tokens) - n + 1):
            gram = tuple(tokens[at : at + n])
            if gram in seen:
                repeated.update(range(at, at + n))
            seen.add(gram)
        lists.append([advantage - penalty * (at in repeated) for at in range(len(tokens))])
    return {"token_advantages": pa.array(lists, pa.list_(pa.float64()))}
