"""ALFWorld's texts: what the package's grammar derives, without the package's copies.

The package parses each symbol and each condition anew whenever it meets one, and copies the whole context for every symbol. Here both
are parsed once, by the package's own parsers, and the context is handed down. Deriving changes no context, so the texts are the same.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, Iterator, List, Mapping, Protocol, Sequence, Tuple

from textworld.envs.pddl import textgen
from textworld.logic import Placeholder, Predicate, Rule, Variable

Assigned = Mapping[Placeholder, Variable]
Variables = Mapping[str, Any]
"""What a text may name: an entity, such as `r` in {r.name}, under its placeholder's name."""


class Facts(Protocol):
    """What is true, as far as a text needs it."""

    def assignments(self, query: Sequence[Predicate], assigned: Assigned) -> Iterator[Dict[Placeholder, Variable]]:
        """Every way to fill the query's placeholders so that its conditions are true."""


symbols = functools.lru_cache(maxsize=None)(functools.partial(textgen._parse_and_convert, rule_name="symbols"))
"""The symbols of a text of the grammar. They are never changed here, so they can be shared."""


@functools.lru_cache(maxsize=None)
def conditions(text: str) -> Tuple[Predicate, ...]:
    """A condition of the grammar, such as openable(r:receptacle) & opened(r:receptacle)."""
    return tuple(Rule.parse_conjunctive_query(text).preconditions)


@functools.lru_cache(maxsize=None)
def code(expression: str) -> Any:
    """What stands in braces, such as o.indefinite + ' ' + o.name, compiled."""
    return compile(expression.strip(), "<grammar>", "eval")


class Texts:
    """The texts of one game."""

    def __init__(self, rules: Mapping[str, Sequence[Any]], entities: Mapping[str, Any]) -> None:
        self.rules = rules
        self.entities = entities

    def derive(self, start: str, facts: Facts, assigned: Assigned) -> str:
        variables = {placeholder.name: self.entities[variable.name] for placeholder, variable in assigned.items()}
        return self.all(symbols(start), facts, assigned, variables)

    def all(self, some: Sequence[Any], facts: Facts, assigned: Assigned, variables: Variables) -> str:
        return "".join(self.text(symbol, facts, assigned, variables) for symbol in some)

    def text(self, symbol: Any, facts: Facts, assigned: Assigned, variables: Variables) -> str:
        if isinstance(symbol, textgen.TerminalSymbol):
            return str(symbol)
        if isinstance(symbol, textgen.NonterminalSymbol):
            return self.all(self.rule(symbol, facts, assigned), facts, assigned, variables)
        if isinstance(symbol, textgen.EvalSymbol):
            return str(eval(code(symbol.expression), {}, variables))
        if isinstance(symbol, textgen.ConditionalSymbol):
            return "".join(self.each(symbol, facts, assigned, variables))
        if isinstance(symbol, textgen.ListSymbol):
            return self.listed(self.each(symbol.symbol, facts, assigned, variables), facts, assigned, variables)
        raise NotImplementedError(f"the grammar has a symbol of an unknown kind, {type(symbol).__name__}")

    def rule(self, symbol: Any, facts: Facts, assigned: Assigned) -> Sequence[Any]:
        """The symbols of the first rule whose condition holds."""
        rules = self.rules.get(str(symbol))
        if not rules:
            raise textgen.CSGUnknownSymbolError(symbol)
        for rule in rules:
            if not rule.condition or next(facts.assignments(conditions(rule.condition), assigned), None) is not None:
                return list(rule.rhs)
        raise IndexError(f"no rule of the grammar fits #{symbol}#")

    def each(self, symbol: Any, facts: Facts, assigned: Assigned, variables: Variables) -> List[str]:
        """A conditional symbol's text for each way in which its condition holds: a list's items."""
        if not symbol.given:
            return [self.text(symbol.expression, facts, assigned, variables)]
        items = []
        for found in facts.assignments(conditions(symbol.given), assigned):
            named = {placeholder.name: self.entities[variable.name] for placeholder, variable in found.items()}
            items.append(self.text(symbol.expression, facts, {**assigned, **found}, {**variables, **named}))
        return items

    def listed(self, items: List[str], facts: Facts, assigned: Assigned, variables: Variables) -> str:
        """a, b, and c; the grammar has the words between."""

        def word(name: str) -> str:
            return self.text(textgen.NonterminalSymbol(name), facts, assigned, variables)

        if len(items) < 2:
            return items[0] if items else word("list_empty")
        return word("list_separator").join(items[:-1]) + word("list_last_separator") + items[-1]
