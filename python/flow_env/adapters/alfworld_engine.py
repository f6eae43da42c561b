"""ALFWorld's engine, many times faster: the same library, grammar and names as `textworld.envs.PddlEnv` under `AlfredDemangler`, and so
the same texts, facts and commands step by step.

What the package does again and again and this does once: it translates a problem four times for an episode (to load and to reset, each
time also for its planner, which nobody asks here), and in each state it writes every command through its grammar and every fact in words.
A fact's words stay the same for a whole game, and so does an operator's command: the only thing that a command's text asks of the state
is which place a piece of furniture is at, and no action changes that. Games are kept, too, so that one that is played again, by another
episode or for its expert, isn't translated again.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, NamedTuple, Optional

import fast_downward
from textworld.envs.pddl import logic as pddl
from textworld.envs.pddl import textgen

from .alfworld_game import Facts, translated
from .alfworld_texts import Texts

NOTHING = "Nothing happens."

logic = functools.lru_cache(maxsize=None)(pddl.GameLogic)
"""The actions and the grammar of a domain."""


class Operator(NamedTuple):
    """What can be done in a state."""

    number: int
    name: str
    effects: int


class Engine:
    """One live game."""

    def __init__(self, domain: str, grammar: str) -> None:
        self.domain = domain
        self.logic = logic(domain, grammar)
        self.library = fast_downward.load_lib()
        self.feedback = ""
        self.moves: Optional[Dict[str, Operator]] = None

    def load(self, problem: str, sentence: str) -> None:
        """Sets the game: its problem in PDDL and its task in words."""
        self.game = translated(self.domain, problem)
        self.sentence = sentence

    def reset(self) -> None:
        self.library.load_sas(self.game.sas)
        if not self.game.entities:
            atoms = (pddl.Atom * self.library.get_state_size())()
            self.library.get_state(atoms)
            self.game.begin(atoms)
        self.texts = Texts(rules(self.logic.grammar, self.sentence), self.game.entities)
        self.facts = Facts(self.game)
        self.moves = None
        self.won = bool(self.library.check_goal())
        self.feedback = self.texts.derive("#intro#", self.facts, {})

    def step(self, command: str) -> None:
        """Does what the command says; where it says nothing that can be done here, nothing happens."""
        operator = self.operators().get(command.strip())
        if operator is None:
            self.feedback = NOTHING
            return
        self.moves = None
        effects = (pddl.Atom * operator.effects)()
        self.library.apply_operator(operator.number, effects)
        for fact, opposite in map(self.game.atom, effects):
            self.facts.remove(opposite)
            self.facts.add(fact)
        rule = self.logic.actions[operator.name.split()[0]].feedback_rule
        self.feedback = self.texts.derive(rule, self.facts, self.game.assigned(operator.name))
        self.won = bool(self.library.check_goal())

    def operators(self) -> Dict[str, Operator]:
        """What can be done now, by its command. Of several operators with one command the library's first is meant, as in the package."""
        if self.moves is None:
            some = (fast_downward.Operator * self.library.get_applicable_operators_count())()
            self.library.get_applicable_operators(some)
            self.moves = {}
            for operator in some:
                name = operator.name
                self.moves.setdefault(self.command(name), Operator(operator.id, name, operator.nb_effect_atoms))
        return self.moves

    def command(self, operator: str) -> str:
        """The command for an operator: go to desk 1."""
        if operator not in self.game.commands:
            assigned = self.game.assigned(operator)
            template = self.logic.actions[operator.split()[0]].template
            self.game.commands[operator] = self.texts.derive(template, self.facts, assigned)
        return self.game.commands[operator]



def rules(grammar: textgen.ContextSensitiveGrammar, sentence: str) -> Dict[str, List[Any]]:
    """The grammar's rules with the task's sentence in its place, which is plain text."""
    place, = grammar._rules["task"]
    symbols = [textgen.TerminalSymbol(symbol.symbol.replace("UNKNOWN GOAL", sentence)) for symbol in place.rhs]
    return {**grammar._rules, "task": [textgen.ProductionRule("task", symbols)]}
