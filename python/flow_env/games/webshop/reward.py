"""WebShop's reward (Yao et al. 2022, section 3.1, and `web_agent_site/engine/goal.py` of its code, which decides where they differ):

`r_type * (attributes met + options met + [price met]) / (attributes requested + options requested + 1)`."""

from __future__ import annotations

import functools
import re
from difflib import SequenceMatcher
from typing import FrozenSet, List, NamedTuple, Sequence, Tuple

from .catalogue import Product, categories, nouns
from .goal import Goal

COLORS = (
    "alabaster|apricot|aqua|ash|asphalt|azure|banana|beige|black|blue|blush|bordeaux|bronze|brown|burgundy|camel|camo|caramel|champagne|"
    "charcoal|cheetah|chestnut|chocolate|christmas|coffee|cognac|copper|coral|cranberry|cream|crystal|dark|denim|eggplant|elephant|espresso|"
    "fuchsia|gold|granite|grape|graphite|grass|gray|green|grey|heather|indigo|ivory|ivy|khaki|lavender|lemon|leopard|light|lilac|lime|magenta|"
    "maroon|mauve|merlot|midnight|mint|mocha|multicolor|mushroom|mustard|natural|navy|nude|olive|orange|peach|pewter|pink|plum|purple|rainbow|"
    "red|rose|royal|rust|sand|sapphire|seashell|silver|skull|slate|steel|stone|stonewash|sunflower|tan|taupe|teal|tiger|turquoise|violet|"
    "walnut|wheat|white|wine|yellow"
).split("|")
"""`COLOR_SET` of `web_agent_site/engine/normalize.py`, in its order."""


class Reward(NamedTuple):
    """What a purchase earns, from 0 to 1, and its parts."""

    total: float
    kind: float
    """1, or 0.5, 0.1 or 0 where the product is of another type."""
    attributes: float
    """The share of the wanted attributes that the product has."""
    options: float
    """The share of the wanted options that were chosen; 1 where none was wanted."""
    price: bool
    """Whether it costs no more than it may."""


def reward(bought: Product, options: Sequence[Tuple[str, str]], goal: Goal, target: Product) -> Reward:
    """What buying `bought` with these options, by name, earns where `target` is the goal's product."""
    kind = of_kind(bought, target)
    price = bought.price <= goal.price_upper
    attributes = sum(has(bought, attribute) for attribute in target.instruction_attributes)
    chosen = tuple(color(value) or value for _, value in options)
    taken = sum(met(option, chosen) for option in goal.options)
    every = len(target.instruction_attributes) + len(goal.options) + 1
    total = (attributes + taken + price) / every * kind
    return Reward(total, kind, share(attributes, len(target.instruction_attributes)), share(taken, len(goal.options)), price)


def share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def of_kind(bought: Product, target: Product) -> float:
    """How far the types agree: by the search words, by two common categories, or by the nouns of the titles."""
    ours = nouns(target.title)
    common = len(set(nouns(bought.title)) & set(ours))
    # Words that stand twice in the wanted title count twice below, not above: so does the published code.
    score = common / len(ours) if ours else 0.2
    if score < 0.1:
        return 0.1 if score else 0.0
    alike_ = bought.query == target.query or len(categories(bought.path) & categories(target.path)) >= 2 or score > 0.2
    return 1.0 if alike_ else 0.5


def has(product: Product, attribute: str) -> bool:
    """Whether a product has an attribute: nearly by its list, or word for word in its texts."""
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(alike(own, attribute) for own in product.attributes) or any(attribute in text.lower() for text in texts)


def met(option: Tuple[str, str], chosen: Sequence[str]) -> bool:
    """Whether one of the chosen values is what is wanted of this option. The published code compares with the pair of name and value as
    Python writes it, which thefuzz reads as the words of both; in a pair, a member that is just a colour stands for the pair."""
    wanted = next((color for color in COLORS if color in option), f"('{option[0]}', '{option[1]}')")
    return any(alike(value, wanted) for value in chosen)


@functools.lru_cache(1 << 12)
def color(value: str) -> "str | None":
    """The first of the published colours that a value contains (`normalize_color`)."""
    return next((color for color in COLORS if color in value), None)


@functools.lru_cache(1 << 17)
def alike(a: str, b: str) -> bool:
    return token_set_ratio(a, b) > 85


def token_set_ratio(a: str, b: str) -> int:
    """`fuzz.token_set_ratio` of thefuzz 0.19.0: 100 where one text has all words of the other, else how many characters match, in
    percent."""
    one, two = words(a), words(b)
    if not one or not two:
        return 0
    both = " ".join(sorted(one & two))
    first = f"{both} {' '.join(sorted(one - two))}".strip()
    second = f"{both} {' '.join(sorted(two - one))}".strip()
    return max(percent(both, first), percent(both, second), percent(first, second))


def words(text: str) -> FrozenSet[str]:
    """The words of a text in small letters, without the characters from 128 to 255."""
    latin = "".join(c for c in text if not 128 <= ord(c) < 256)
    return frozenset(word.lower() for word in re.findall(r"\w+", latin))


def percent(a: str, b: str) -> int:
    """`fuzz.ratio` with `difflib` (the published requirements don't have python-Levenshtein)."""
    if a == b:
        return 100
    return round(100 * SequenceMatcher(None, a, b).ratio()) if a and b else 0
