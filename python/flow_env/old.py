"""Protocol 1, for a flow that doesn't speak 2 yet: a task is its seed, and every view lists the actions."""

from __future__ import annotations

from typing import Any, Mapping

from .episodes import Episodes
from .limits import Json

FIELDS = ("episode", "observation", "actions", "reward", "done", "won", "valid", "state", "action", "error")


def hello(episodes: Episodes) -> Json:
    """The answer to a hello of protocol 1."""
    new = episodes.hello()
    return {"protocol": 1, "words": new["words"], "rules": new["rules"], "expert": "expert" in new["abilities"]}


def answer(episodes: Episodes, request: Mapping[str, Any]) -> Json:
    """The answer to any other request. The seed picks the task from the first split; the task's own text precedes the first
    observation."""
    asked = dict(request)
    actions = "full" if episodes.first.can("actions") else None
    if asked.get("request") == "reset":
        split, tasks = next(iter(episodes.splits.items()))
        seed = asked.get("seed")
        place = seed % (tasks if isinstance(tasks, int) else len(tasks)) if isinstance(seed, int) else 0
        asked.update(split=split, task=str(place) if isinstance(tasks, int) else tasks[place])
    if asked.get("request") in ("reset", "step"):
        asked["actions"] = actions
    new = episodes.answer(asked)
    if new.get("instruction"):
        new["observation"] = f"{new['instruction']}\n\n{new['observation']}"
    if new.get("done"):
        # There is no close: what is over is given back at once.
        episodes.close(int(new["episode"]))
    return {name: new[name] for name in FIELDS if name in new}
