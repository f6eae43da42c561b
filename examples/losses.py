"""Losses of five methods in numpy, as a pipeline names one: `surrogate: { call: ../examples/losses.py:gspo }`.

Each returns the losses and the derivative of `(rows.weight * loss).sum()` by `new`. In torch or jax the derivative is left
out: `@flow_op.loss(by="torch")`. flow has all five built in; tests hold these against them, token by token.
"""

import flow_op
import numpy as np

FARTHEST = 20.0  # how far the logarithm of a ratio may go


def log_ratio(new, old):
    return np.clip(new - old, -FARTHEST, FARTHEST)


@flow_op.loss(by="numpy")
def clip(new, old, acted, advantage, entropy, rows, *, low: float = 0.2, high: float = 0.2):
    """PPO: the larger of -A ratio and -A clip(ratio)."""
    ratio = np.exp(log_ratio(new, old))
    free, bounded = -advantage * ratio, -advantage * np.clip(ratio, 1 - low, 1 + high)
    clipped = bounded > free
    return {"loss": np.maximum(free, bounded), "slope": rows.weight * np.where(clipped, 0, free), "clipped": clipped}


@flow_op.loss(by="numpy", stopped=True)
def cispo(new, old, acted, advantage, entropy, rows, *, low: float = 0.2, high: float = 0.2):
    """CISPO: -clip(ratio) A log pi, where no gradient goes through the ratio."""
    ratio = np.exp(log_ratio(new, old))
    bounded = np.clip(ratio, 1 - low, 1 + high)
    return {"loss": -bounded * advantage * new, "slope": rows.weight * (-bounded * advantage), "clipped": bounded != ratio}


@flow_op.loss(by="numpy")
def gspo(new, old, acted, advantage, entropy, rows, *, low: float = 0.2, high: float = 0.2):
    """GSPO: PPO's clip of the geometric mean of a row's ratios. Its derivative by one token's `new` is a share of the row's."""
    ratio = np.exp(np.clip(rows.mean(new - old), -FARTHEST, FARTHEST))
    free, bounded = -advantage * ratio, -advantage * np.clip(ratio, 1 - low, 1 + high)
    clipped = bounded > free
    slope = rows.mean(rows.weight * np.where(clipped, 0, free)) * rows.part
    return {"loss": np.maximum(free, bounded), "slope": slope, "clipped": clipped}


@flow_op.loss(by="numpy")
def gmpo(new, old, acted, advantage, entropy, rows, *, low: float = 0.4, high: float = 0.4):
    """GMPO: -A times the geometric mean of a row's ratios, each clipped beforehand."""
    sign, apart = np.sign(advantage), log_ratio(new, old)
    free, bounded = sign * apart, sign * np.clip(apart, -low, high)
    mean = np.exp(rows.mean(np.minimum(free, bounded) * sign))
    clipped = bounded < free
    slope = np.where(clipped, 0, rows.mean(rows.weight * -advantage * mean) * rows.part * sign * sign)
    return {"loss": -advantage * mean, "slope": slope, "clipped": clipped}


@flow_op.loss(by="numpy")
def dppo(new, old, acted, advantage, entropy, rows, *, low: float = 0.2, high: float = 0.2):
    """DPPO: -A ratio, and nothing where the token's probability went its advantage's way by more than the bound."""
    ratio, moved = np.exp(log_ratio(new, old)), np.exp(new) - np.exp(old)
    masked = ((advantage > 0) & (moved > high)) | ((advantage < 0) & (-moved > low))
    loss = np.where(masked, 0, -advantage * ratio)
    return {"loss": loss, "slope": rows.weight * loss, "clipped": masked}
