"""Random numbers and hashes as flow has them: the same seed makes the same task, whichever language asks."""

from __future__ import annotations

from typing import Any, List, Optional

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
SPLITS = ("test", "dev", "warmstart", "train")


def finish(x: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def mix(a: int, b: int) -> int:
    """Joins two numbers into one; the order matters."""
    return finish((finish(a) + b + STEP) & MASK)


def text(s: str) -> int:
    """A fixed hash of a text."""
    data = s.encode()
    value = len(data)
    for at in range(0, len(data), 8):
        value = mix(value, int.from_bytes(data[at : at + 8], "little"))
    return value


class Random:
    """SplitMix64."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def next(self) -> int:
        self.state = (self.state + STEP) & MASK
        return finish(self.state)

    def below(self, n: int) -> int:
        """A number in `0..n` by multiplication (Lemire 2019)."""
        return (self.next() * n) >> 64

    def unit(self) -> float:
        """A number in [0, 1) with 53 random bits."""
        return (self.next() >> 11) / (1 << 53)

    def shuffle(self, items: List[Any]) -> None:
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


class Deal:
    """The boards that a task may have: those of a split, or all but the test split's. Boards are dealt by their content."""

    def __init__(self, split: Optional[str]) -> None:
        self.split = split

    def owns(self, board: int) -> bool:
        split = SPLITS[mix(board, text("split")) & 3]
        return split != "test" if self.split is None else split == self.split
