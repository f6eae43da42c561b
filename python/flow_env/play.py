"""Plays a program as flow would, and keeps every row."""

from __future__ import annotations

import hashlib
import json
import random
import time
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .client import Broken, Program, serving
from .limits import Json
from .words import spread

Task = Tuple[str, str]


class Row(NamedTuple):
    """One turn: what was done in an episode and what came of it. `action` is None for the reset."""

    split: str
    task: str
    seed: int
    turn: int
    action: Optional[str]
    answer: Json


class Played(NamedTuple):
    """Episodes that were played, in the order of their tasks."""

    rows: List[List[Row]]
    expert: List[bool]
    """Whether the expert chose every action of the episode."""

    def digest(self) -> str:
        """SHA-256 of all rows."""
        text = json.dumps([row._replace(answer=plain(row.answer)) for rows in self.rows for row in rows], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def last(self) -> List[Json]:
        """How each episode ended."""
        return [rows[-1].answer for rows in self.rows]

    def steps(self) -> int:
        return sum(len(rows) - 1 for rows in self.rows)


def plain(answer: Json) -> Json:
    """An answer without the number of its episode and without what only says where it came from."""
    return {name: value for name, value in answer.items() if name != "episode" and value is not None}


def tasks(hello: Json, most: int, splits: Optional[Sequence[str]] = None) -> List[Task]:
    """So many tasks in all, evenly from the splits and evenly within each, as far as there are so many."""
    known: Dict[str, Any] = {name: some for name, some in hello["splits"].items() if splits is None or name in splits}
    if not known:
        raise Broken(f"there is no split {splits}; there are {', '.join(hello['splits'])}")
    share = {name: most // len(known) + (place < most % len(known)) for place, name in enumerate(known)}
    chosen = [(name, str(task)) for name, some in known.items() for task in spread(some, share[name])]
    return chosen


def play(
    program: Program,
    chosen: Sequence[Task],
    policy: str = "random",
    most: int = 50,
    live: int = 8,
    seed: int = 0,
    lists: bool = True,
    say: Sequence[str] = (),
) -> Played:
    """Plays these tasks, up to `live` at a time, all requests of a moment on one line.

    `policy` is "random" (of the listed actions, else of `say`) or "expert" (else at random). What is chosen follows from task, seed
    and turn alone, so that the rows don't depend on `live`.
    """
    can = program.hello.get("abilities") or []
    listed = "change" if "actions" in can and (lists or policy == "random") else None
    live = min(live, program.hello.get("live") or live)
    told: Json = {"cut": False, "usage": [1, 1]} if program.asks else {}
    waiting = list(enumerate(chosen))[::-1]
    rows: List[List[Row]] = [[] for _ in chosen]
    expert = [policy == "expert" and "expert" in can] * len(chosen)
    now: Dict[int, Tuple[Task, random.Random]] = {}
    while waiting or now:
        fresh = [waiting.pop() for _ in range(min(len(waiting), live - len(now)))]
        requests: List[Json] = []
        for number, task in fresh:
            now[number] = (task, random.Random(f"{task[0]} {task[1]} {seed}"))
            requests.append({"request": "reset", "episode": number, "split": task[0], "task": task[1], "seed": seed, "actions": listed})
        acting = [number for number in now if rows[number]]
        advice: Dict[int, Optional[str]] = {}
        if policy == "expert" and "expert" in can and acting:
            queries = [{"request": "expert", "episode": number} for number in acting]
            advice = {answer["episode"]: answer.get("action") for answer in program.ask(*queries)}
        chose: Dict[int, str] = {}
        for number in acting:
            action = advice.get(number)
            if action is None:
                expert[number] = False
                options = program.listed.get(number) or list(say)
                if not options:
                    raise Broken("this environment lists no actions and has no expert: say what may be said (--say FILE)")
                action = now[number][1].choice(options)
            chose[number] = action
            requests.append({"request": "step", "episode": number, "action": action, "actions": listed, **told})
        over: List[int] = []
        for request, answer in zip(requests, program.ask(*requests)):
            number = answer["episode"]
            (split, name), _ = now[number]
            rows[number].append(Row(split, name, seed, len(rows[number]), chose.get(number), answer))
            if "error" in answer or answer.get("done") or len(rows[number]) > most:
                over.append(number)
        if over:
            program.ask(*({"request": "close", "episode": number} for number in over))
            for number in over:
                del now[number]
    return Played(rows, expert)


def summary(
    spec: str, many: int, policy: str, most: int, live: int, splits: Optional[Sequence[str]], lists: bool, backwards: bool, say: Sequence[str]
) -> Json:
    """Plays so many tasks of a served environment and says what came of them."""
    begun = time.perf_counter()
    program = Program(serving(spec), seconds=300.0)
    began = time.perf_counter() - begun
    try:
        chosen = tasks(program.hello, many, splits)
        begun = time.perf_counter()
        played = play(program, chosen[::-1] if backwards else chosen, policy, most, live, lists=lists, say=say)
        took = time.perf_counter() - begun
    finally:
        status, _, left = program.end()
    if backwards:
        played = Played(played.rows[::-1], played.expert[::-1])
    last = played.last()
    by: Dict[str, List[Json]] = {}
    for rows in played.rows:
        by.setdefault(str(rows[0].answer.get("type") or "all"), []).append(rows[-1].answer)
    return {
        "world": program.hello.get("world"),
        "episodes": len(last),
        "steps": played.steps(),
        "expert": sum(played.expert),
        "won": sum(bool(answer.get("won")) for answer in last),
        "failed": [str(answer["error"])[:200] for answer in last if "error" in answer],
        "score": mean([answer["score"] for answer in last if answer.get("score") is not None]),
        "return": mean([sum(float(row.answer.get("reward") or 0) for row in rows) for rows in played.rows]),
        "types": {name: {"episodes": len(some), "won": sum(bool(answer.get("won")) for answer in some),
                         "score": mean([answer["score"] for answer in some if answer.get("score") is not None])} for name, some in sorted(by.items())},
        "start": round(began, 2),
        "seconds": round(took, 2),
        "steps_a_second": round(played.steps() / took, 1),
        "status": status,
        "left": left,
        "digest": played.digest(),
    }


def mean(numbers: Sequence[float]) -> Optional[float]:
    return round(sum(numbers) / len(numbers), 4) if numbers else None
