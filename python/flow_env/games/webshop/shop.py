"""The shop that all episodes share: the catalogue and its search engine."""

from __future__ import annotations

import functools
from typing import Tuple

from .. import seeds
from ..bm25 import Index
from .catalogue import catalogue

FOUND, PAGE = 50, 10
"""Products that a search finds, and how many a page shows."""


class Shop:
    def __init__(self, count: int) -> None:
        self.products = catalogue(count)
        self.index = Index(product.searchable() for product in self.products)
        self.found = functools.lru_cache(1 << 12)(lambda keywords: tuple(self.index.search(keywords, FOUND)))

    def search(self, keywords: str) -> Tuple[int, ...]:
        """The places of the products that a search finds, best first."""
        return self.found(keywords)


@functools.lru_cache(2)
def shop(count: int) -> Shop:
    """The shop with so many products."""
    return Shop(count)


@functools.lru_cache(1 << 17)
def dealt(instruction: str) -> int:
    """By what products are dealt to splits: of two that are asked for in the same words a player can't tell which is meant."""
    return seeds.text(instruction)
