"""The program's verbs as functions: they start the program, wait for it and return what it made."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import errors
from .arguments import PathLike, Settings, file_of, flags, grids, seeds as seeds_flag, sets
from .pipeline import Pipeline
from .process import Ended, execute
from .rows import Rows
from .runs import Run

AnyPipeline = Union[Pipeline, PathLike]


class Text(str):
    """A text that a notebook shows as it is printed."""

    def __repr__(self) -> str:
        return str(self).rstrip("\n")


def check(pipeline: AnyPipeline, set: Settings = None, *, show_prompt: bool = False, device: Optional[str] = None) -> Text:
    """Checks a pipeline before anything runs. Returns the program's summary, with `show_prompt` also each playing node's first prompt; raises
    `flow.Error` with all `mistakes`."""
    with file_of(pipeline) as (file, names):
        arguments = [*sets(set), *flags(show_prompt=show_prompt, device=device), "--", file]
        ended = execute(["check", *arguments])
        if ended.code == 0:
            return Text(errors.renamed(text(ended), names))
        mistakes = parsed(execute(["check", "--format=json", *arguments]))
        if mistakes:
            raise errors.from_json(mistakes, ended.code, ended.err, names)
        raise errors.from_output(ended.err, ended.code, names)


def run(pipeline: AnyPipeline, out: Optional[PathLike] = None, set: Settings = None, workers: Optional[int] = None, *,
        seeds: Union[int, Sequence[int], None] = None, grid: Union[Mapping[str, Sequence[Any]], Sequence[str], None] = None, dry_run: bool = False,
        hosts: Optional[PathLike] = None, process: Optional[int] = None, threads: Optional[int] = None, device: Optional[str] = None,
        ranks: Optional[int] = None, stall: Optional[int] = None, view: bool = False, progress: bool = True) -> Any:
    """Trains, and returns the `Run`; a list of them with `seeds` or `grid`.

    `pipeline` is a path, a `flow.Pipeline`, or YAML text with newlines. `set` overrides values: `{"nodes.update.with.lr": 1e-4}`. The other arguments
    are the flags of `flow run`. With `dry_run` it makes the models, stops before the first iteration and returns the program's text. The progress is
    shown unless `progress` is False. An interrupt stops the run after its iteration, a second one at once; `flow.resume` goes on."""
    machine = flags(workers=workers, hosts=hosts, process=process, threads=threads, device=device, ranks=ranks, stall=stall, view=view)
    arguments = [*sets(set), *flags(out=out, seeds=seeds_flag(seeds), dry_run=dry_run), *grids(grid), *machine]
    with file_of(pipeline) as (file, names):
        return trained(["run", "--format=json", *arguments, "--", file], progress, names)


def resume(run: PathLike, *, iterations: Optional[int] = None, workers: Optional[int] = None, hosts: Optional[PathLike] = None,
           process: Optional[int] = None, threads: Optional[int] = None, device: Optional[str] = None, ranks: Optional[int] = None,
           stall: Optional[int] = None, view: bool = False, progress: bool = True) -> Any:
    """Continues a run that was stopped or killed, up to `iterations` if given, and returns the `Run`."""
    machine = flags(workers=workers, hosts=hosts, process=process, threads=threads, device=device, ranks=ranks, stall=stall, view=view)
    return trained(["resume", "--format=json", *flags(iterations=iterations), *machine, "--", os.fspath(run)], progress)


def replay(run: PathLike, pipeline: Optional[AnyPipeline] = None, set: Settings = None, out: Optional[PathLike] = None,
           workers: Optional[int] = None, *, threads: Optional[int] = None, device: Optional[str] = None, ranks: Optional[int] = None,
           stall: Optional[int] = None, view: bool = False, progress: bool = True) -> Any:
    """Repeats a run's credit and updates from its logged rollouts, under its own pipeline with `set` or under another one, and returns the new `Run`.
    Nothing is played."""
    arguments = [*sets(set), *flags(out=out, workers=workers, threads=threads, device=device, ranks=ranks, stall=stall, view=view)]
    if pipeline is None:
        return trained(["replay", "--format=json", *arguments, "--", os.fspath(run)], progress)
    with file_of(pipeline) as (file, names):
        return trained(["replay", "--format=json", *arguments, f"--with={file}", "--", os.fspath(run)], progress, names)


def audit(run: PathLike, *, turns: Optional[int] = None, by: Optional[str] = None, answers: Optional[str] = None, plays: Optional[int] = None,
          credit: Optional[str] = None, gamma: Optional[float] = None, node: Optional[str] = None, budget: Optional[int] = None,
          seed: Optional[int] = None, name: Optional[str] = None, dry_run: bool = False, workers: Optional[int] = None,
          hosts: Optional[PathLike] = None, process: Optional[int] = None, threads: Optional[int] = None, device: Optional[str] = None,
          ranks: Optional[int] = None, stall: Optional[int] = None, progress: bool = True) -> Any:
    """Plays on from logged turns, and measures whether their credit points the right way. Returns the program's metrics as a dict; with `dry_run` its
    text about the cost."""
    machine = flags(workers=workers, hosts=hosts, process=process, threads=threads, device=device, ranks=ranks, stall=stall)
    choice = flags(turns=turns, by=by, answers=answers, plays=plays, credit=credit, gamma=gamma, node=node, budget=budget, seed=seed, name=name, dry_run=dry_run)
    ended = succeeded(execute(["audit", "--format=json", *choice, *machine, "--", os.fspath(run)], progress=progress))
    made = parsed(ended)
    return Text(text(ended)) if made is None else made


def verify(run: PathLike, *, iterations: Optional[int] = None) -> Dict[str, Any]:
    """Computes a run's credit and updates again from its logged rollouts, and compares them digit by digit. Returns the comparison: `agrees` says
    whether all is equal."""
    ended = execute(["verify", "--format=json", *flags(iterations=iterations), "--", os.fspath(run)])
    made = parsed(ended)
    # A run that disagrees is an answer, too.
    if not isinstance(made, dict):
        raise errors.from_output(ended.err, ended.code)
    return made


def query(run: PathLike, sql: str) -> Rows:
    """Queries a run's log in SQL: a list with a dict for each row."""
    return Rows.asked(os.fspath(run), sql)


def trained(arguments: List[str], progress: bool, names: Optional[Mapping[str, str]] = None) -> Any:
    """Runs a verb that trains: its runs, or its text if it made none."""
    ended = succeeded(execute(arguments, progress=progress), names)
    made = parsed(ended)
    if isinstance(made, list):
        return [Run(one["run"], one) for one in made]
    return Text(text(ended)) if made is None else Run(made["run"], made)


def succeeded(ended: Ended, names: Optional[Mapping[str, str]] = None) -> Ended:
    if ended.code != 0:
        raise errors.from_output(ended.err, ended.code, names)
    return ended


def text(ended: Ended) -> str:
    return ended.out.decode("utf-8", "replace")


def parsed(ended: Ended) -> Any:
    """The JSON that was printed; None if it is no JSON."""
    try:
        return json.loads(ended.out)
    except ValueError:
        return None
