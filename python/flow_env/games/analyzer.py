"""A text as search terms, by the steps of Lucene's English analysis: words in small letters, without a possessive 's and without
stop words, each cut to its stem by Porter's algorithm."""

from __future__ import annotations

import functools
import unicodedata
from typing import List, Optional

from .porter import stem

STOP = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will with".split()
)
LONGEST = 255
"""Letters of a word, at most: Lucene's limit, after which a new word begins."""


def terms(text: str) -> List[str]:
    """The terms of a text, in its order."""
    return [term for term in map(of_word, words(text)) if term is not None]


@functools.lru_cache(1 << 16)
def of_word(word: str) -> Optional[str]:
    word = word.lower()
    word = word[:-2] if word.endswith("'s") else word
    return stem(word) if word and word not in STOP else None


def joins(text: str, i: int) -> bool:
    """Whether a character is part of a word: letters and digits; a `.` or `'` between two letters or two digits, a `,` between two
    digits (Unicode's rule for word boundaries, as far as texts of Latin letters need it)."""
    c = text[i]
    if c not in ".',":
        return c.isalnum() or c == "_"
    if i == 0 or i + 1 == len(text):
        return False
    before, after = text[i - 1], text[i + 1]
    return numeric(before) and numeric(after) or c != "," and before.isalpha() and after.isalpha()


def numeric(c: str) -> bool:
    return unicodedata.category(c)[0] == "N"


def words(text: str) -> List[str]:
    found, begin = [], 0
    for i in range(len(text) + 1):
        inside = i < len(text) and joins(text, i)
        if i > begin and (not inside or i - begin == LONGEST):
            found.append(text[begin:i])
            begin = i
        if not inside:
            begin = i + 1
    return found
