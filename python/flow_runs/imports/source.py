"""The files of another trainer, a line at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import conversation, nemo_gym, verifiers
from .values import Bad, at, parsed

# The longest line that is read, in bytes.
LONGEST = 512 << 20
Episode = dict[str, Any]


class Refused(Exception):
    """A file that can't be read; the second text says what to do."""


@dataclass
class Tally:
    """How the lines were read: how many, how many not, and the first of those; traces of agents that are not trained; fields that aren't
    read, and may say something."""

    lines: int = 0
    bad: int = 0
    first: str | None = None
    frozen: int = 0
    unread: set[str] = field(default_factory=set)


def encoded(value: dict[str, Any]) -> bytes:
    """A line of the output. A text with half a surrogate pair has none."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def lines(path: Path) -> Iterator[tuple[str, int, bytes]]:
    """The lines of a file that aren't blank, with their places and the bytes where they begin."""
    begin = 0
    with open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
            if len(line) == LONGEST:
                raise Refused(f"{path}:{number} is longer than {LONGEST} bytes")
            text = line.rstrip(b" \t\n\r\x0c")
            if text:
                yield f"{path}:{number}", begin, text
            begin += len(line)


# Names of files with rollouts: in a folder those with the first name that is found are read.
KNOWN = ("traces.jsonl", "rollouts.jsonl", "results.jsonl")
# Folders of prime-rl with the episodes that it trained on, and their advantages: files elsewhere have other episodes, or the same again.
CHOSEN = ("train", "effective")


def files_of(path: Path) -> list[Path]:
    """A file, or the files of rollouts in a folder."""
    if not path.is_dir():
        return [path]
    # A link beside the file that it leads to is no further file.
    found = sorted({file.resolve(): file for file in sorted(path.rglob("*.jsonl"), reverse=True) if file.is_file()}.values())
    if not found:
        raise Refused(f"{path} has neither a run nor a file of rollouts (`.jsonl`)")
    named = next((named for name in KNOWN if (named := [file for file in found if file.name == name])), found)
    for folder in CHOSEN:
        named = [file for file in named if folder in file.relative_to(path).parts] or named
    return named


def detect(path: Path) -> str:
    """What the first line of a file is, or of the first file in a folder."""
    path = files_of(path)[0]
    text = next((line for _, _, line in lines(path)), b"")
    try:
        first = parsed(text)
    except Bad as why:
        raise Refused(f"{path}:1 can't be read: {why}") from None
    except ValueError:
        first = None
    has = lambda key: isinstance(first, dict) and key in first
    if has("traces"):
        return "verifiers"
    if has("_ng_task_index") or has("responses_create_params"):
        return "nemo-gym"
    if conversation.is_one(first):
        return "messages"
    raise Refused(f"{path}:1 {unknown(text, first, has)}")


def unknown(text: bytes, first: Any, has: Callable[[str], bool]) -> str:
    """What a first line is that no format has, and what to do about it."""
    if text.startswith(b"PAR1"):
        return "is Parquet, as TRL writes completions: write it as JSON Lines first, as by `duckdb -c \"copy 'x.parquet' to 'x.jsonl' (format json)\"`"
    if str(at(first, "schema_version")).startswith("ATIF"):
        return "is a trajectory of ATIF, which isn't read: write its steps as `messages` with a `reward`, a conversation a line"
    if has("span_id") or has("spanId") or has("resourceSpans"):
        return "is a span, as Agent Lightning stores them, which isn't read: write each rollout as `messages` with a `reward`, a conversation a line"
    if isinstance(first, list) or text in (b"[", b"{"):
        return "is no JSON Lines: write one JSON object a line, as by `jq -c '.[]'`"
    return (
        "is neither an episode of verifiers' traces.jsonl, nor a rollout of NeMo Gym, nor a conversation (`messages`, `conversations`, or `prompt` "
        "with `completion`): `flow import --from FORMAT` reads it by name"
    )


def beside(path: Path, what: str) -> Path:
    """A file that NeMo Gym writes beside `path`."""
    return path.with_name(f"{path.stem}_{what}.jsonl")


class Inputs:
    """Where each line of the materialized inputs begins: the lines themselves are many, and few are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offsets = {key: begin for _, begin, line in lines(path) if (key := nemo_gym.key(line))} if path.exists() else {}

    def line(self, key: nemo_gym.Key) -> bytes | None:
        if key not in self.offsets:
            return None
        with open(self.path, "rb") as file:
            file.seek(self.offsets[key])
            return file.readline(LONGEST)


class Source:
    """Files of a format. With `skip` it goes on after a line that can't be read."""

    def __init__(self, files: list[Path], form: str, skip: bool) -> None:
        self.files, self.form, self.skip, self.tally = [file for path in files for file in files_of(path)], form, skip, Tally()

    def episodes(self, written: Callable[[bytes], object]) -> None:
        """Gives all episodes to `written`, a line each; the same in the same order each time."""
        # Files that are read with the one that they lie beside.
        sides = [beside(file, what) for file in self.files for what in ("materialized_inputs", "failures")]
        for file in self.files:
            if self.form == "verifiers":
                self.each(file, self.traces, written)
            elif self.form == "messages":
                self.each(file, lambda value: [conversation.read(value, self.tally.unread)], written)
            elif file not in sides:
                self.rollouts(file, written)

    def traces(self, value: Any) -> list[Episode]:
        episodes, frozen = verifiers.read(value, self.tally.unread)
        self.tally.frozen += frozen
        return episodes

    def rollouts(self, file: Path, written: Callable[[bytes], object]) -> None:
        """Failures are attempts: an attempt that a later one made good isn't."""
        inputs = Inputs(beside(file, "materialized_inputs"))
        done: set[nemo_gym.Key] = set()
        failed: dict[nemo_gym.Key, Episode] = {}
        last: dict[nemo_gym.Key, bytes] = {}

        def read(value: Any) -> list[Episode]:
            key, episode = nemo_gym.read(value, inputs.line, self.tally.unread)
            if episode["failure"] is None:
                done.add(key)
                return [episode]
            if key in failed:
                episode["failure"]["tries"] += failed[key]["failure"]["tries"]
            failed[key], last[key] = episode, encoded({"episode": episode})
            return []

        for path in (file, beside(file, "failures")):
            if path == file or path.exists():
                self.each(path, read, written)
        for key in sorted(last.keys() - done):
            written(last[key])

    def each(self, path: Path, read: Callable[[Any], list[Episode]], written: Callable[[bytes], object]) -> None:
        for place, _, line in lines(path):
            self.tally.lines += 1
            try:
                episodes = b"".join(encoded({"episode": episode}) for episode in read(parsed(line)))
            except ValueError as error:
                message = f"{place}: {error}"
                if not self.skip:
                    raise Refused(message, "--skip-bad leaves such lines out and counts them") from error
                self.tally.bad += 1
                self.tally.first = self.tally.first or message
            else:
                written(episodes)
