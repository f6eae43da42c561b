"""Python's arguments as those of the program."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import yaml_text
from .pipeline import Pipeline
from .written import written

PathLike = Union[str, "os.PathLike[str]"]
Settings = Union[Mapping[str, Any], Iterable[str], None]


def flags(**given: Any) -> List[str]:
    """`--name=value` for each value that is given, `--name` for True; underscores are hyphens."""
    made = []
    for name, value in given.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            made.append(flag)
        elif value is not None and value is not False:
            made.append(f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return made


def sets(settings: Settings) -> List[str]:
    """`--set` for each override: of a dict from paths to values, or of texts such as `nodes.update.with.lr=1e-4`."""
    if isinstance(settings, str):
        raise TypeError(f"set is a dict or a list of texts: write set=[{settings!r}]")
    return [f"--set={one}" for one in (assignments(settings) if isinstance(settings, Mapping) else settings or ())]


def assignments(settings: Mapping[str, Any]) -> List[str]:
    made = Pipeline()._plain(settings)
    return [f"{path}={yaml_text.inline(value)}" for path, value in made.items()]


def grids(grid: Settings) -> List[str]:
    """`--grid` for each setting: of a dict from paths to lists of values, or of texts such as `nodes.update.with.lr=1e-4,1e-3`."""
    if isinstance(grid, Mapping):
        return [f"--grid={path}=" + ",".join(yaml_text.inline(Pipeline()._plain(value)) for value in values) for path, values in grid.items()]
    return [f"--grid={one}" for one in grid or ()]


def seeds(given: "Union[int, Sequence[int], None]") -> Optional[str]:
    return None if given is None else ",".join(map(str, [given] if isinstance(given, int) else given))


@contextlib.contextmanager
def file_of(pipeline: "Union[Pipeline, PathLike]") -> Iterator[Tuple[str, Dict[str, str]]]:
    """The file of a pipeline that is a path, a `Pipeline` or YAML text; and how messages name it, if it is a temporary one."""
    if isinstance(pipeline, Pipeline):
        with pipeline._written() as path:
            yield str(path), names(path, f"<pipeline {pipeline.name}>")
    elif isinstance(pipeline, str) and "\n" in pipeline:
        with written(Path("."), "pipeline", pipeline, {}) as path:
            yield str(path), names(path, "<pipeline>")
    else:
        yield os.fspath(pipeline), {}


def names(path: Path, name: str) -> Dict[str, str]:
    return {str(path): name, path.name: name}
