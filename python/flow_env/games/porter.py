"""The stem of an English word by Porter's algorithm (Porter 1980, "An algorithm for suffix stripping"), with the two departures that
its author's own program makes and Lucene keeps: `logi` becomes `log`, and `bli` (not `abli`) becomes `ble`."""

from __future__ import annotations

from typing import Mapping

DOUBLE = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al", "entli": "ent",
    "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful",
    "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}
SINGLE = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
LAST = dict.fromkeys("al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split(), "")


def consonant(w: str, i: int) -> bool:
    """`y` is one at the beginning and after a vowel."""
    return w[i] not in "aeiou" and (w[i] != "y" or i == 0 or not consonant(w, i - 1))


def measure(w: str) -> int:
    """How many times a consonant follows a vowel."""
    return sum(consonant(w, i) and not consonant(w, i - 1) for i in range(1, len(w)))


def vowel(w: str) -> bool:
    return any(not consonant(w, i) for i in range(len(w)))


def doubled(w: str) -> bool:
    return len(w) >= 2 and w[-1] == w[-2] and consonant(w, len(w) - 1)


def closed(w: str) -> bool:
    """Consonant, vowel, consonant at the end, the last not w, x or y."""
    n = len(w)
    return n >= 3 and consonant(w, n - 1) and not consonant(w, n - 2) and consonant(w, n - 3) and w[-1] not in "wxy"


def plurals(w: str) -> str:
    """Step 1a."""
    if w.endswith(("sses", "ies")):
        return w[:-2]
    return w[:-1] if w.endswith("s") and not w.endswith("ss") else w


def past(w: str) -> str:
    """Step 1b."""
    if w.endswith("eed"):
        return w[:-1] if measure(w[:-3]) > 0 else w
    suffix = next((suffix for suffix in ("ed", "ing") if w.endswith(suffix) and vowel(w[: -len(suffix)])), None)
    if suffix is None:
        return w
    w = w[: -len(suffix)]
    if w.endswith(("at", "bl", "iz")):
        return w + "e"
    if doubled(w):
        return w if w[-1] in "lsz" else w[:-1]
    return w + "e" if measure(w) == 1 and closed(w) else w


def replaced(w: str, table: Mapping[str, str], least: int) -> str:
    """Steps 2 to 4: the longest suffix of the table that the word ends with, replaced if enough stands before it."""
    suffix = max((suffix for suffix in table if w.endswith(suffix)), key=len, default=None)
    if suffix is None:
        return w
    before = w[: -len(suffix)]
    if measure(before) < least or suffix == "ion" and before[-1:] not in ("s", "t"):
        return w
    return before + table[suffix]


def stem(w: str) -> str:
    """The stem of a word in small letters. Words of two letters and fewer stay as they are."""
    if len(w) <= 2:
        return w
    w = past(plurals(w))
    if w.endswith("y") and vowel(w[:-1]):
        w = w[:-1] + "i"
    w = replaced(replaced(replaced(w, DOUBLE, 1), SINGLE, 1), LAST, 2)
    # Step 5: a last `e`, and one of a double `l`.
    if w.endswith("e"):
        m = measure(w[:-1])
        if m > 1 or m == 1 and not closed(w[:-1]):
            w = w[:-1]
    return w[:-1] if w.endswith("ll") and measure(w) > 1 else w
