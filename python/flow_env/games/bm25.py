"""Search as Lucene's BM25 ranks it, in Anserini's configuration (k1 0.9, b 0.4) and in its own precision of 32 bits."""

from __future__ import annotations

import math
from array import array
from typing import Dict, Iterable, List, Tuple

from .analyzer import terms


def single(x: float) -> float:
    """The nearest number of 32 bits. Of a sum, product or quotient of two such it is what 32 bits compute."""
    return array("f", (x,))[0]


K1, B = single(0.9), single(0.4)
REST = single(1.0 - B)


class Index:
    """Documents by their terms. The length of a document counts as the byte that Lucene keeps of it, and there is no factor
    k1 + 1."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.postings: Dict[str, Dict[int, int]] = {}
        lengths: List[int] = []
        for document, text in enumerate(texts):
            words = terms(text)
            lengths.append(len(words))
            for word in words:
                found = self.postings.setdefault(word, {})
                found[document] = found.get(document, 0) + 1
        mean = single(sum(lengths) / max(len(lengths), 1))
        known = {length: inverse(length, mean) for length in set(lengths)}
        self.inverse = [known[length] for length in lengths]
        self.gains: Dict[Tuple[str, int], List[Tuple[int, float]]] = {}

    def search(self, query: str, most: int) -> List[int]:
        """The places of the `most` texts that score highest, best first, then in their order. Texts without any of the words are
        left out."""
        times: Dict[str, int] = {}
        for term in terms(query):
            times[term] = times.get(term, 0) + 1
        scores: Dict[int, float] = {}
        for term, count in times.items():
            for document, gain in self.gain(term, count):
                scores[document] = scores.get(document, 0.0) + gain
        rounded = array("f", scores.values())
        ranked = sorted((-score, document) for score, document in zip(rounded, scores) if scores[document] > 0.0)
        return [document for _, document in ranked[:most]]

    def gain(self, term: str, times: int) -> List[Tuple[int, float]]:
        """What a term that is asked for so many times adds to the scores of documents: weight * count / (count + 1 / inverse), as
        Lucene computes it."""
        known = self.gains.get((term, times))
        if known is None:
            found = self.postings.get(term, {})
            weight = single(times * rarity(len(self.inverse), len(found)))
            known = [(document, gained(weight, count, self.inverse[document])) for document, count in found.items()]
            if found and times <= 2:
                self.gains[term, times] = known
        return known


def gained(weight: float, count: int, inverse: float) -> float:
    return single(weight - single(weight / single(1.0 + single(count * inverse))))


def inverse(length: int, mean: float) -> float:
    """1 / (k1 (1 - b + b length / mean))."""
    return single(1.0 / single(K1 * single(REST + single(single(B * rounded(length)) / mean))))


def rarity(documents: int, having: int) -> float:
    """Lucene's inverse document frequency: ln(1 + (N - n + 1/2) / (n + 1/2))."""
    return single(math.log(1.0 + (documents - having + 0.5) / (having + 0.5)))


def rounded(length: int) -> int:
    """The length that Lucene's byte keeps (`SmallFloat.intToByte4` and back): exact below 40, then four significant bits."""
    if length < 24:
        return length
    rest = length - 24
    shift = max(rest.bit_length() - 4, 0)
    return 24 + (rest >> shift << shift)
