"""What is to be bought."""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Tuple

from .. import seeds
from ..game import Unmade
from .catalogue import Product
from .shop import dealt

NO_BOUND = 1_000_000.0
"""The price where no bound is said."""


class Goal(NamedTuple):
    """A product with a choice of each of its options, for less than a price."""

    product: int
    """The product's place in the catalogue."""
    options: Tuple[Tuple[str, str], ...]
    """The wanted options, by name."""
    price_upper: float
    instruction: str
    """The task in words."""


def sample(seed: int, deal: seeds.Deal, products: List[Product]) -> Goal:
    """The goal of a seed, made as the published code makes its synthetic goals: any combination of a product's options, and a price that
    is one of the next tens above the product's."""
    return sample_where(seed, lambda product: deal.owns(dealt(product.instruction)), products)


def sample_where(seed: int, fits: Callable[[Product], bool], products: List[Product]) -> Goal:
    for tried in range(1000):
        random = seeds.Random(seeds.mix(seed, tried))
        at = random.below(len(products))
        if fits(products[at]):
            return drawn(at, products[at], random)
    raise Unmade("goal")


def drawn(at: int, product: Product, random: seeds.Random) -> Goal:
    options = sorted([(name, values[random.below(len(values))]) for name, values in product.options])
    bounds = [10.0 * tens for tens in range(1, 100) if 10.0 * tens > product.price][:4]
    random.shuffle(bounds)
    upper = max(bounds[:2]) if len(bounds) >= 2 else NO_BOUND
    chosen = ", and ".join(f"{name}: {value}" for name, value in options)
    price = f", and price lower than {upper:.2f} dollars" if upper < NO_BOUND else ""
    return Goal(at, tuple(options), upper, product.instruction + (f" with {chosen}" if chosen else "") + price)
