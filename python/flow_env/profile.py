"""How many steps a second, and where the time goes: in the environment, in its lists of actions, in the lines."""

from __future__ import annotations

import random
import sys
import time
from collections import defaultdict
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import spec
from .client import Broken, Program, serving
from .play import Task, play, tasks
from .world import Fatal, View, World

Times = Dict[str, List[float]]


def profile(named: str, many: int, most: int, say: Sequence[str]) -> int:
    """Plays the same episodes in this process, without a protocol, and through it; prints what each took."""
    try:
        program, began = started(named)
        can = program.hello.get("abilities") or []
        chosen = tasks(program.hello, many)
        print(f"{program.hello.get('world')}: {many} tasks, {most} steps of each at most, at random\n")
        lines: List[Tuple[str, int, float]] = []
        for live in sorted({1, min(8, program.hello.get("live") or 8)}):
            for lists in (True, False) if "actions" in can else (False,):
                policy = "random" if lists or "actions" not in can else "expert" if "expert" in can else ""
                if policy:
                    begun = time.perf_counter()
                    played = play(program, chosen, policy, most, live, lists=lists, say=say)
                    mode = f"{live} live" + (", with lists of actions" if lists else ", no lists") + (", by the expert" if policy == "expert" else "")
                    lines.append((mode, played.steps(), time.perf_counter() - begun))
        program.end()
        bare, times = alone(spec.world(named), chosen, most, say)
    except (Broken, Fatal, spec.Unknown) as error:
        print(f"flow-env: {error}", file=sys.stderr)
        return 1
    print(f"{'in one Python loop, no protocol':<44} {bare[0]:>6} steps {bare[1]:>8.2f} s {rate(*bare):>9} steps/s")
    for mode, steps, seconds in lines:
        print(f"{'through the protocol, ' + mode:<44} {steps:>6} steps {seconds:>8.2f} s {rate(steps, seconds):>9} steps/s")
    print(f"\nstart to hello {began:.2f} s\n\n{'in the loop':<12} {'calls':>7} {'total s':>9} {'mean ms':>9} {'longest ms':>11}")
    for name, spent in times.items():
        if spent:
            print(f"{name:<12} {len(spent):>7} {sum(spent):>9.3f} {1000 * sum(spent) / len(spent):>9.3f} {1000 * max(spent):>11.3f}")
    return 0


def started(named: str) -> Tuple[Program, float]:
    begun = time.perf_counter()
    program = Program(serving(named))
    return program, time.perf_counter() - begun


def rate(steps: int, seconds: float) -> str:
    return f"{steps / seconds:,.0f}" if seconds else "-"


def alone(make: Callable[[], World], chosen: Sequence[Task], most: int, say: Sequence[str]) -> Tuple[Tuple[int, float], Times]:
    """The random episodes in a bare loop: steps and seconds, and each call's time."""
    times: Times = {"make": [], "reset": [], "actions": [], "step": [], "close": []}

    def timed(name: str, do: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        try:
            return do()
        finally:
            times[name].append(time.perf_counter() - begun)

    world = timed("make", make)
    offsets: Dict[str, int] = defaultdict(int)
    at = 0
    for split in world.splits:
        some = world.tasks(split)
        if isinstance(some, int):
            offsets[split] = at
            at += some
    steps, begun = 0, time.perf_counter()
    fresh = False
    for split, task in chosen:
        if fresh:
            world = timed("make", make)
        world.split = split
        timed("reset", lambda: world.reset(offsets[split] + int(task) if split in offsets else task, 0))
        draw = random.Random(f"{split} {task} 0")
        for _ in range(most):
            options = timed("actions", lambda: list(world.actions())) if world.can("actions") else list(say)
            if not options:
                break
            action = draw.choice(options)
            view: View = timed("step", lambda: world.step(action))
            steps += 1
            if view.done:
                break
        fresh = not world.reuse
        if fresh:
            timed("close", world.close)
    took = time.perf_counter() - begun
    if not fresh:
        timed("close", world.close)
    return (steps, took), times
