"""A game of ALFWorld's engine: what stays the same while it is played, and what is true at a moment."""

from __future__ import annotations

import bisect
import functools
import gc
from collections import defaultdict
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Set, Tuple

import fast_downward
from alfworld.agents.utils.misc import Demangler
from fast_downward.translate.pddl.conditions import Atom as Condition
from mementos import core as mementos
from textworld.generator.game import EntityInfo
from textworld.logic import Placeholder, Predicate, Proposition, Signature, Type, TypeHierarchy, Variable

from .alfworld_texts import Assigned

KEPT = 32
"""So many games are kept, because the episodes that are compared with each other play the same one. Each takes three megabytes."""


class Worded(NamedTuple):
    """A fact in words. Facts are in order by their text."""

    text: str
    fact: Proposition
    """With the names that a player reads."""
    phrase: str
    """As the package's expert reads it."""


class Game:
    """A problem, translated for the planner's library, and the words for its facts and commands, each made when first needed."""

    def __init__(self, domain: str, problem: str) -> None:
        # The package remembers every fact ever made, of all games: two megabytes a game. They are equal by what they say, so it may forget.
        mementos._memento_cache.clear()
        collects = gc.isenabled()
        gc.disable()  # it would go through hundreds of thousands of new objects again and again, and none of them is garbage yet
        try:
            task, sas = fast_downward.pddl2sas(domain, problem)
        finally:
            if collects:
                gc.enable()
        self.sas: bytes = sas.encode()
        self.kinds: Dict[str, str] = {thing.name: thing.type_name for thing in task.objects}
        self.parameters = {action.name: [Placeholder(given.name.strip("?"), given.type_name) for given in action.parameters]
                           for action in task.actions}
        self.types = hierarchy(tuple((kind.name, tuple(kind.supertype_names)) for kind in task.types))
        self.start = [Proposition(atom.predicate, [Variable(name, self.kinds[name]) for name in atom.args])
                      for atom in task.init if isinstance(atom, Condition) and atom.predicate != "="]
        self.entities: Dict[str, Any] = {}
        self.commands: Dict[str, str] = {}
        self.atoms: Dict[str, Tuple[Proposition, Proposition]] = {}
        self.words: Dict[Proposition, Worded] = {}

    def begin(self, state: Iterable[Any]) -> None:
        """Adds what is true in the library's first state, and names all things as the package's own wrapper does."""
        self.start += [fact for fact, _ in map(self.atom, state) if not fact.is_negation]
        entities = {variable.name: EntityInfo(variable.name, variable.type) for fact in self.start for variable in fact.arguments}
        names = Demangler(game_infos=entities, shuffle=False)
        for info in entities.values():
            info.name, info.definite, info.indefinite = names.demangle_alfred_name(info.id), "the", "a"
        self.entities = entities

    def atom(self, atom: Any) -> Tuple[Proposition, Proposition]:
        """A fact of the library's, and its opposite."""
        name = atom.name
        if name not in self.atoms:
            fact = atom.get_fact(self.kinds)
            self.atoms[name] = (fact, fact.negate())
        return self.atoms[name]

    def worded(self, fact: Proposition) -> Worded:
        if fact not in self.words:
            read = Proposition(fact.name, [Variable(self.entities[variable.name].name, variable.type) for variable in fact.arguments])
            self.words[fact] = Worded(str(read), read, f"{read.name} " + " ".join(name.strip() for name in read.names))
        return self.words[fact]

    def assigned(self, operator: str) -> Dict[Placeholder, Variable]:
        """The parameters of an operator of the library's, and what stands for them."""
        name, *arguments = operator.split()
        return {placeholder: Variable(argument, placeholder.type) for placeholder, argument in zip(self.parameters[name], arguments)}


translated = functools.lru_cache(maxsize=KEPT)(Game)


@functools.lru_cache(maxsize=None)
def hierarchy(kinds: Tuple[Tuple[str, Tuple[str, ...]], ...]) -> Any:
    """The domain's types. Of two with one name the first stays, as in the package."""
    types = TypeHierarchy()
    for name, above in kinds:
        try:
            types.add(Type(name, above))
        except ValueError:
            pass
    return types


class Facts:
    """What is true now."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.true: Dict[Signature, Set[Proposition]] = defaultdict(set)
        for fact in game.start:
            self.true[fact.signature].add(fact)
        self.ordered = sorted(game.worded(fact) for facts in self.true.values() for fact in facts)
        self.indexed: Dict[Signature, Dict[Tuple[int, Any], List[Proposition]]] = {}

    def add(self, fact: Proposition) -> None:
        if fact not in self.true[fact.signature]:
            self.true[fact.signature].add(fact)
            self.indexed.pop(fact.signature, None)
            bisect.insort(self.ordered, self.game.worded(fact))

    def remove(self, fact: Proposition) -> None:
        if fact in self.true[fact.signature]:
            self.true[fact.signature].remove(fact)
            self.indexed.pop(fact.signature, None)
            del self.ordered[bisect.bisect_left(self.ordered, self.game.worded(fact))]

    def assignments(self, query: Sequence[Predicate], assigned: Assigned) -> Iterator[Dict[Placeholder, Variable]]:
        """Every way to fill the query's placeholders so that its conditions are true, in the order of the package's
        `State.all_assignments`: condition by condition, facts in order, and no thing fills two placeholders."""
        seen = set(assigned)
        fresh: List[List[Placeholder]] = []
        for predicate in query:
            fresh.append([placeholder for placeholder in dict.fromkeys(predicate.parameters) if placeholder not in seen])
            seen.update(fresh[-1])
        return self.fill(query, fresh, dict(assigned), set(assigned.values()))

    def fill(self, query: Sequence[Predicate], fresh: Sequence[List[Placeholder]], filled: Dict[Placeholder, Variable],
             used: Set[Any]) -> Iterator[Dict[Placeholder, Variable]]:
        if not query:
            yield dict(filled)
            return
        for fact in self.fitting(query[0], filled):
            for placeholder, variable in zip(query[0].parameters, fact.arguments):
                before = filled.get(placeholder)
                if before is None:
                    if variable in used:
                        break
                    filled[placeholder] = variable
                    used.add(variable)
                elif before != variable:
                    break
            else:
                yield from self.fill(query[1:], fresh[1:], filled, used)
            for placeholder in fresh[0]:
                used.discard(filled.pop(placeholder, None))

    def fitting(self, predicate: Predicate, filled: Assigned) -> Iterator[Proposition]:
        """The facts that a condition may mean, in order; where one of its placeholders is filled, only those about that thing."""
        place = next((place for place, placeholder in enumerate(predicate.parameters) if placeholder in filled), -1)
        about = filled[predicate.parameters[place]] if place >= 0 else None
        for kinds in self.game.types.multi_subtypes([self.game.types.get(name) for name in predicate.signature.types]):
            yield from self.index(Signature(predicate.signature.name, [kind.name for kind in kinds])).get((place, about), ())

    def index(self, signature: Signature) -> Dict[Tuple[int, Any], List[Proposition]]:
        """The facts of this signature in order: all of them, and those about each thing in each place."""
        if signature not in self.indexed:
            index: Dict[Tuple[int, Any], List[Proposition]] = {}
            for fact in sorted(self.true.get(signature, ())):
                for key in ((-1, None), *enumerate(fact.arguments)):
                    index.setdefault(key, []).append(fact)
            self.indexed[signature] = index
        return self.indexed[signature]
