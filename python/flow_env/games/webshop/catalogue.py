"""The products: made from a seed, the same on every machine. The official ones aren't included, so a figure measured on these is of
"WebShop rules, own catalogue"."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, NamedTuple, Set, Tuple

from .. import seeds

SEED = 1
LEXICON: Dict[str, Any] = json.loads((Path(__file__).parent / "lexicon.json").read_text(encoding="utf-8"))
"""The words that the catalogue is made of. All texts are in small letters, so that a word is one token wherever it stands. Lists are
separated by `|`."""
OTHERS = frozenset(LEXICON["others"].split("|"))
"""Words of titles that are no nouns. All others that begin with a letter are, the makers' names among them."""
WORD = re.compile(r"[^\W_]+")


class Product(NamedTuple):
    """A product, with the fields that the published code reads."""

    asin: str
    query: str
    """What one searches for to find it."""
    path: str
    """The way through the categories, joined by `›`."""
    title: str
    description: str
    bullets: Tuple[str, ...]
    attributes: Tuple[str, ...]
    options: Tuple[Tuple[str, Tuple[str, ...]], ...]
    """What a buyer chooses: names with their values."""
    pricing: Tuple[float, ...]
    """The price, or the two between which it lies, as the page shows it."""
    price: float
    instruction_attributes: Tuple[str, ...]
    """The attributes that an instruction asks for, and the instruction without options and price."""
    instruction: str

    def searchable(self) -> str:
        """What the search engine reads of it, as the published code joins it."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        return f"{self.title} {self.description} {self.bullets[0]} {options}".lower()

    def tag(self) -> str:
        """The price as the page shows it: `$23.99`, or `$10.0 to $20.0`."""
        return " to ".join(f"${price!r}" for price in self.pricing)


@functools.lru_cache(1 << 14)
def nouns(title: str) -> Tuple[str, ...]:
    """The nouns of a title, in its order. The published code asks spaCy's tagger."""
    return tuple(word for word, noun in tokens(title) if noun)


def tokens(title: str) -> List[Tuple[str, bool]]:
    """The words of a title, each with whether it is a noun."""
    return [(word, word[0].isalpha() and word not in OTHERS) for word in WORD.findall(title)]


@functools.lru_cache(1 << 14)
def categories(path: str) -> FrozenSet[str]:
    return frozenset(part.strip() for part in path.split("›"))


def catalogue(count: int) -> List[Product]:
    """So many products, in the order of their asins."""
    taken: Set[int] = set()
    first = seeds.mix(SEED, seeds.text("catalogue"))
    return sorted(product(seeds.Random(seeds.mix(first, i)), taken) for i in range(count))


def some(of: str, count: int, random: seeds.Random) -> List[str]:
    """So many of a list's members, or all if there are no more, in a random order."""
    every = of.split("|")
    random.shuffle(every)
    return every[:count]


def bare(end: str) -> str:
    """What comes after a name, without its preposition."""
    return end.partition(" ")[2] or end


def product(random: seeds.Random, taken: Set[int]) -> Product:
    kind = LEXICON["kinds"][random.below(len(LEXICON["kinds"]))]
    while (digits := random.next() % 100_000_000) in taken:
        pass
    taken.add(digits)
    parts = LEXICON["syllables"].split("|")
    brand = parts[random.below(len(parts))] + parts[random.below(len(parts))]
    name = some(kind["names"], 1, random)[0]
    few, many = 3 + random.below(3), 1 + random.below(2)
    traits, ends = some(kind["traits"], few, random), some(kind["ends"], many, random)
    title = (
        f"{brand} {traits[0]} {name} {ends[0]}",
        f"{brand} {name} {ends[0]}, {traits[0]}",
        f"{brand} {traits[0]} {traits[1]} {name}",
        f"{brand} {name}, {traits[0]}, {traits[1]}, {ends[0]}",
    )[random.below(4)]
    before = traits[: 1 + random.below(2)]
    after = [ends[random.below(len(ends))]] if random.below(2) == 0 else []
    options = tuple(chosen(kind, random))
    pricing, price = priced(*kind["price"], random)
    return Product(
        asin=f"B0{digits:08}",
        query=kind["query"],
        path=kind["path"],
        title=title,
        description=f"a {traits[-1]} {name} by {brand} {ends[-1]}. one of our {kind['query']}.",
        bullets=(
            f"{traits[0]} and {traits[1]} {name}",
            *(f"{word}, made to be used every day" for word in traits[2:]),
            *(f"{name} {end}" for end in ends),
        ),
        attributes=(*traits, *map(bare, ends)),
        options=options,
        pricing=pricing,
        price=price,
        instruction_attributes=(*before, *map(bare, after)),
        instruction=" ".join([f"Find me {', '.join(before)} {kind['query']}", *after]),
    )


def chosen(kind: Dict[str, Any], random: seeds.Random) -> "List[Tuple[str, Tuple[str, ...]]]":
    """Some values of each option, in the order of the list; now and then a product lacks an option."""
    options = []
    for name, values in kind["options"]:
        values = LEXICON["lists"].get(values, values)
        if random.below(8) > 0:
            taken = some(values, 2 + random.below(4), random)
            options.append((name, tuple(value for value in values.split("|") if value in taken)))
    return options


def priced(least: int, most: int, random: seeds.Random) -> Tuple[Tuple[float, ...], float]:
    """The price as it is shown, one in five as a range, and what the product costs."""
    cents = (99, 95, 49, 0)[random.below(4)]
    dollars = least + random.below(most - least)
    price = (dollars * 100 + cents) / 100.0
    if random.below(5) > 0:
        return (price,), price
    upper = ((dollars + 1 + dollars // 4) * 100 + cents) / 100.0
    return (price, upper), price + (upper - price) * random.unit()
