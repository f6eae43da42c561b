"""WebShop (Yao et al. 2022): an instruction, a search bar, products with options, a purchase. Rules, pages and reward are those of its
released code (github.com/princeton-nlp/WebShop); the products are a catalogue of our own, since the official ones aren't included.

Left out of the published site: reviews (there are none here, nor in its text mode), and the hidden searches `<r>`, `<a>`, `<c>` and
`<q>`, which are words like others. The nouns of titles come from a list of words, not from spaCy's tagger."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .. import seeds
from ..game import Game, Seen
from . import expert, pages
from .clicks import act
from .goal import Goal, sample
from .shop import Shop, shop
from .visit import Visit


def made(settings: Dict[str, Any], seed: int, deal: seeds.Deal) -> "Webshop":
    opened = shop(settings["products"])
    return Webshop(opened, sample(seed, deal, opened.products), settings["pages"] == "rich", settings["pays"] == "win")


class Webshop(Game):
    """A visit to the shop being played."""

    def __init__(self, shop: Shop, goal: Goal, rich: bool, win: bool) -> None:
        self.shop, self.goal, self.rich, self.win = shop, goal, rich, win
        self.instruction = goal.instruction

    def board(self) -> int:
        """Equal goals are played alike."""
        return seeds.mix(seeds.text(self.shop.products[self.goal.product].asin), seeds.text(self.goal.instruction))

    def reset(self) -> Seen:
        self.visit = Visit(self.shop, self.goal)
        return self.see(True)

    def step(self, action: str) -> Seen:
        """`search[words]` from any page, or `click[...]` on a button of the page, in capital or small letters."""
        return self.see(act(self.visit, action))

    def see(self, valid: bool) -> Seen:
        earned = self.visit.earned
        score = earned.total if earned else 0.0
        won = score == 1.0
        reward = 0.0 if not valid else 10.0 * won if self.win else score
        info = {} if earned is None else {
            "r_type": earned.kind, "r_att": earned.attributes, "r_option": earned.options, "r_price": float(earned.price)
        }
        done = self.visit.page == "done"
        return Seen(pages.drawn(self.visit, self.rich), self.visit.state(), reward, done, won, valid, self.actions(), score, info)

    def actions(self) -> List[str]:
        """On the search page the searches of the published choice baseline, though any words can be searched for; else what can be
        clicked."""
        if self.visit.page == "done":
            return []
        if self.visit.page == "search":
            return [f"search[{words}]" for words in expert.searches(self.visit)]
        return [f"click[{name}]" for name in pages.clickable(self.visit)]

    def expert(self) -> Optional[str]:
        return expert.action(self.visit)
