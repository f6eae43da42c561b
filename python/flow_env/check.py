"""Holds a program against the protocol and against what flow relies on."""

from __future__ import annotations

import random
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from . import limits
from .client import Broken, Program
from .limits import Json
from .play import Played, Task, plain, play, tasks

FREE = ["look", "help", "yes", "1", "I don't know."]
"""What is said to an environment whose actions are free text, when nobody says what may be said."""
WILD = ["", " ", "\n", "\x00", "no such action", "🦆" * 50, "a" * 20_000, '{"request":"close"}', "\u202e", "../../etc/passwd"]


class Findings:
    """What was found, printed as it comes."""

    def __init__(self) -> None:
        self.bad = 0

    def tell(self, name: str, wrong: Sequence[str], fine: str) -> None:
        """One check: what is wrong with it, or what it found in order."""
        if wrong:
            self.bad += 1
            print(f"FAILED  {name}: {wrong[0]}" + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""), flush=True)
        else:
            print(f"ok      {name}: {fine}", flush=True)

    def note(self, name: str, text: str) -> None:
        print(f"note    {name}: {text}", flush=True)


def check(command: Sequence[str], many: int, most: int, say: Sequence[str]) -> int:
    """Prints one line a check; gives 0 if all passed."""
    findings = Findings()
    running: List[Program] = []

    def start() -> Program:
        running.append(Program(command))
        return running[-1]

    try:
        first = start()
        hello = first.hello
        splits = ", ".join(f"{name} {len(some) if isinstance(some, list) else some}" for name, some in hello["splits"].items())
        can = hello.get("abilities") or []
        findings.tell("hello", [], f"{hello.get('world') or 'an environment'}; tasks: {splits}; abilities: {', '.join(can) or 'none'}; "
                   f"live: {hello.get('live') or 'any number'}; {len(hello.get('words') or [])} words")
        chosen = tasks(hello, many)
        free = "actions" not in can
        if free and not say:
            findings.note("actions", f"this environment lists none: they are free text. Said here: {', '.join(FREE)} (--say FILE names better ones, one a line)")
            say = FREE
        same = play(first, chosen, "random", most, 1, say=say)
        wrong = failed(same)
        findings.tell("answers", wrong, f"{len(chosen)} episodes, {same.steps()} steps at random, every answer as the protocol says")
        texts(findings, same)
        valid(findings, same, free)
        if wrong:
            findings.note("not tried", "whatever else is played: episodes fail (see `answers`)")
        else:
            again(findings, start, first, same, chosen, most, say)
        findings.tell("refusals", refusals(first, chosen[0]), "an unknown split, task or request, a closed or unknown episode: each an error, no more")
        if not wrong:
            odd = wild(first, chosen[0], say)
            if first.asks and odd:
                findings.note("any text", f"{len(odd)} of {len(WILD)} odd answers fail their episodes, which is the program's own business: {odd[0]}")
            else:
                findings.tell("any text", odd, f"{len(WILD)} odd actions, and it goes on")
        status, took, left = first.end()
        late = [] if status is not None else ["it still ran 6 s after its input had ended"]
        late += [f"its exit status is {status}"] if status else []
        late += [f"processes {left} of its group were left behind"] if left else []
        findings.tell("end of input", late, f"it ended in {took:.1f} s and left nothing behind")
    except Broken as error:
        findings.tell("protocol", [str(error)], "")
    finally:
        for program in running:
            program.end(0.5) if program.child.poll() is None else None
    print(f"{findings.bad} failed" if findings.bad else "all passed")
    return 1 if findings.bad else 0


def again(
    findings: Findings, start: Callable[[], Program], first: Program, same: Played, chosen: Sequence[Task], most: int, say: Sequence[str]
) -> None:
    """What is checked by playing once more, which says something only of episodes that didn't fail."""
    can, live = first.hello.get("abilities") or [], first.hello.get("live")
    states(findings, same)
    if first.hello.get("parallel"):
        findings.note("deterministic", "calls of an episode may overlap, so their order says nothing and isn't compared")
    elif first.hello.get("deterministic", True):
        findings.tell("deterministic", differing(same, play(first, chosen, "random", most, 1, say=say)), "the same rows when played again")
        backwards = play(start(), chosen[::-1], "random", most, live or 8, say=say)
        backwards = Played(backwards.rows[::-1], backwards.expert[::-1])
        findings.tell("another process", differing(same, backwards), f"the same rows, {live or 8} at a time and in the reverse order")
    else:
        findings.note("deterministic", "it says that it isn't: an episode can't be played again, and runs aren't repeatable")
    seen = [same]
    if "expert" in can:
        seen.append(advised(findings, first, chosen, most, say))
    earned(findings, seen)
    if "rollback" in can:
        findings.tell("rollback", rolled(first, chosen[0], say), "the same view as before, and the same step after it")
    if "copy" in can and (live or 2) > 1:
        findings.tell("copy", copied(first, chosen[0], say), "the same view, and each goes on apart")


def name(task: Task) -> str:
    return f"{task[0]}/{task[1]}"


def failed(played: Played) -> List[str]:
    return [f"{name((rows[-1].split, rows[-1].task))} failed in turn {rows[-1].turn}: {rows[-1].answer['error']}"
            for rows in played.rows if "error" in rows[-1].answer]


def differing(first: Played, second: Played) -> List[str]:
    wrong = []
    for a, b in zip(first.rows, second.rows):
        for x, y in zip(a, b):
            one, other = plain(x.answer), plain(y.answer)
            if one != other or x.action != y.action:
                fields = [field for field in {**one, **other} if one.get(field) != other.get(field)]
                field = fields[0] if fields else "action"
                wrong.append(f"{name((x.split, x.task))}, turn {x.turn}: `{field}` is {short(one.get(field))} and then {short(other.get(field))}")
                break
        else:
            if len(a) != len(b):
                wrong.append(f"{name((a[0].split, a[0].task))} has {len(a)} turns and then {len(b)}")
    return wrong


def short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 160 else text[:160] + "…"


def texts(findings: Findings, played: Played) -> None:
    wrong, longest = [], 0
    for rows in played.rows:
        for row in rows:
            observation = str(row.answer.get("observation", ""))
            longest = max(longest, len(observation.encode()))
            odd = [c for c in observation if ord(c) < 32 and c not in "\n\t" or ord(c) == 127]
            if odd:
                wrong.append(f"{name((row.split, row.task))}, turn {row.turn}: the observation has the control character {odd[0]!r}")
    findings.tell("text", wrong, f"valid UTF-8 without control characters; the longest observation has {longest} bytes")


def valid(findings: Findings, played: Played, free: bool) -> None:
    done = [row for rows in played.rows for row in rows[1:] if "error" not in row.answer]
    refused = [row for row in done if row.answer.get("valid") is False]
    if free:
        findings.note("actions", f"{len(refused)} of {len(done)} free texts were refused")
        return
    findings.tell("actions", [f"{name((row.split, row.task))}, turn {row.turn}: `{row.action}` was listed and refused" for row in refused],
               f"{len(done)} listed actions carried out, none refused")


def states(findings: Findings, played: Played) -> None:
    """Rows of one state are compared with each other, so one state should offer the same actions."""
    wrong, again = [], 0
    half = [rows for rows in played.rows if not rows[0].answer.get("state") and any(row.answer.get("state") for row in rows[1:])]
    if half:
        rows = half[0]
        findings.tell("states", [f"{name((rows[0].split, rows[0].task))}: the answer to a step has a `state`, and that to the reset has none, so "
                              "what is seen first counts as another state when it is seen again: give `state` after a reset too"], "")
        return
    for rows in played.rows:
        known: Dict[str, Optional[Tuple[str, ...]]] = {}
        for row in rows:
            if "observation" not in row.answer or row.answer.get("done"):
                continue
            state = str(row.answer.get("state") or row.answer["observation"])
            listed = row.answer.get("actions")
            actions = tuple(sorted(listed)) if listed is not None else None
            if state in known:
                again += 1
                if known[state] != actions:
                    wrong.append(f"{name((row.split, row.task))}, turn {row.turn}: a state seen before, and other actions")
            known[state] = actions
    if wrong:
        findings.note("states", f"{len(wrong)} of {again} states seen again offer other actions than before, so that rows are grouped that "
                   f"aren't alike (give `state`): {wrong[0]}")
    else:
        findings.tell("states", [], f"{again} seen again, each with the same actions")


def earned(findings: Findings, played: Sequence[Played]) -> None:
    """Whether any episode was won: a policy that never wins has little to learn from, and none where all episodes earn the same."""
    episodes = [rows for some in played for rows in some.rows]
    if any(rows[-1].answer.get("won") for rows in episodes):
        return
    returns = sorted(sum(float(row.answer.get("reward") or 0) for row in rows) for rows in episodes)
    if returns[0] == returns[-1]:
        earning = f"and each earned {returns[0]:g}: from such episodes nothing can be learnt"
    else:
        earning = f"returns go from {returns[0]:g} to {returns[-1]:g}"
    findings.note("rewards", f"no episode of {len(episodes)} was won, {earning}")


def advised(findings: Findings, program: Program, chosen: Sequence[Task], most: int, say: Sequence[str]) -> Played:
    played = play(program, chosen, "expert", max(most, 200), 1, lists="actions" in (program.hello.get("abilities") or []), say=say)
    by = [rows for rows, expert in zip(played.rows, played.expert) if expert]
    won = sum(bool(rows[-1].answer.get("won")) for rows in by)
    outside = sum(row.action not in (before.answer.get("actions") or [row.action]) for rows in by for before, row in zip(rows, rows[1:]))
    findings.tell("expert", failed(played), f"plays {len(by)} of {len(chosen)} episodes to their end and wins {won}; {outside} of its "
               f"{sum(len(rows) - 1 for rows in by)} actions aren't on the list")
    return played


def reset(program: Program, task: Task, number: int) -> Json:
    listed = "full" if "actions" in (program.hello.get("abilities") or []) else None
    return program.ask({"request": "reset", "episode": number, "split": task[0], "task": task[1], "seed": 1, "actions": listed})[0]


def walk(program: Program, number: int, view: Json, steps: int, say: Sequence[str]) -> List[Tuple[str, Json]]:
    """Some steps at random that don't end the episode."""
    draw, done = random.Random(0), []
    listed = "full" if "actions" in (program.hello.get("abilities") or []) else None
    for _ in range(steps):
        options = view.get("actions") or list(say)
        if not options or view.get("done") or "error" in view:
            break
        action = draw.choice(options)
        view = program.ask({"request": "step", "episode": number, "action": action, "actions": listed})[0]
        done.append((action, view))
    return done


def alike(first: Json, second: Json) -> bool:
    hidden = ("reward", "episode")
    strip: Callable[[Json], Json] = lambda view: {k: v for k, v in plain(view).items() if k not in hidden and v is not False}
    return strip(first) == strip(second)


def rolled(program: Program, task: Task, say: Sequence[str]) -> List[str]:
    view = reset(program, task, 900)
    done = walk(program, 900, view, 4, say)
    if not done:
        return []
    listed = "full" if "actions" in (program.hello.get("abilities") or []) else None
    steps = max(1, len(done) // 2)
    back = program.ask({"request": "rollback", "episode": 900, "steps": steps, "actions": listed})[0]
    then = done[-steps - 1][1] if steps < len(done) else view
    wrong = [] if alike(back, then) else [f"after {len(done)} steps and {steps} back it shows {short(plain(back))}, where it was {short(plain(then))}"]
    again = program.ask({"request": "step", "episode": 900, "action": done[-steps][0], "actions": listed})[0]
    wrong += [] if alike(again, done[-steps][1]) else [f"the step after it gives {short(plain(again))} and not {short(plain(done[-steps][1]))}"]
    program.ask({"request": "close", "episode": 900})
    return wrong


def copied(program: Program, task: Task, say: Sequence[str]) -> List[str]:
    view = reset(program, task, 900)
    done = walk(program, 900, view, 3, say)
    now = done[-1][1] if done else view
    listed = "full" if "actions" in (program.hello.get("abilities") or []) else None
    copy = program.ask({"request": "copy", "episode": 901, "from": 900, "actions": listed})[0]
    wrong = [] if alike(copy, now) else [f"the copy shows {short(plain(copy))}, where the episode shows {short(plain(now))}"]
    if not now.get("done"):
        first = walk(program, 900, now, 3, say)
        second = walk(program, 901, copy, 3, say)
        wrong += [] if all(alike(a[1], b[1]) for a, b in zip(first, second)) else ["the same steps in both show something else"]
    program.ask({"request": "close", "episode": 900}, {"request": "close", "episode": 901})
    return wrong


def refusals(program: Program, task: Task) -> List[str]:
    split, first = task
    wrong = []
    closed: List[Json] = [{"request": "close", "episode": 77}, {"request": "close", "episode": 77}]
    if any("error" in answer for answer in program.ask(*closed)):
        wrong.append("closing what isn't open gives an error")
    requests: List[Tuple[str, Json]] = [
        ("an unknown split", {"request": "reset", "episode": 5, "split": "no_such", "task": first, "seed": 0}),
        ("an unknown task", {"request": "reset", "episode": 5, "split": split, "task": "no such task", "seed": 0}),
        ("a step of no episode", {"request": "step", "episode": 5, "action": "x"}),
        ("an expert of no episode", {"request": "expert", "episode": 5}),
    ]
    for what, request in requests:
        answer = program.ask(request)[0]
        if "error" not in answer:
            wrong.append(f"{what} gives no error but {short(answer)}")
    reset(program, task, 5)
    program.ask({"request": "close", "episode": 5})
    if "error" not in program.ask({"request": "step", "episode": 5, "action": "x"})[0]:
        wrong.append("a step of a closed episode gives no error")
    live = program.hello.get("live")
    if live and (live <= 8 or not program.asks):
        for number in range(live):
            reset(program, task, 1000 + number)
        if live <= 8 and "error" not in reset(program, task, 2000):
            wrong.append(f"{live} episodes are live, and one more begins")
        program.ask(*({"request": "close", "episode": number} for number in [*range(1000, 1000 + live), 2000]))
    return wrong


def wild(program: Program, task: Task, say: Sequence[str]) -> List[str]:
    wrong = []
    for action in WILD:
        view = reset(program, task, 6)
        if "error" in view:
            return [f"the reset fails: {view['error']}"]
        answer = program.ask({"request": "step", "episode": 6, "action": action})[0]
        if "error" in answer:
            wrong.append(f"the action {short(action)} fails the episode: {answer['error']}")
        program.ask({"request": "close", "episode": 6})
    return wrong
