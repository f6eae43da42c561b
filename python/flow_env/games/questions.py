"""Questions that need two documents."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from . import seeds
from .corpus import Corpus
from .game import Unmade


class Question(NamedTuple):
    kind: str
    text: str
    answer: str
    needs: Tuple[int, int]
    """The documents with the answer, in the order of their search."""
    names: Tuple[str, ...]
    """The names that the question says."""

    def content(self) -> int:
        """Hash of the question: for two names the same in either order."""
        if len(self.names) == 2:
            first, second = sorted(self.names)
            return seeds.text(f"{self.kind}, {first} or {second}")
        return seeds.text(self.text)


def sample(seed: int, deal: seeds.Deal, corpus: Corpus) -> Question:
    """The question of a seed. Questions, not only seeds, are dealt out to splits."""
    for tried in range(1000):
        question = drawn(corpus, seeds.Random(seeds.mix(seed, tried)))
        if question is not None and deal.owns(question.content()):
            return question
    raise Unmade("question")


def drawn(corpus: Corpus, random: seeds.Random) -> Optional[Question]:
    """None where the two that are compared are equal."""
    kind = random.below(8)
    film, company, person = (all_[random.below(len(all_))] for all_ in (corpus.films, corpus.companies, corpus.people))
    director, founder = corpus.people[film.director], corpus.people[company.founder]

    def asked(kind: str, text: str, of: int, answer: str, then: int) -> Question:
        return Question(kind, text.format(corpus.title(of)), answer, (of, then), (corpus.title(of),))

    if kind < 2:
        what, answer = ("town", corpus.title(corpus.towns[director.town].document)) if kind == 0 else ("year", str(director.year))
        text = f"In which {what} was the director of the film {{}} born?"
        return asked(f"director/{what}", text, film.document, answer, director.document)
    if kind == 2:
        answer = corpus.title(corpus.towns[founder.town].document)
        return asked("founder/town", "In which town was the founder of {} born?", company.document, answer, founder.document)
    if kind < 5:
        place = corpus.towns[company.town]
        what, begin, answer = ("river", "On which river", place.river) if kind == 3 else ("region", "In which region", place.region)
        return asked(f"company/{what}", begin + " lies the town where {} is based?", company.document, answer, place.document)
    if kind == 5:
        place = corpus.towns[person.town]
        return asked("person/river", "On which river lies the town where {} was born?", person.document, place.river, place.document)
    if kind == 6:
        other = corpus.films[random.below(len(corpus.films))]
        return compared("older film", "Which film is older", corpus, (film.document, film.year), (other.document, other.year))
    one = corpus.people[random.below(len(corpus.people))]
    return compared("born earlier", "Who was born earlier", corpus, (person.document, person.year), (one.document, one.year))


def compared(kind: str, text: str, corpus: Corpus, first: Tuple[int, int], second: Tuple[int, int]) -> Optional[Question]:
    """A question whose answer is the one with the lesser year."""
    if first[1] == second[1]:
        return None
    names = (corpus.title(first[0]), corpus.title(second[0]))
    answer = names[0] if first[1] < second[1] else names[1]
    return Question(kind, f"{text}, {names[0]} or {names[1]}?", answer, (first[0], second[0]), names)
