"""Documents about people, towns, companies and films that refer to one another, made from a seed, the same on every machine."""

from __future__ import annotations

import functools
from typing import List, NamedTuple, Set, Tuple

from . import seeds
from .bm25 import Index

SEED = 1
SYLLABLES = "ba|bel|dor|fa|gri|hol|ja|ka|lem|mar|ni|or|pel|qua|ros|sa|tir|ul|ven|wi|xa|yor|zel|mo|tha|cre|du|fin|gos|ilt".split("|")
JOBS = "painter|botanist|violinist|architect|chemist|poet|sailor|surgeon|historian|carpenter".split("|")
GOODS = "clocks|bicycles|lamps|paper|glass|engines|carpets|cameras|boats|pianos".split("|")
REGIONS = "north coast|south coast|high plain|lake district|eastern hills|western valley|old forest|salt marsh".split("|")


class Document(NamedTuple):
    title: str
    text: str
    names: Tuple[str, ...]
    """The names and values that it tells, its title among them."""


class Person(NamedTuple):
    document: int
    town: int
    year: int


class Town(NamedTuple):
    document: int
    region: str
    river: str


class Company(NamedTuple):
    document: int
    founder: int
    town: int


class Film(NamedTuple):
    document: int
    director: int
    year: int


class Corpus:
    """All documents, what is known of whom, and the search engine: a tenth towns, four tenths people, the rest companies and films."""

    def __init__(self, count: int) -> None:
        self.random = seeds.Random(seeds.mix(SEED, seeds.text("corpus")))
        self.taken: Set[str] = set()
        self.documents: List[Document] = []
        self.towns = [self.town() for _ in range(count // 10)]
        self.people = [self.person() for _ in range(count * 4 // 10)]
        self.companies: List[Company] = []
        self.films: List[Film] = []
        while len(self.documents) < count:
            if len(self.documents) % 2 == 0:
                self.companies.append(self.company())
            else:
                self.films.append(self.film())
        self.index = Index(f"{document.title} {document.text}" for document in self.documents)

    def title(self, document: int) -> str:
        return self.documents[document].title

    def pick(self, all_: List[str]) -> str:
        return all_[self.random.below(len(all_))]

    def name(self, syllables: int) -> str:
        name = "".join(self.pick(SYLLABLES) for _ in range(syllables))
        return name[0].upper() + name[1:]

    def fresh(self, syllables: int, end: str = "") -> str:
        """A name that nobody has. A corpus may have more towns than there are short names."""
        tried = 0
        while True:
            name = self.name(syllables + tried // 20) + end
            if name not in self.taken:
                self.taken.add(name)
                return name
            tried += 1

    def add(self, title: str, text: str, *names: str) -> int:
        self.documents.append(Document(title, text, (title, *names)))
        return len(self.documents) - 1

    def town(self) -> Town:
        name, river, region = self.fresh(2), self.fresh(2), self.pick(REGIONS)
        return Town(self.add(name, f"{name} is a town of the {region} on the river {river}.", region, river), region, river)

    def person(self) -> Person:
        name = f"{self.name(2)} {self.fresh(2)}"
        town, job, year = self.random.below(len(self.towns)), self.pick(JOBS), 1850 + self.random.below(120)
        home = self.title(self.towns[town].document)
        return Person(self.add(name, f"{name} is a {job} who was born in {home} in {year}.", job, home, str(year)), town, year)

    def company(self) -> Company:
        name = self.fresh(2, " Works")
        founder, town, goods = self.random.below(len(self.people)), self.random.below(len(self.towns)), self.pick(GOODS)
        who, place = self.title(self.people[founder].document), self.title(self.towns[town].document)
        text = f"{name} makes {goods}. It was founded by {who} and is based in {place}."
        return Company(self.add(name, text, goods, who, place), founder, town)

    def film(self) -> Film:
        name = f"The {self.fresh(3)}"
        director, year = self.random.below(len(self.people)), 1920 + self.random.below(100)
        who = self.title(self.people[director].document)
        return Film(self.add(name, f"{name} is a film of {year}. It was directed by {who}.", str(year), who), director, year)


@functools.lru_cache(4)
def corpus(count: int) -> Corpus:
    return Corpus(count)
