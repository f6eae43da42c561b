"""The live episodes of a process, and the answers to what is asked of them."""

from __future__ import annotations

import hashlib
import math
import os
import random
import sys
import sysconfig
import traceback
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import limits
from .change import change
from .limits import Json, clean
from .world import FACTS, Fatal, View, World, as_view


PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
LIBRARIES = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class Refused(Exception):
    """What is asked can't be done; the text says why."""


class Late(BaseException):
    """A request took longer than allowed. No Exception, so that no environment catches it by accident."""


class Episode:
    """One live episode: its environment, what it was asked, what it showed."""

    def __init__(self, world: World, split: str, task: Union[int, str], seed: int) -> None:
        self.world = world
        self.begun = (split, task, seed)
        self.played: List[str] = []
        self.shown: List[Json] = []
        self.listed: Optional[List[str]] = None
        self.over = False
        self.failed: Optional[str] = None
        self.generators: Optional[Tuple[Any, Any]] = None


class Episodes:
    """Makes environments as they are needed and answers requests, one after the other."""

    def __init__(self, make: Callable[[], World], words: Optional[Callable[[], Optional[Sequence[str]]]] = None) -> None:
        self.make = make
        self.gather = words
        self.first = make()
        self.idle = [self.first]
        self.open: Dict[int, Episode] = {}
        self.gone: List[World] = []
        self.splits: Dict[str, Union[int, List[str]]] = {}
        self.places: Dict[str, Dict[str, Union[int, str]]] = {}
        self.offsets: Dict[str, int] = {}
        offset = 0
        for split in self.first.splits:
            tasks = self.first.tasks(split)
            if tasks:
                self.splits[split] = tasks if isinstance(tasks, int) else [str(task) for task in tasks]
                self.offsets[split] = offset
                offset += tasks if isinstance(tasks, int) else 0

    def hello(self, gather: bool = True) -> Json:
        """What the program says of itself, in protocol 2. Without `gather` it names only the words that the class itself has."""
        world = self.first
        words = world.words
        if words is None and gather:
            words = () if self.gather is None else self.gathered(self.gather)
        answer: Json = {
            "protocol": limits.PROTOCOL,
            "world": world.world or type(world).__name__,
            "splits": self.splits,
            "abilities": [ability for ability in limits.ABILITIES if world.can(ability)],
            "rules": clean(world.rules),
            "deterministic": world.deterministic,
        }
        if words is not None:
            answer["words"] = [clean(word) for word in words]
        if world.live is not None:
            answer["live"] = world.live
        if world.score is not None:
            answer["score"] = list(world.score)
        return answer

    def gathered(self, gather: Callable[[], Optional[Sequence[str]]]) -> Optional[Sequence[str]]:
        """The words that are found; None where the environment fails, since that is for its episodes to report."""
        try:
            return gather()
        except Fatal:
            raise
        except (Exception, SystemExit) as error:
            print(f"no words of this environment were gathered: {described(error)}", file=sys.stderr, flush=True)
            return None

    def answer(self, request: Mapping[str, Any]) -> Json:
        """The answer to any request but hello."""
        number = request.get("episode")
        if not isinstance(number, int) or isinstance(number, bool):
            return {"error": f"the request names no episode: {str(dict(request))[:200]}"}
        try:
            what = request.get("request")
            if what == "reset":
                answer = self.reset(number, request)
            elif what == "close":
                self.close(number)
                answer = {"closed": True}
            elif what == "copy":
                answer = self.copy(number, request)
            elif what in ("step", "actions", "expert", "rollback"):
                answer = getattr(self, what)(self.live(number), request)
            else:
                raise Refused(f"there is no request {what!r}")
        except Refused as refused:
            answer = {"error": str(refused)}
        except Fatal:
            raise
        except (Exception, Late, SystemExit) as error:
            answer = {"error": self.fail(number, error)}
        return {"episode": number, **answer}

    def fail(self, number: int, error: BaseException) -> str:
        """Notes that an episode has failed, and says of what."""
        traceback.print_exception(type(error), error, error.__traceback__, limit=-12, file=sys.stderr)
        sys.stderr.flush()
        text = str(error) if isinstance(error, Late) else described(error)
        episode = self.open.get(number)
        if episode is not None:
            episode.failed = text
            self.discard(episode.world)
        return text

    def live(self, number: int) -> Episode:
        episode = self.open.get(number)
        if episode is None:
            raise Refused(f"episode {number} isn't open")
        if episode.failed is not None:
            raise Refused(f"the episode has failed before: {episode.failed}")
        return episode

    def fresh(self) -> World:
        return self.idle.pop() if self.idle else self.make()

    def free(self, world: World) -> None:
        if world.reuse:
            self.idle.append(world)
        else:
            self.discard(world)

    def discard(self, world: World) -> None:
        if any(world is gone for gone in self.gone):
            return
        self.gone = [world]
        try:
            world.close()
        except Fatal:
            raise
        except Exception as error:
            print(f"closing an environment failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    def task(self, split: object, name: object) -> Union[int, str]:
        """What the environment calls a task."""
        if not isinstance(split, str) or split not in self.splits:
            raise Refused(f"there is no split {split!r}; there are {', '.join(self.splits)}")
        tasks = self.splits[split]
        if isinstance(tasks, int):
            if isinstance(name, str) and name.isascii() and name.isdigit() and len(name) < 19 and int(name) < tasks:
                return self.offsets[split] + int(name)
            raise Refused(f"the split {split!r} has no task {name!r}; its tasks are \"0\" to \"{tasks - 1}\"")
        if split not in self.places:
            self.places[split] = {task: task for task in tasks}
        if not isinstance(name, str) or name not in self.places[split]:
            raise Refused(f"the split {split!r} has no task {name!r}; its first is {tasks[0]!r}")
        return name

    def reset(self, number: int, request: Mapping[str, Any]) -> Json:
        task = self.task(request.get("split"), request.get("task"))
        seed = request.get("seed")
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise Refused("the reset has no `seed` from 0 on")
        self.close(number)
        self.room()
        episode = Episode(self.fresh(), str(request["split"]), task, seed)
        self.open[number] = episode
        self.show(episode, self.begin(episode))
        return self.with_actions(episode, request)

    def room(self) -> None:
        most = self.first.live
        if most is not None and len(self.open) >= most:
            raise Refused(f"{len(self.open)} episodes are open, and this process holds {most}")

    def step(self, episode: Episode, request: Mapping[str, Any]) -> Json:
        action = request.get("action")
        if not isinstance(action, str):
            raise Refused("the step has no `action`")
        if episode.over:
            raise Refused("the episode is over")
        self.show(episode, self.act(episode, action), action)
        return self.with_actions(episode, request)

    def actions(self, episode: Episode, request: Mapping[str, Any]) -> Json:
        return {"actions": self.list(episode, request.get("actions") or "full")}

    def expert(self, episode: Episode, request: Mapping[str, Any]) -> Json:
        if episode.over:
            return {"action": None}
        action = self.calmly(episode, episode.world.expert)
        return {"action": None if action is None else clean(action)}

    def rollback(self, episode: Episode, request: Mapping[str, Any]) -> Json:
        steps = request.get("steps")
        if not isinstance(steps, int) or isinstance(steps, bool) or not 1 <= steps <= len(episode.played):
            raise Refused(f"{steps!r} steps can't be taken back of {len(episode.played)}")
        if type(episode.world).rollback is not World.rollback:
            view = as_view(self.calmly(episode, lambda: episode.world.rollback(steps)), "rollback")
            episode.played = episode.played[:-steps]
            episode.shown = episode.shown[:-steps - 1]
            self.show(episode, view)
        else:
            # Given back first: a process may hold no second environment.
            self.free(episode.world)
            episode.world = self.again(episode, len(episode.played) - steps)
            episode.played = episode.played[:-steps]
            episode.shown = episode.shown[:-steps]
        episode.over = bool(episode.shown[-1].get("done"))
        return self.with_actions(episode, request)

    def copy(self, number: int, request: Mapping[str, Any]) -> Json:
        source = request.get("from")
        episode = self.live(source if isinstance(source, int) else -1)
        if number == source:
            raise Refused("an episode can't be copied onto itself")
        if not episode.world.can("copy"):
            raise Refused("this environment can't be copied")
        self.close(number)
        self.room()
        written = type(episode.world).copy is not World.copy
        world = self.calmly(episode, episode.world.copy) if written else self.again(episode, len(episode.played))
        copy = Episode(world, *episode.begun)
        copy.played, copy.shown, copy.over = list(episode.played), list(episode.shown), episode.over
        copy.generators = episode.generators
        self.open[number] = copy
        return self.with_actions(copy, request)

    def again(self, episode: Episode, steps: int) -> World:
        """An environment in which this episode was played again, so far."""
        other = Episode(self.fresh(), *episode.begun)
        try:
            self.show(other, self.begin(other))
            for action in episode.played[:steps]:
                self.show(other, self.act(other, action), action)
            for place, (original, replayed) in enumerate(zip(episode.shown, other.shown)):
                if original != replayed:
                    raise RuntimeError(f"played again, the episode differs after {place} steps: {str(replayed)[:200]}")
        except BaseException:
            self.discard(other.world)
            raise
        episode.generators = other.generators
        return other.world

    def close(self, number: int) -> None:
        episode = self.open.pop(number, None)
        if episode is not None and episode.failed is None:
            self.free(episode.world)

    def end(self) -> None:
        """Closes everything."""
        for world in [*self.idle, *(episode.world for episode in self.open.values() if episode.failed is None)]:
            self.discard(world)
        self.idle, self.open = [], {}

    def begin(self, episode: Episode) -> View:
        split, task, seed = episode.begun
        episode.world.split = split
        if episode.world.global_random:
            number = int.from_bytes(hashlib.sha256(f"{split} {task} {seed}".encode()).digest()[:4], "big")
            episode.generators = seeded(number)
        return as_view(self.calmly(episode, lambda: episode.world.reset(task, seed)), "reset")

    def act(self, episode: Episode, action: str) -> View:
        view = as_view(self.calmly(episode, lambda: episode.world.step(action)), "step")
        most = episode.world.max_steps
        if most is not None and len(episode.played) + 1 >= most and not view.done:
            view.done = view.truncated = True
        return view

    def calmly(self, episode: Episode, do: Callable[[], Any]) -> Any:
        """Does something under the episode's own global generators, if it needs them."""
        if episode.generators is None:
            return do()
        before = generators()
        restore(episode.generators)
        try:
            return do()
        finally:
            episode.generators = generators()
            restore(before)

    def show(self, episode: Episode, view: View, action: Optional[str] = None) -> None:
        """Makes an answer of a view and keeps it."""
        answer: Json = {"observation": clean(view.observation)}
        if action is not None or view.done:
            answer["reward"] = number(view.reward, "reward")
            answer["done"] = bool(view.done)
        if view.won:
            answer["won"] = True
        if view.truncated:
            answer["truncated"] = True
        if not view.valid:
            answer["valid"] = False
        if view.state is not None:
            answer["state"] = clean(view.state)
        if view.score is not None:
            answer["score"] = number(view.score, "score")
        if view.info:
            answer["info"] = {name: number(value, name) for name, value in view.info.items()}
        if action is None:
            answer.update({name: clean(text) for name in FACTS if (text := getattr(view, name))})
            if view.done:
                raise ValueError("the episode is over before its first step")
        else:
            episode.played.append(action)
        wrong = limits.wrong_view(answer, action is not None, False)
        if wrong:
            raise ValueError("; ".join(wrong))
        episode.shown.append(answer)
        episode.over = bool(view.done)

    def with_actions(self, episode: Episode, request: Mapping[str, Any]) -> Json:
        """The newest view, with the admissible actions if they were asked for."""
        answer = dict(episode.shown[-1])
        mode = request.get("actions")
        if mode is not None and not episode.over:
            answer["actions"] = self.list(episode, mode)
        return answer

    def list(self, episode: Episode, mode: object) -> Union[List[str], Json]:
        if mode not in ("full", "change"):
            raise Refused(f"`actions` is {mode!r}, neither \"full\" nor \"change\"")
        if not episode.world.can("actions"):
            raise Refused("this environment doesn't list its actions")
        new: List[str] = []
        if not episode.over:
            listed = self.calmly(episode, episode.world.actions)
            if isinstance(listed, str):
                raise TypeError(f"`actions` gave the text {listed[:80]!r}: it gives a list of texts")
            new = list(dict.fromkeys(map(clean, listed)))
        old, episode.listed = episode.listed, new
        wrong = limits.wrong_actions(new, False)
        if wrong:
            raise ValueError("; ".join(wrong))
        by = change(old, new) if mode == "change" and old is not None else None
        return new if by is None else by


def described(error: BaseException) -> str:
    """An error with its place: the last line of the environment's own code, or else of a library that it called."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith((PACKAGE, "<"))]
    own = [frame for frame in frames if not frame.filename.startswith(LIBRARIES)] or frames
    place = f" ({os.path.basename(own[-1].filename)}, line {own[-1].lineno}, in {own[-1].name})" if own else ""
    return clean(f"{type(error).__name__}: {error}")[:2000] + place


def number(value: Any, what: str) -> Union[int, float]:
    """A plain finite number, also of what NumPy calls a number."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    plain = float(value)
    if not math.isfinite(plain):
        raise ValueError(f"`{what}` is {plain}")
    return plain


def generators() -> Tuple[Any, Any]:
    """Where Python's and NumPy's global generators stand."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), numpy.random.get_state() if numpy else None


def restore(state: Tuple[Any, Any]) -> None:
    random.setstate(state[0])
    numpy = sys.modules.get("numpy")
    if numpy and state[1] is not None:
        numpy.random.set_state(state[1])


def seeded(seed: int) -> Tuple[Any, Any]:
    """Global generators seeded by this number."""
    before = generators()
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed(seed)
    state = generators()
    restore(before)
    return state
