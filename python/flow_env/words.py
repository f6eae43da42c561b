"""The words of an environment's texts, for small models whose tokens are words."""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter
from typing import Callable, Dict, Generator, Iterable, Iterator, List, Sequence, Union

from .limits import clean
from .world import Fatal, World, as_view

PIECE = re.compile(r" ?[^\W\d_]+| ?[^\w\s]")
TEXT = 8_000_000
"""How many characters of an environment are looked through for words: two seconds' work. A number of seconds would make the words depend on the machine."""


def of_texts(texts: Iterable[str], most: int = 4096) -> List[str]:
    """The words of these texts, the most frequent first. A word within a line has its space before it: models read
    " kitchen" as one token. Single bytes are left out, since every model has them.

    >>> of_texts(["go north", "go south"])
    ['go', ' north', ' south']
    """
    count: Counter[str] = Counter()
    for text in texts:
        count.update(piece for piece in PIECE.findall(text) if len(piece.encode()) > 1)
    return [word for word, _ in sorted(count.items(), key=lambda item: (-item[1], item[0]))[:most]]


def of_world(make: Callable[[], World], tasks: int = 16, steps: int = 24, most: int = 4096) -> List[str]:
    """The words of a few episodes of an environment, of their first `TEXT` characters."""
    return of_texts(beginning(texts(make, tasks, steps), TEXT), most)


def beginning(texts: Generator[str, None, None], characters: int) -> Iterator[str]:
    """The first texts, up to so many characters in all."""
    with contextlib.closing(texts):
        for text in texts:
            yield text[:characters]
            characters -= len(text)
            if characters <= 0:
                return


def texts(make: Callable[[], World], tasks: int, steps: int) -> Generator[str, None, None]:
    """The texts of episodes of the first split. An episode that fails ends there, and the next one follows."""
    world = make()
    try:
        yield clean(world.rules)
        split, known = next(((s, t) for s, t in ((s, world.tasks(s)) for s in world.splits) if t), ("", 0))
        draw = random.Random(0)
        for task in spread(known, tasks):
            world.split = split
            failed = False
            try:
                yield from episode(world, task, steps, draw)
            except Fatal:
                raise
            except (Exception, SystemExit):
                failed = True
            if failed or not world.reuse:
                world.close()
                world = make()
    finally:
        world.close()


def episode(world: World, task: Union[int, str], steps: int, draw: random.Random) -> Iterator[str]:
    """The texts of one episode, played by the expert where there is one and else at random."""
    view = as_view(world.reset(task, 0), "reset")
    yield clean(view.instruction or "")
    yield clean(view.observation)
    for step in range(steps):
        if view.done:
            break
        actions = listed(world) if step == 0 or not world.can("expert") else []
        yield from actions
        action = world.expert() if world.can("expert") else None
        if action is None:
            actions = actions or listed(world)
            action = draw.choice(actions) if actions else None
        if action is None:
            break
        view = as_view(world.step(action), "step")
        yield clean(action)
        yield clean(view.observation)


def listed(world: World) -> List[str]:
    return [clean(action) for action in world.actions()] if world.can("actions") else []


def spread(known: Union[int, Sequence[str]], most: int) -> List[Union[int, str]]:
    """At most so many tasks of a split, evenly spread; tasks called KIND/NUMBER evenly over the kinds.

    >>> spread(10, 3)
    [0, 3, 6]
    >>> spread(["a/1", "a/2", "a/3", "a/4", "b/1"], 3)
    ['a/1', 'a/3', 'b/1']
    """
    if isinstance(known, int):
        return [i * known // most for i in range(most)] if known > most else list(range(known))
    kinds: Dict[str, List[str]] = {}
    for name in known:
        kinds.setdefault(name.rpartition("/")[0], []).append(name)
    share = dict.fromkeys(kinds, 0)
    left = min(most, len(known))
    while left:
        for kind, some in kinds.items():
            if left and share[kind] < len(some):
                share[kind] += 1
                left -= 1
    return [some[i * len(some) // share[kind]] for kind, some in kinds.items() for i in range(share[kind])]
