"""What the published `SimServer` does with searches and clicks."""

from __future__ import annotations

import re

from .pages import clickable
from .reward import reward
from .visit import Visit

ACTION = re.compile(r"([^\n]+)\[([^\n]+)\]")
"""The published pattern: as much as possible before the last bracket that has something in it."""


def act(visit: Visit, action: str) -> bool:
    """Carries out `search[...]`, from any page, or `click[...]` on a button of the page. Anything else does nothing and is false."""
    found = ACTION.match(action)
    if visit.page == "done" or found is None:
        return False
    name, argument = found[1], found[2].lower()
    if name == "search":
        visit.keywords = argument
        visit.results = visit.shop.search(argument)
        show(visit, 1)
        return True
    offered = name == "click" and argument != "search" and argument in clickable(visit)
    if offered:
        click(visit, argument)
    return offered


def show(visit: Visit, number: int) -> None:
    """A page of results; chosen options of a product are forgotten."""
    visit.page, visit.number, visit.product, visit.options = "results", number, None, {}


def click(visit: Visit, name: str) -> None:
    if name == "buy now":
        buy(visit)
    elif name == "back to search":
        visit.search_page()
    elif name == "next >" and visit.page == "results":
        show(visit, visit.number + 1)
    elif name == "< prev" and visit.page in ("results", "item"):
        show(visit, visit.number - (visit.page == "results"))
    elif name == "< prev":
        visit.page = "item"
    elif name in ("description", "features", "reviews"):
        visit.page = name
    elif visit.page == "results":
        products = visit.shop.products
        visit.product = next(at for at in visit.results if products[at].asin.lower() == name)
        visit.page = "item"
        visit.opened.add(visit.product)
    else:
        choose(visit, name)


def choose(visit: Visit, value: str) -> None:
    """Chooses a value. Where two options have it, the published code takes it for the last one's."""
    assert visit.product is not None
    name = next(name for name, values in reversed(visit.shop.products[visit.product].options) if value in values)
    visit.options[name] = value


def buy(visit: Visit) -> None:
    assert visit.product is not None
    products = visit.shop.products
    visit.earned = reward(products[visit.product], tuple(visit.options.items()), visit.goal, products[visit.goal.product])
    visit.page = "done"
