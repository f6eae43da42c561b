"""What an environment is: one live episode at a time, told what to do in text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Mapping, Optional, Sequence, Tuple, Union


class Fatal(Exception):
    """Raised by an environment that can't go on at all, such as one whose JVM is dead: the process ends, and flow starts another."""


FACTS = ("instruction", "type", "gold")
"""What a view says after a reset of the whole episode: texts of :class:`View`, each a column of its rows."""


@dataclass
class View:
    """What an episode shows after a reset or a step."""

    observation: str
    reward: float = 0.0
    done: bool = False
    won: bool = False
    """Whether it ended well; only with `done`."""
    valid: bool = True
    """Whether the action could be carried out."""
    truncated: bool = False
    """With `done`: a limit of the environment's own ended the episode, not the game."""
    state: Optional[str] = None
    """The canonical state, by which turns are grouped; the observation unless given."""
    score: Optional[float] = None
    """Where the episode stands on the environment's own scale."""
    info: Mapping[str, float] = field(default_factory=dict)
    """Small figures of this moment."""
    instruction: Optional[str] = None
    """After a reset: the task's own text, apart from the observation."""
    type: Optional[str] = None
    """After a reset: the kind of task."""
    gold: Optional[str] = None
    """After a reset: the task's right answer. No policy sees it; templates over rows may."""


def as_view(answer: object, method: str) -> View:
    """The view that a method of an environment returned; after `reset` a text is one, too."""
    if isinstance(answer, View):
        return answer
    if isinstance(answer, str) and method == "reset":
        return View(answer)
    kind = "None" if answer is None else f"a {type(answer).__name__}"
    hint = " (Gymnasium's environments: `gymnasium:ID`)" if isinstance(answer, tuple) else ""
    raise TypeError(f"{method} must return a View, not {kind}{hint}")


class World:
    """Subclass this with `tasks`, `reset` and `step`; everything else may stay as it is.

    One instance plays one episode at a time. For several live episodes there are several instances, made by calling the class
    without arguments.
    """

    world: str = ""
    """What this is and of which version; the name of the class unless given."""
    rules: str = ""
    """How the environment is played, whatever the task."""
    words: Optional[Sequence[str]] = None
    """The words of its texts, for small models; gathered from a few episodes unless given. An empty list means
    that single bytes are enough."""
    splits: Sequence[str] = ("train", "dev", "test")
    """The splits for which `tasks` is asked."""
    score: Optional[Tuple[float, float]] = None
    """The range of the environment's own score."""
    live: Optional[int] = None
    """How many episodes one process may hold; any number unless given. 1 for environments that share something behind their backs."""
    deterministic: bool = True
    """Whether task, seed and actions decide everything. If so, `rollback` and `copy` come by themselves, by playing again."""
    reuse: bool = False
    """Whether an instance may play another episode after one has ended; for environments that are slow to make."""
    global_random: bool = False
    """Whether it draws from Python's or NumPy's global generator: each episode then gets its own, seeded by task and seed."""
    max_steps: Optional[int] = None
    """After this many steps an episode is over (`truncated`)."""

    split: str = ""
    """The split of the task being played; set before `reset`."""

    def tasks(self, split: str) -> Union[int, Sequence[str]]:
        """The tasks of a split: their names, or how many there are. 0 for a split that this environment doesn't have."""
        raise NotImplementedError(f"{type(self).__name__}.tasks isn't written")

    def reset(self, task: Any, seed: int) -> Union[View, str]:
        """Begins a task. `task` is a name that `tasks` gave; or, where `tasks` gave a count, a number. The numbers of the splits
        follow each other (train 0 to n-1, dev from n on, ...), so that no two splits share a task."""
        raise NotImplementedError(f"{type(self).__name__}.reset isn't written")

    def step(self, action: str) -> View:
        """Carries out an action. It may be any text: say `valid=False` where it is no action."""
        raise NotImplementedError(f"{type(self).__name__}.step isn't written")

    def actions(self) -> Sequence[str]:
        """The admissible actions now. Called only when somebody wants to know, and never when the episode is over."""
        raise NotImplementedError

    def expert(self) -> Optional[str]:
        """What an expert would do now; None where it knows no way on."""
        raise NotImplementedError

    def rollback(self, steps: int) -> View:
        """Takes back the last steps. Unless written, the episode is played again up to there."""
        raise NotImplementedError

    def copy(self) -> "World":
        """Another environment in the same state. Unless written, the episode is played again in another instance."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives back what the instance holds: processes, files, browsers."""

    lacks: ClassVar[frozenset[str]] = frozenset()
    """Abilities that the class has written but this instance doesn't have."""

    def can(self, ability: str) -> bool:
        """Whether a subclass has written this method (or could play again instead)."""
        if ability in self.lacks:
            return False
        if getattr(type(self), ability) is not getattr(World, ability):
            return True
        return self.deterministic and (ability == "rollback" or ability == "copy" and self.live != 1)
