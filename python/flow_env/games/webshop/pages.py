"""What is to be seen: the pages of WebShop's site, as its text mode tells them."""

from __future__ import annotations

from typing import Iterator, List, NamedTuple

from .shop import PAGE
from .visit import Visit


class Piece(NamedTuple):
    """A piece of a page: `plain` text, a `button`, a `value` of an option, or a `link` to a product."""

    kind: str
    text: str
    clicked: bool = False
    """Whether the value is chosen, or the product's page was opened."""

    def rich(self) -> str:
        if self.kind == "plain":
            return f"{self.text}\n"
        mark = "clicked button" if self.clicked else "button"
        indent = {"button": "", "value": "  ", "link": "\n"}[self.kind]
        return f"{indent}[{mark}] {self.text} [{mark}_]\n"


def drawn(visit: Visit, rich: bool) -> str:
    """The page that the visit is on, without the instruction, which stands at the head of every published page: its texts alone, or a line
    each with the buttons marked, clicked ones differently."""
    every = pieces(visit)
    if not rich:
        return " [SEP] ".join(piece.text.strip() for piece in every)
    clicked = [f"You have clicked {piece.text}.\n" for piece in reversed(every) if piece.kind == "value" and piece.clicked]
    return "".join(clicked + [piece.rich() for piece in every]).rstrip()


def clickable(visit: Visit) -> List[str]:
    """What can be clicked, in small letters, in the order of the published `get_available_actions`: buttons and products, then values."""
    every = pieces(visit)
    return list(dict.fromkeys(piece.text.lower() for kind in ("button", "link", "value") for piece in every if piece.kind == kind))


def pieces(visit: Visit) -> List[Piece]:
    if visit.page == "search":
        return [Piece("button", "Search")]
    if visit.page == "done":
        score = visit.earned.total if visit.earned else 0.0
        texts = ("Thank you for shopping with us!", "Your score (min 0.0, max 1.0)", repr(score))
        return [Piece("plain", text) for text in texts]
    begin = [Piece("button", "Back to Search")]
    return begin + list(results(visit) if visit.page == "results" else product(visit))


def results(visit: Visit) -> Iterator[Piece]:
    yield Piece("plain", f"Page {visit.number} (Total results: {len(visit.results)})")
    if visit.number > 1:
        yield Piece("button", "< Prev")
    yield Piece("button", "Next >")
    first = (visit.number - 1) * PAGE
    for at in visit.results[first : first + PAGE]:
        found = visit.shop.products[at]
        yield Piece("link", found.asin, at in visit.opened)
        yield Piece("plain", found.title)
        yield Piece("plain", found.tag())


def product(visit: Visit) -> Iterator[Piece]:
    """The page of a product, or one of its further pages; there are no reviews."""
    yield Piece("button", "< Prev")
    assert visit.product is not None
    shown = visit.shop.products[visit.product]
    if visit.page == "description":
        yield Piece("plain", shown.description)
    if visit.page == "features":
        for bullet in shown.bullets:
            yield Piece("plain", f" {bullet}")
    if visit.page != "item":
        return
    for name, values in shown.options:
        yield Piece("plain", name)
        for value in values:
            yield Piece("value", value, value in visit.options.values())
    for text in (shown.title, f"Price: {shown.tag()}", "Rating: N.A."):
        yield Piece("plain", text)
    for text in ("Description", "Features", "Reviews", "Buy Now"):
        yield Piece("button", text)
