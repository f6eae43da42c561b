"""Seeded chance: the same run, node, iteration and group give the same numbers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, List


class Chance:
    """A seed and the generator made from it at first use: two calls of `rng()` draw on from one generator."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.generator: Any = None


current: List[Chance] = []
"""The innermost is the last."""


def seed() -> int:
    """The seed of this run, node, iteration and group: an integer from 0 to 2**64 - 1. Outside a run it is 0."""
    return current[-1].seed if current else 0


def rng() -> Any:
    """The numpy generator of this group, seeded by `seed()`. All calls within a function draw on from the same one."""
    chance = current[-1] if current else Chance(0)
    if chance.generator is None:
        try:
            import numpy
        except ImportError:
            raise ImportError("flow_op.rng() is a generator of numpy, which isn't installed: install it (python3 -m pip install numpy), or seed "
                              "another generator with flow_op.seed(), for example random.Random(flow_op.seed())") from None
        chance.generator = numpy.random.default_rng(chance.seed)
    return chance.generator


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """For tests: inside, `seed()` is `number`, and `rng()` begins anew."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 64:
        raise ValueError(f"a seed is an integer from 0 to 2**64 - 1, not {number!r}")
    current.append(Chance(number))
    try:
        yield
    finally:
        current.pop()


@contextmanager
def inherited() -> Iterator[None]:
    """One generator for a call as a plain function: that of the run or of `seeded`, else one of seed 0."""
    if current:
        yield
    else:
        with seeded(0):
            yield
