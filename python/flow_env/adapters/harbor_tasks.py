"""Tasks in Harbor's format on disk: what they say, and the reward that their tests write."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import List, Optional, Tuple

from ..door import files, reward, strict
from ..door.settings import Wrong
from ..limits import INFO, NAME, TASK, Json, is_number

TEXT = 1 << 20
"""Files of at most so many bytes may be texts: rewards, and texts with paths that are rewritten."""
VERIFIER_SECONDS = 600.0
BUILD_SECONDS = 600.0
DAY = 86_400.0


def read(folder: Path, contained: bool = False) -> Json:
    """A task; raises `Wrong` where it needs a container and has none, or needs several."""
    try:
        about = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
        instruction = (folder / "instruction.md").read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Wrong(f"task.toml or instruction.md can't be read: {error}") from None
    if not TASK.match(folder.name):
        raise Wrong("its name isn't of 1 to 128 letters, digits and . _ / : + -")
    if not (folder / "tests" / "test.sh").is_file():
        raise Wrong("it has no tests/test.sh")
    verifier, environment = table(about, "verifier"), table(about, "environment")
    if about.get("steps"):
        raise Wrong("it has several steps")
    if "environment" in verifier:
        raise Wrong("task.toml names an environment of its own for the tests")
    if "docker_image" in environment and not contained:
        raise Wrong("task.toml names an image")
    if list((folder / "environment").glob("docker-compose*")):
        raise Wrong("environment/ has several containers")
    given = table(environment, "env")
    variables = {**given, **table(verifier, "env")}
    if not all(isinstance(value, str) and "${" not in value and "\0" not in name + value and name and "=" not in name for name, value in variables.items()):
        raise Wrong(f"task.toml has variables that aren't plain texts: {', '.join(variables)}")
    task = {"folder": str(folder), "instruction": instruction, "env": given, "verifier_env": variables, "seconds": seconds(verifier, "timeout_sec", VERIFIER_SECONDS)}
    image = environment.get("docker_image", "")
    if not isinstance(image, str):
        raise Wrong(f"`docker_image` of task.toml is {image!r}, which names no image")
    if contained:
        return {**task, "work": "/app", "image": image, "build_seconds": seconds(environment, "build_timeout_sec", BUILD_SECONDS)}
    work, copied = dockerfile(folder / "environment" / "Dockerfile")
    return {**task, "work": work, "copied": copied}


def table(about: Json, name: str) -> Json:
    found = about.get(name, {})
    if not isinstance(found, dict):
        raise Wrong(f"`{name}` of task.toml is {found!r} and no table")
    return found


def seconds(about: Json, name: str, otherwise: float) -> float:
    found = about.get(name, otherwise)
    if not is_number(found) or not 0 < found <= DAY:
        raise Wrong(f"`{name}` of task.toml is {found!r}; it is a number of seconds, above 0 and at most {DAY:g}")
    return float(found)


def dockerfile(path: Path) -> Tuple[str, bool]:
    """The working folder that a Dockerfile says, and whether the files beside it belong there."""
    if not path.is_file():
        return "/app", True
    work, copied = "/app", False
    text = re.sub(r"^\s*#.*\n?", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in re.sub(r"\\\s*\n", " ", text).splitlines():
        words = line.split()
        verb = words[0].upper() if words else "FROM"
        if verb == "WORKDIR" and len(words) == 2 and re.fullmatch(r"/[\w.-]+(/[\w.-]+)*/?", words[1]):
            work = words[1].rstrip("/")
        elif verb == "COPY" and words[1:] in ([".", "."], [".", "./"], [".", work], [".", work + "/"]):
            copied = True
        elif verb != "FROM":
            raise Wrong(f"environment/Dockerfile has `{line.strip()[:80]}`: only FROM, WORKDIR and `COPY . .` are possible without `sandbox=docker` or `sandbox=podman`")
    return work, copied


def written(text: str, table: str) -> Optional[Json]:
    """The reward in a file with a number, or in one with numbers by name, of which `reward` or the only one counts; the others are `info`."""
    said = reward.of_file(text)
    try:
        given = None if said is not None else files.read(table, TEXT)
        if given is None:
            return said
        numbers = strict.loads(given)
    except files.Odd as odd:
        raise reward.NoReward(f"/logs/verifier/reward.json {odd}") from None
    except ValueError as error:
        raise reward.NoReward(f"/logs/verifier/reward.json is no JSON: {error}") from None
    name = "reward" if not isinstance(numbers, dict) or "reward" in numbers or len(numbers) != 1 else next(iter(numbers))
    if not isinstance(numbers, dict) or not is_number(numbers.get(name)):
        raise reward.NoReward(f"/logs/verifier/reward.json has no number `reward`: {str(numbers)[:120]}")
    others: List[Tuple[str, float]] = [(key, value) for key, value in numbers.items() if key != name and NAME.match(key) and is_number(value)]
    return {"reward": numbers[name], "info": dict(others[:INFO])}
