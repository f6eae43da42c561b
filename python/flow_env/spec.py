"""From what a command line names to an environment: MODULE, MODULE:CLASS, FILE.py, FILE.py:CLASS, or ADAPTER:ARGUMENTS."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Dict, List, NamedTuple, Optional, Type

from . import words
from .world import World

if TYPE_CHECKING:
    from .door.world import World as Asking


class Adapter(NamedTuple):
    module: str
    arguments: str
    about: str
    asks: bool = False
    """Whether it speaks protocol 3; `module` is then the whole name within the package."""


def adapters() -> Dict[str, Adapter]:
    """The adapters, as `adapters.json` lists them for flow, too; and the one for agent programs."""
    listed = json.loads((Path(__file__).parent / "adapters.json").read_text(encoding="utf-8"))
    every = {name: (f"adapters.{name}" if of["acts"] == "answers" else name.replace("-", "_"), of) for name, of in listed.items()}
    known = {name: Adapter(module, of["arguments"], of["about"], of["acts"] == "answers") for name, (module, of) in every.items()}
    return {**known, "program": Adapter("door.server", '{"command": [...], "tasks": FILE}', "Any program that calls a language model over HTTP.", True)}


ADAPTERS = adapters()


SLOW = ("scienceworld", "textworld", "alfworld")
"""Adapters whose words aren't gathered when they start, because playing takes too long: a file keeps them, or none are named."""


class Unknown(Exception):
    """The specification names no environment; the text says why and what to do."""


def world(spec: str) -> Callable[[], World]:
    """What makes the environments that a specification names. Importing happens here and prints go to standard error."""
    head, _, rest = spec.partition(":")
    if head in ADAPTERS:
        if ADAPTERS[head].asks:
            raise Unknown(f"`{head}` speaks protocol 3: only `flow-env serve` and flow itself play it")
        return functools.partial(imported(head, f"adapters.{ADAPTERS[head].module}").WORLD, rest)
    module = load(head)
    return pick(module, rest or None)


def asking(spec: str) -> "Optional[Callable[[], Asking]]":
    """What makes the environment that a specification names, where that is one that asks (protocol 3)."""
    head, _, rest = spec.partition(":")
    if head not in ADAPTERS or not ADAPTERS[head].asks:
        return None
    return functools.partial(imported(head, ADAPTERS[head].module).WORLD, rest)


def imported(head: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(f"flow_env.{module}")
    except ImportError as error:
        raise Unknown(f"`{head}` needs a package that isn't here ({error}); flow_env/requirements/{head}.txt pins all of them") from error


def load(name: str) -> ModuleType:
    """A module by its name or its file."""
    if name.endswith(".py") or os.sep in name:
        path = Path(name)
        if not path.is_file():
            raise Unknown(f"there is no file {name}")
        module_spec = importlib.util.spec_from_file_location(re.sub(r"\W", "_", path.stem), path)
        if module_spec is None or module_spec.loader is None:
            raise Unknown(f"{name} is no Python file")
        sys.path.insert(0, str(path.parent.resolve()))
        module = importlib.util.module_from_spec(module_spec)
        sys.modules[module_spec.name] = module
        module_spec.loader.exec_module(module)
        return module
    if not re.fullmatch(r"\w+(\.\w+)*", name):
        raise Unknown(f"`{name}` is neither a module nor one of the adapters {', '.join(ADAPTERS)}")
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".")[0] and error.name != name:
            raise
        raise Unknown(f"there is no module `{name}` here, and no adapter of that name ({', '.join(ADAPTERS)})") from error


def pick(module: ModuleType, name: Optional[str]) -> Callable[[], World]:
    """The environment of a module: the one named, or the only one that it defines."""
    if name is not None:
        factory = getattr(module, name, None)
        if not callable(factory):
            raise Unknown(f"`{module.__name__}` has no environment `{name}`")
        return factory  # type: ignore[no-any-return]
    worlds: List[Type[World]] = [
        value for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, World) and value is not World and value.__module__ == module.__name__
    ]
    if len(worlds) != 1:
        names = ", ".join(value.__name__ for value in worlds) or "none"
        raise Unknown(f"`{module.__name__}` should have one subclass of World, or the one meant be named after a colon; it has {names}")
    return worlds[0]


def vocabulary(spec: str) -> Optional[List[str]]:
    """The words of an environment's texts: those kept with an adapter, or else of a few episodes. None where playing takes too long."""
    folder = Path(__file__).parent / "adapters" / "words"
    for name in (spec, spec.partition(":")[0]):
        path = folder / (re.sub(r"[^\w.-]", "_", name) + ".txt")
        if path.is_file():
            return path.read_text(encoding="utf-8").split("\n")[:-1]
    head = spec.partition(":")[0]
    if head in SLOW:
        return None
    return words.of_world(world(spec), *((4, 8) if head in ADAPTERS else ()))
