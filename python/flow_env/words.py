"""The words of a world's texts, for small models whose tokens are words."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Callable, Dict, Iterable, List, Sequence, Union

from .world import View, World

PIECE = re.compile(r" ?[^\W\d_]+| ?[^\w\s]")


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
    """The words of a few episodes of a world."""
    return of_texts(texts(make, tasks, steps), most)


def texts(make: Callable[[], World], tasks: int, steps: int) -> List[str]:
    """The texts of episodes of the first split, played by the expert where there is one and else at random."""
    collected: List[str] = []
    world = make()
    try:
        collected.append(world.rules)
        split, known = next(((s, t) for s, t in ((s, world.tasks(s)) for s in world.splits) if t), ("", 0))
        draw = random.Random(0)
        for task in spread(known, tasks):
            world.split = split
            view = world.reset(task, 0)
            view = View(view) if isinstance(view, str) else view
            collected += [view.instruction or "", view.observation]
            for step in range(steps):
                if view.done:
                    break
                actions = list(world.actions()) if world.can("actions") and (step == 0 or not world.can("expert")) else []
                collected += actions
                action = world.expert() if world.can("expert") else None
                if action is None:
                    actions = actions or (list(world.actions()) if world.can("actions") else [])
                    action = draw.choice(actions) if actions else None
                if action is None:
                    break
                view = world.step(action)
                collected += [action, view.observation]
            if not world.reuse:
                world.close()
                world = make()
    finally:
        world.close()
    return collected


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
