"""The settings of the door."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Mapping, Union

from ..limits import clean, is_number

if TYPE_CHECKING:
    from typing import Self

LIMITS = ("memory_mb", "max_processes", "cpu_seconds", "disk_mb")
SANDBOX = ("network", "write_folder", "read", "hide", *LIMITS)
CONTAINERS = ("docker", "podman")
IMAGE = re.compile(r"(\w[\w./:@-]*)?\Z")
PYTHON = re.compile(r"python[\d.]*\Z")
SORTED = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


class Wrong(Exception):
    """The settings or the tasks are wrong. The text says what, where and what to do."""


def canonical(value: Any) -> str:
    """JSON that is the same for equal values."""
    return clean(SORTED.encode(value))


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


@dataclass(kw_only=True)
class Settings:
    """What all environments that ask have."""

    won_at: float = 1.0
    calls: int = 1000
    episode_seconds: float = 600.0
    live: int = 64
    parallel: bool = False
    name_model: str = "flow"
    passed: List[str] = field(default_factory=list)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The settings in an object."""
        given = {"passed" if name == "pass" else name: value for name, value in given.items() if value is not None}
        known = {each.name for each in dataclasses.fields(cls)}
        unknown = sorted(set(given) - known)
        if unknown:
            raise Wrong(f"there are no settings {unknown}; there are {', '.join(sorted(known - {'passed'} | {'pass'}))}")
        missing = sorted({each.name for each in dataclasses.fields(cls) if each.default is MISSING and each.default_factory is MISSING} - set(given))
        if missing:
            raise Wrong(f"`{missing[0]}` is missing")
        settings = cls(**given)
        settings.check()
        return settings

    def check(self) -> None:
        if not (isinstance(self.passed, list) and all(isinstance(name, str) for name in self.passed)):
            raise Wrong("`pass` is no list of texts")
        for name, least in (("calls", 1), ("live", 1), ("episode_seconds", 0.01), ("won_at", float("-inf"))):
            self.number(name, least, name in ("calls", "live"))
        if not isinstance(self.parallel, bool):
            raise Wrong("`parallel` is neither true nor false")
        self.texts("name_model")

    def number(self, name: str, least: float, whole: bool = False) -> None:
        value = getattr(self, name)
        if not is_number(value) or value < least or whole and not isinstance(value, int):
            raise Wrong(f"`{name}` is {value!r}")

    def texts(self, *names: str) -> None:
        for name in names:
            text = getattr(self, name)
            if not isinstance(text, str) or not text:
                raise Wrong(f"`{name}` is no text, or empty")


@dataclass(kw_only=True)
class SandboxSettings(Settings):
    """Of environments that run commands on this machine."""

    needs_image: ClassVar[bool] = True
    """Whether a container is of an image that the settings name."""
    sandbox: str = "none"
    image: str = ""
    """Of a container."""
    network: bool = False
    write_folder: bool = False
    """Whether commands may write into the folder that they run in."""
    read: List[str] = field(default_factory=list)
    hide: List[str] = field(default_factory=list)
    memory_mb: int = 4096
    max_processes: int = 512
    cpu_seconds: int = 3600
    disk_mb: int = 1024

    @property
    def contained(self) -> bool:
        """Whether commands run in containers, with an image's programs and not with this machine's."""
        return self.sandbox in CONTAINERS

    def runs(self, command: List[str], folder: str) -> None:
        """Raises `Wrong` where a command isn't found. In an image a trial finds that out."""
        if not self.contained:
            executable(command, folder)

    def check(self) -> None:
        super().check()
        if self.sandbox not in ("none", "bubblewrap", *CONTAINERS):
            raise Wrong(f'`sandbox` is {self.sandbox!r}; it is "none", "bubblewrap", "docker" or "podman"')
        if not isinstance(self.image, str) or not IMAGE.match(self.image):
            raise Wrong(f"`image` is {self.image!r}, which names no image")
        if self.image and not self.contained:
            raise Wrong("`image` is a setting of a container: say `sandbox: docker` or `sandbox: podman`")
        if self.contained and self.needs_image and not self.image:
            raise Wrong(f"`sandbox: {self.sandbox}` needs `image`, the name of an image with the program's packages and `python3`, such as `python:3.12-slim`")
        for name in ("network", "write_folder"):
            if not isinstance(getattr(self, name), bool):
                raise Wrong(f"`{name}` is neither true nor false")
        for name in ("read", "hide"):
            paths = getattr(self, name)
            if not (isinstance(paths, list) and all(isinstance(path, str) and path for path in paths)):
                raise Wrong(f"`{name}` is no list of paths")
        for name in LIMITS:
            self.number(name, 1, True)
        if self.sandbox == "none":
            fields = [each for each in dataclasses.fields(SandboxSettings) if each.name in SANDBOX]
            for each in fields:
                if getattr(self, each.name) != (each.default if each.default is not MISSING else []):
                    raise Wrong(f"`{each.name}` is a setting of a sandbox, and there is none: say `sandbox: bubblewrap`")


@dataclass(kw_only=True)
class ProgramSettings(SandboxSettings):
    command: List[str]
    tasks: str
    folder: str = "."
    reward: Union[str, Dict[str, Any]] = "output"
    start: str = "process"
    """`fork`: each episode is a fork of a process that has imported the packages of a program in Python."""

    @classmethod
    def of_json(cls, text: str) -> Self:
        try:
            given = json.loads(text)
        except ValueError as error:
            raise Wrong(f"after `program:` stands no JSON ({error}): {text[:80]}") from None
        if not isinstance(given, dict):
            raise Wrong('after `program:` an object is expected: {"command": ["python3", "my_agent.py"], "tasks": "tasks.jsonl"}')
        return cls.of(given)

    def check(self) -> None:
        self.texts("tasks", "folder")
        if not is_command(self.command):
            raise Wrong("`command` and `pass` are lists of texts")
        super().check()
        if not os.path.isdir(self.folder):
            raise Wrong(f"there is no folder {self.folder}")
        kinds = 'it is "output", "post", {"file": PATH} or {"command": [...]}'
        if isinstance(self.reward, dict):
            ((kind, value),) = self.reward.items() if len(self.reward) == 1 else (("", None),)
            if not (kind == "file" and isinstance(value, str) and value or kind == "command" and is_command(value)):
                raise Wrong(f"`reward` is {self.reward!r}; {kinds}")
        elif self.reward not in ("output", "post"):
            raise Wrong(f"`reward` is {self.reward!r}; {kinds}")
        self.runs(self.command, self.folder)
        if self.start not in ("process", "fork"):
            raise Wrong(f'`start` is {self.start!r}; it is "process" or "fork"')
        if self.start == "fork" and self.sandbox != "none":
            raise Wrong("`start: fork` isn't possible in a sandbox, because its forks would share one: say `start: process`")
        if self.start == "fork" and not (PYTHON.match(os.path.basename(self.command[0])) and len(self.command) > 1
                                         and (self.command[1].endswith(".py") or self.command[1] == "-m" and len(self.command) > 2)):
            raise Wrong('`start: fork` needs a `command` such as ["python3", "my_agent.py"] or ["python3", "-m", "my_agent"]')
        if isinstance(self.reward, dict) and "command" in self.reward:
            self.runs(self.reward["command"], self.folder)


def executable(command: List[str], folder: str) -> None:
    path = command[0] if os.sep not in command[0] else os.path.join(folder, command[0])
    if shutil.which(path) is None:
        raise Wrong(f"the program `{command[0]}` isn't found, or can't be executed")


def is_command(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value) and bool(value[0])
