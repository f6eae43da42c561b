"""Lists of actions as differences: most of a long list stays from turn to turn."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence


def change(old: Sequence[str], new: Sequence[str]) -> Optional[Dict[str, List[Any]]]:
    """What makes `new` of `old`, if what they share has the same order in both.

    >>> change(["look", "take key", "go north"], ["open door", "look", "go north"])
    {'drop': [1], 'add': [[0, 'open door']]}
    >>> change(["a", "b"], ["b", "a"]) is None
    True
    """
    before, after = set(old), set(new)
    if [action for action in old if action in after] != [action for action in new if action in before]:
        return None
    return {
        "drop": [place for place, action in enumerate(old) if action not in after],
        "add": [[place, action] for place, action in enumerate(new) if action not in before],
    }


def changed(old: Sequence[str], by: Dict[str, List[Any]]) -> List[str]:
    """The list that a change makes of `old`; raises a ValueError where the change doesn't fit.

    >>> changed(["look", "take key", "go north"], {"drop": [1], "add": [[0, "open door"]]})
    ['open door', 'look', 'go north']
    """
    drop = by.get("drop") or []
    add = by.get("add") or []
    if any(not 0 <= place < len(old) for place in drop) or any(a >= b for a, b in zip(drop, drop[1:])):
        raise ValueError(f"`drop` {drop} doesn't fit a list of {len(old)} actions")
    gone = set(drop)
    new = [action for place, action in enumerate(old) if place not in gone]
    last = -1
    for place, action in add:
        if not last < place <= len(new):
            raise ValueError(f"`add` at {place} doesn't fit a list of {len(new)} actions")
        new.insert(place, action)
        last = place
    return new
