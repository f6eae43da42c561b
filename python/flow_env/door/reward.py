"""The reward that a program has printed, written, posted, or that a checking command has printed."""

from __future__ import annotations

import re
from typing import Any, Optional, Union

from ..limits import INFO, NAME, Json, is_number, is_single
from . import files, strict

FIELDS = {"reward", "won", "score", "info"}
LINE = 4096
"""So many characters at the end of a last line may hold the reward, where other text stands before it."""


class NoReward(Exception):
    """No reward was said, or a wrong one."""


def read(value: Any, where: str) -> Json:
    """A reward: a number, or an object with `reward` and perhaps `won`, `score` and `info`."""
    said = {"reward": value} if is_number(value) else value
    if not isinstance(said, dict) or not is_single(said.get("reward")):
        raise NoReward(f'{where} is no reward, such as {{"reward": 1.0, "won": true}}: {str(value)[:120]}')
    said = {name: part for name, part in said.items() if part is not None}
    unknown = sorted(set(said) - FIELDS)
    if unknown:
        raise NoReward(f"{where} has unknown fields {unknown[:5]}; there are {', '.join(sorted(FIELDS))}")
    if not isinstance(said.get("won", False), bool) or not is_single(said.get("score", 0)):
        raise NoReward(f"{where}: `won` is true or false, `score` a finite number: {str(value)[:120]}")
    info = said.get("info", {})
    if not isinstance(info, dict) or len(info) > INFO or not all(NAME.match(name) and is_number(part) for name, part in info.items()):
        raise NoReward(f"{where}: `info` isn't an object of at most {INFO} finite numbers with names such as `steps_left`")
    return said


def of_text(text: str, where: str) -> Optional[Json]:
    """The reward in the last line of a text that isn't empty. None where that line is no reward at all."""
    lines = [line for line in text.splitlines() if line.strip()]
    value = ending(lines[-1]) if lines else None
    if isinstance(value, dict) and "reward" in value or isinstance(value, (int, float)) and not isinstance(value, bool):
        return read(value, where)
    return None


def ending(line: str) -> Any:
    """The value of a line or, where a library has drawn before it without a line's end, the object with a reward at its end."""
    try:
        return strict.loads(line)
    except ValueError:
        pass
    end = line.rstrip()[-LINE:]
    for brace in re.finditer(r'\{\s*"', end):
        try:
            value = strict.loads(end[brace.start():])
        except ValueError:
            continue
        if "reward" in value:
            return value
    return None


def last_line(output: Union[bytes, bytearray]) -> str:
    """What a program printed last, to be added to an error."""
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return f": the last line of its output is {lines[-1][:200]!r}" if lines else ": its output is empty"


def of_file(path: str) -> Optional[Json]:
    """The reward in a file; None where there is none."""
    try:
        text = files.read(path, 1 << 16)
    except files.Odd as odd:
        raise NoReward(f"{path} {odd}, and no reward is read from it") from None
    if text is None:
        return None
    try:
        value = strict.loads(text)
    except ValueError:
        said = of_text(text, path)
        if said is None:
            raise NoReward(f"{path} has no reward: {text[:120]!r}") from None
        return said
    return read(value, path)


def agreed(said: Optional[Json], posted: Optional[Json], lacking: str) -> Json:
    """The one reward of both ways in which it may come."""
    if said is not None and posted is not None and said["reward"] != posted["reward"]:
        raise NoReward(f"two rewards that differ: {said['reward']:g} was printed, {posted['reward']:g} posted")
    if said is None and posted is None:
        raise NoReward(lacking)
    return {**(posted or {}), **(said or {})}
