"""A pipeline that is built in Python, and prints as the YAML that it is."""

from __future__ import annotations

import contextlib
import os
import types
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Union

from . import yaml_text
from .cell import CodeFile, call_of
from .written import written

Json = Dict[str, Any]


class Name(str):
    """The name of a model, an agent or a node, for the nodes that use it."""


def after(node: str, staleness: Optional[int] = None) -> Json:
    """A delayed edge: what `node` made in the iteration before, or with `staleness` up to so many iterations earlier. In a loop: in the attempt before."""
    return {"after": str(node)} if staleness is None else {"after": str(node), "staleness": staleness}


class Nodes:
    """A map of nodes: those of a pipeline, or those of a loop."""

    def __init__(self, pipeline: "Pipeline", source: Json) -> None:
        self._pipeline, self.source = pipeline, source

    def node(self, name: str, made: Optional[Mapping[str, Any]] = None, /, *, op: Optional[str] = None, inputs: Any = None,
             function: Any = None, imports: Optional[str] = None, **settings: Any) -> Name:
        """Adds a node.

        `op` is its operator and `settings` are that operator's own; or `made` has both, as `flow.ops.rollout(...)` returns them. `inputs` is a node, or
        a dict from the operator's inputs to nodes and `flow.after(...)`. `function` is a function of this notebook for `op="python"`, and `imports` has
        the import statements that it needs. A `None` is written as null, which takes a setting away from a pipeline that this one is `like`."""
        node: Json = {}
        given = dict(made or {})
        if op is not None:
            given["op"] = op
        if inputs is not None:
            given["inputs"] = inputs
        if function is not None:
            settings = {"call": function, **settings}
        own = given.pop("with", None)
        if settings:
            own = {**(own or {}), **settings}
        for key in ("op", "inputs"):
            if key in given:
                node[key] = self._pipeline._plain(given.pop(key), imports)
        node.update(self._pipeline._plain(given, imports))
        if own is not None:
            node["with"] = self._pipeline._plain(own, imports)
        return self._add(name, node)

    def _add(self, name: str, node: Json) -> Name:
        self.source.setdefault("nodes", {})[str(name)] = node
        return Name(name)


class Loop(Nodes, Name):
    """A loop: its nodes attempt the same tasks repeatedly. Other nodes use it as one node."""

    def __new__(cls, pipeline: "Pipeline", name: str, source: Json) -> "Loop":
        return Name.__new__(cls, name)

    def __init__(self, pipeline: "Pipeline", name: str, source: Json) -> None:
        Nodes.__init__(self, pipeline, source)

    def output(self, *nodes: str) -> None:
        """Names the nodes whose rows are the loop's."""
        self.source["output"] = str(nodes[0]) if len(nodes) == 1 else [str(node) for node in nodes]


class Pipeline(Nodes):
    """A pipeline under construction. `source` is a plain dict, which may be changed in any way that YAML could be.

    `folder` is the folder that its paths are relative to: the working folder unless given. `like` names another pipeline's file: this one has only the
    differences. Further keywords are keys of the file, such as `about` and `keep`."""

    def __init__(self, name: Optional[str] = None, *, like: Union[str, "os.PathLike[str]", None] = None, iterations: Optional[int] = None,
                 seed: Optional[int] = None, folder: Union[str, "os.PathLike[str]"] = ".", **keys: Any) -> None:
        given = {"like": like, "flow": name, "iterations": iterations, "seed": seed, **keys}
        self.folder = Path(folder)
        self._code: Dict[str, CodeFile] = {}
        super().__init__(self, self._plain({key: value for key, value in given.items() if value is not None}))

    @classmethod
    def from_dict(cls, source: Mapping[str, Any], folder: Union[str, "os.PathLike[str]"] = ".") -> "Pipeline":
        """The pipeline of a dict that has the keys of its file."""
        made = cls(folder=folder)
        made.source = made._plain(source)
        return made

    @property
    def name(self) -> str:
        return str(self.source.get("flow", "pipeline"))

    def __repr__(self) -> str:
        return f"<pipeline {self.name}: {', '.join(self.source.get('nodes') or {}) or 'no nodes'}>"

    def model(self, name: str, /, **settings: Any) -> Name:
        """Adds a model: `new="tiny"`, `load="runs/NAME"`, ..."""
        return self._named("models", name, settings)

    def agent(self, name: str, /, **settings: Any) -> Name:
        """Adds an agent: how a model acts, for the nodes that name it."""
        return self._named("agents", name, settings)

    def loop(self, name: str, /, attempts: int, until: str, output: Any = None) -> Loop:
        """Adds a loop of at most so many `attempts` at each task, `until="won"` or `"never"`. Its own `node` adds the nodes of an attempt, and `output`
        names the nodes whose rows are the loop's."""
        source: Json = {"loop": {"attempts": attempts, "until": until}, "nodes": {}}
        self._add(name, source)
        made = Loop(self, name, source)
        if output is not None:
            made.output(*([output] if isinstance(output, str) else output))
        return made

    def log(self, *nodes: str) -> None:
        """Names the nodes whose rows are kept, beside those named before."""
        logged = self.source.setdefault("log", [])
        logged.extend(str(node) for node in nodes if str(node) not in logged)

    def to_yaml(self) -> str:
        """The pipeline's file."""
        return yaml_text.document(self._ordered())

    def save(self, path: Union[str, "os.PathLike[str]"]) -> Path:
        """Writes the pipeline's file, and beside it the files of its functions. Paths in it are then relative to that file's folder."""
        path = Path(path)
        for name, code in self._code.items():
            (path.parent / name).write_text(code.text, encoding="utf-8")
        path.write_text(self.to_yaml(), encoding="utf-8")
        return path

    @contextlib.contextmanager
    def _written(self) -> Iterator[Path]:
        """The pipeline's file and those of its functions, in its folder for as long as the program needs them."""
        used = self.to_yaml()
        code = {name: one.text for name, one in self._code.items() if name in used}
        with written(self.folder, self.name, used, code) as path:
            yield path

    def _ordered(self) -> Json:
        """The source in the order of the repository's pipelines."""
        order = ["like", "flow", "about", "iterations", "seed", "models", "agents", "nodes", "log", "keep", "tests"]
        source = {key: self.source[key] for key in order if key in self.source}
        source.update((key, value) for key, value in self.source.items() if key not in source)
        return source

    def _named(self, part: str, name: str, settings: Mapping[str, Any]) -> Name:
        self.source.setdefault(part, {})[str(name)] = self._plain(settings)
        return Name(name)

    def _plain(self, value: Any, imports: Optional[str] = None) -> Any:
        """A value as YAML has it: names are texts, tuples are lists, and a function is the file and the name by which the program finds it."""
        if isinstance(value, Mapping):
            return {str(key) if isinstance(key, str) else key: self._plain(one, imports) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._plain(one, imports) for one in value]
        if isinstance(value, str):
            return str(value)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, types.FunctionType):
            call, code = call_of(value, imports, self.folder)
            if code is not None:
                self._code[code.name] = code
            return call
        # Numbers of numpy and the like.
        if not isinstance(value, (bool, int, float, type(None))) and hasattr(value, "item"):
            return value.item()
        return value
