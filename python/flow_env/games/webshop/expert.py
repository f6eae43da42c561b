"""An expert who knows the goal: searches, opens the first product that meets all of it, chooses the options and buys."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from .reward import color, met, reward
from .shop import PAGE
from .visit import Visit


def searches(visit: Visit) -> List[str]:
    """What one could search for, as the published choice baseline lists it (`get_search_texts`): what the product is called, that with each
    wanted attribute, and the whole instruction."""
    product = visit.shop.products[visit.goal.product]
    attributes = (f"{attribute} {product.query}" for attribute in product.instruction_attributes)
    return [product.query, *attributes, visit.goal.instruction.lower()]


def action(visit: Visit) -> Optional[str]:
    """The expert's next action."""
    if visit.page == "done":
        return None
    if visit.page == "search":
        return f"search[{query(visit)}]"
    if visit.page == "results":
        return results(visit)
    return item(visit) if visit.page == "item" else "click[< prev]"


def query(visit: Visit) -> str:
    """The whole instruction where it finds what is wanted; else the first search that does."""
    every = searches(visit)[::-1]
    for words in every:
        found = best(visit, visit.shop.search(words))
        if found is not None and found[1] == 1.0:
            return words
    return every[0]


def results(visit: Visit) -> str:
    found = best(visit, visit.results)
    if found is None or found[1] < 1.0 and visit.keywords != query(visit):
        return "click[back to search]"
    page = found[0] // PAGE + 1
    if page != visit.number:
        return "click[< prev]" if page < visit.number else "click[next >]"
    return f"click[{visit.shop.products[visit.results[found[0]]].asin.lower()}]"


def item(visit: Visit) -> str:
    found = best(visit, visit.results)
    if found is None or visit.product != visit.results[found[0]]:
        return "click[< prev]"
    missing = (value for name, value in choices(visit, visit.product) if visit.options.get(name) != value)
    return f"click[{next(missing, 'buy now')}]"


def best(visit: Visit, results: Sequence[int]) -> Optional[Tuple[int, float]]:
    """The first of these products that earns the most with the best choices, by its place among them, and what it earns."""
    key = tuple(results)
    if key not in visit.best:
        visit.best[key] = searched(visit, key)
    return visit.best[key]


def searched(visit: Visit, results: Sequence[int]) -> Optional[Tuple[int, float]]:
    best: Optional[Tuple[int, float]] = None
    products = visit.shop.products
    for at, product in enumerate(results):
        earns = reward(products[product], choices(visit, product), visit.goal, products[visit.goal.product]).total
        if best is None or earns > best[1]:
            best = (at, earns)
        if earns == 1.0:
            break
    return best


def choices(visit: Visit, product: int) -> List[Tuple[str, str]]:
    """For each wanted option the value of the product that is just it, or the first that is taken for it; in the order of the page."""
    wanted, chosen = dict(visit.goal.options), []
    for name, values in visit.shop.products[product].options:
        if name in wanted:
            near = (value for value in values if met((name, wanted[name]), (color(value) or value,)))
            value = wanted[name] if wanted[name] in values else next(near, None)
            chosen += [(name, value)] if value is not None else []
    return chosen
