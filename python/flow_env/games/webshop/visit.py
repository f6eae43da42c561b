"""A visit to the shop: where it stands."""

from __future__ import annotations

from typing import Dict, Optional, Sequence, Set, Tuple

from .. import seeds
from .goal import Goal
from .reward import Reward
from .shop import Shop

PAGES = ("search", "results", "item", "description", "features", "reviews", "done")
"""The pages of the site."""


class Visit:
    """A visit, which begins on the search page."""

    def __init__(self, shop: Shop, goal: Goal) -> None:
        self.shop, self.goal = shop, goal
        self.number = 1
        """The page of results shown last, from 1."""
        self.earned: Optional[Reward] = None
        """What the purchase earned."""
        self.best: Dict[Tuple[int, ...], Optional[Tuple[int, float]]] = {}
        """What an expert knows of results."""
        self.search_page()

    def search_page(self) -> None:
        self.page = "search"
        self.keywords = ""
        self.results: Sequence[int] = ()
        self.product: Optional[int] = None
        """The product that is looked at."""
        self.opened: Set[int] = set()
        """The products that were looked at since the last visit to the search page."""
        self.options: Dict[str, str] = {}
        """The chosen options, by name, in the order of their first choice."""

    def state(self) -> int:
        """Hash of where the visit stands: what the address of the published page says."""
        mix, text = seeds.mix, seeds.text
        product = 0 if self.product is None else self.product + 1
        place = mix(mix(PAGES.index(self.page), text(self.keywords)), mix(self.number, product))
        options = 0
        for name, value in self.options.items():
            options = mix(options, mix(text(name), text(value)))
        return mix(mix(place, options), text(self.goal.instruction))
