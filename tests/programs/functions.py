"""Functions of `op: python` for the tests: good ones, and one for each way to go wrong."""

import os
import sys
import time

import flow_op
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@flow_op.columns(needs=["reward"], adds={"advantage": pa.float32(), "derived_rank": pa.float32(), "noted_why": pa.string(), "token_derived_x": pa.list_(pa.float32())})
def gap(rows, *, alpha: float = 1.0):
    """A turn's reward less the mean of its group."""
    reward = rows["reward"].to_numpy()
    chance = flow_op.rng().uniform(size=1)[0]
    return {
        "advantage": ((reward - reward.astype("float64").mean()) * alpha).astype("float32"),
        "derived_rank": np.full(len(reward), chance),
        "noted_why": [f"turn {turn}" for turn in rows["turn"].to_pylist()],
        "token_derived_x": [[0.5] * int(turn) for turn in rows["turn"].to_pylist()],
    }


@flow_op.columns(needs=["reward"], adds={"advantage": pa.float32()}, state={"mean": 0.0, "rows": 0})
def baseline(rows, *, state):
    """The mean of all earlier rewards as a baseline."""
    reward = rows["reward"].to_numpy().astype("float64")
    count = state["rows"] + len(reward)
    mean = (state["mean"] * state["rows"] + reward.sum()) / count
    return {"advantage": (reward - state["mean"]).astype("float32")}, {"mean": round(mean, 9), "rows": count}


@flow_op.rows(needs=["reward", "response"], adds={"reward": pa.float32()})
def edited(rows):
    """Drops turns from the third on, and halves the rewards of the others."""
    kept = rows.filter(pc.less(rows["turn"], 2))
    return kept.set_column(kept.schema.get_field_index("reward"), "reward", pc.multiply(kept["reward"], pa.scalar(0.5, pa.float32())))


@flow_op.columns(needs=["reward"], adds={"reward": pa.float32(), "derived_luck": pa.float32()})
def paid(rows):
    """A little chance of its own in each reward."""
    luck = flow_op.rng().normal() * 0.01 + np.sin(rows["turn"].to_numpy().astype("float64"))
    return {"reward": rows["reward"].to_numpy() + luck.astype("float32"), "derived_luck": luck}


@flow_op.columns(needs=["kept"], adds={"kept": pa.string()})
def shout(rows):
    """Notes in capital letters."""
    return {"kept": pc.utf8_upper(rows["kept"])}


@flow_op.rows(needs="all")
def doubled(rows):
    """Each row once more, as another sample."""
    more = rows.set_column(rows.schema.get_field_index("sample"), "sample", pc.cast(pc.add(rows["sample"], 100), pa.uint32()))
    return pa.concat_tables([rows, more])


@flow_op.rows(needs=["reward"])
def half(rows):
    """Makes rows, and doesn't give all their columns."""
    return doubled(rows)


def wrong(text):
    """Declares a function of this body: the ways to go wrong."""
    def made(rows, *, seconds: float = 0.0):
        return eval(text, globals(), {"rows": rows, "n": rows.num_rows, "advantage": lambda values: {"advantage": values}})

    made.__name__ = text
    return flow_op.columns(needs=["reward"], adds={"advantage": pa.float32()})(made)


endless = wrong("time.sleep(600)")
huge = wrong("advantage(np.ones(1 << 32)[:n])")
short = wrong("advantage(np.zeros(n - 1))")
nan = wrong("advantage(np.full(n, np.nan))")
text = wrong("advantage(['a'] * n)")
exits = wrong("sys.exit(3)")
dies = wrong("os._exit(7)")
killed = wrong("os.kill(os.getpid(), 9)")
raises = wrong("{}['nothing']")
clock = wrong("advantage(np.full(n, time.time() % 1000))")
unsorted = wrong("advantage(rows.sort_by('reward')['reward'])")
# These are odd, and right.
prints = wrong("(print('x' * 10_000_000), os.write(1, b'y' * 100_000), advantage(np.zeros(n)))[-1]")
forks = wrong("(os.fork(), advantage(np.zeros(n)))[-1]")
dictionary = wrong("advantage(pa.chunked_array([pa.array([0.0] * n, pa.float64()).dictionary_encode()]))")


@flow_op.columns(needs=["reward"], adds={"grade": pa.float32()})
def unknown_column(rows):
    return {"grade": rows["reward"]}


@flow_op.rows(needs=["reward"])
def unsaid(rows):
    """Changes a column, and doesn't say so."""
    return rows.set_column(rows.schema.get_field_index("reward"), "reward", pc.add(rows["reward"], pa.scalar(1.0, pa.float32())))


@flow_op.columns(needs=["reward"], adds={"advantage": pa.string()})
def other_type(rows):
    return {"advantage": ["a"] * rows.num_rows}


@flow_op.columns(needs=["token_values"], adds={"advantage": pa.float32()})
def lacks(rows):
    return {"advantage": [0.0] * rows.num_rows}


@flow_op.loss(by="numpy")
def wrong_sign(new, old, acted, advantage, entropy, rows):
    return {"loss": -advantage * new, "slope": rows.weight * advantage}


@flow_op.loss(by="numpy")
def without_weight(new, old, acted, advantage, entropy, rows):
    return {"loss": -advantage * new, "slope": -advantage}


@flow_op.columns(needs=["won"], adds={"advantage": pa.float32()})
def late(rows):
    """Sorted without the names of rows; nothing shows it until an episode is won."""
    return {"advantage": rows.sort_by("won")["won"].cast(pa.float32())}


@flow_op.loss(by="numpy")
def mean_of_all(new, old, acted, advantage, entropy, rows):
    return {"loss": new - new.mean(), "slope": rows.weight}


CALLS = []


@flow_op.loss(by="numpy", stopped=True)
def later_mean(new, old, acted, advantage, entropy, rows):
    """REINFORCE at first; after it was held against itself, divided by the tokens of the pass."""
    CALLS.append(len(new))
    share = 1.0 if len(CALLS) < 12 else 1.0 / len(new)
    return {"loss": -advantage * new * share, "slope": rows.weight * -advantage * share}
