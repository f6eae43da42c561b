"""The value of each state under the transitions that a group of episodes made, without a critic.

Source: certainty equivalence, the answer of batch TD(0): Sutton and Barto, Reinforcement Learning (2018), section 6.3.
V = r + gamma P V, with r(s) the mean reward after s, and P(s, s') the share of visits to s that went on to s'.
advantage = reward + gamma V(s') - V(s). Use `by: [task]`.
`derive` can't do it: a mean return per state is Monte Carlo; this value solves a linear system over all states.
"""

import flow_op
import numpy as np
import pyarrow as pa


@flow_op.columns(needs=["state", "reward"], adds={"value": pa.float32(), "advantage": pa.float32()})
def empirical_value(rows: pa.Table, *, gamma: float = 0.95) -> pa.Table:
    """The value of the state before the turn, and the turn's TD error."""
    rows = rows.sort_by([(name, "ascending") for name in ("task", "sample", "attempt", "phase", "turn")])
    _, state = np.unique(rows["state"].to_numpy(), return_inverse=True)
    reward = rows["reward"].to_numpy().astype("f8")
    episode = [rows[name].to_numpy() for name in ("task", "sample", "attempt", "phase")]
    follows = np.append(np.logical_and.reduce([name[:-1] == name[1:] for name in episode]), False)  # the next row goes on
    count = np.bincount(state)
    share = np.zeros((len(count), len(count)))
    np.add.at(share, (state[follows], np.append(state[1:], 0)[follows]), 1.0)
    value = np.linalg.solve(np.eye(len(count)) - gamma * share / count[:, None], np.bincount(state, reward) / count)[state]
    advantage = reward + gamma * np.where(follows, np.append(value[1:], 0), 0.0) - value
    return rows.append_column("value", pa.array(value)).append_column("advantage", pa.array(advantage))
