"""Whether an answer is right, as question answering is scored: exact match and F1 over words (Rajpurkar et al. 2016, and HotpotQA's
evaluation, Yang et al. 2018; Search-R1 takes the same exact match)."""

from __future__ import annotations

import re
import string
from collections import Counter

from .game import GAP, SPACE

NONE = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def normal(text: str) -> str:
    """An answer as it is compared: small letters, no punctuation of ASCII, no articles, single spaces."""
    return GAP.sub(" ", ARTICLES.sub(" ", text.lower().translate(NONE)).strip(SPACE))


def f1(answer: str, truth: str) -> float:
    """The harmonic mean of precision and recall of the words. A `yes`, `no` or `noanswer` is right or wrong."""
    answer, truth = normal(answer), normal(truth)
    if answer != truth and {answer, truth} & {"yes", "no", "noanswer"}:
        return 0.0
    said = [word for word in answer.split(" ") if word]
    common = sum((Counter(said) & Counter(truth.split(" "))).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(said), common / len(truth.split(" "))
    return 2.0 * precision * recall / (precision + recall)
