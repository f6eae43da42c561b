"""What is committed: read from a run's manifest, its segments and its journal."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 2
# Iterations that share a file of the journal.
BLOCK = 64


class DamagedRun(Exception):
    """A folder that is no run, or not what a run wrote."""


@dataclass
class Index:
    """The committed iterations of a run, and the files with their rows."""

    info: dict[str, Any]
    files: dict[str, list[Path]] = field(default_factory=dict)
    # One (iteration, figures by node and name) for each committed iteration.
    figures: list[tuple[int, dict[str, dict[str, float | None]]]] = field(default_factory=list)
    # How long each of them took.
    seconds: list[float] = field(default_factory=list)

    @property
    def iterations(self) -> list[int]:
        return [iteration for iteration, _ in self.figures]


def read(root: Path) -> Index:
    """The index of the run in `root`. A run that goes on may replace its files meanwhile: then it is read again."""
    for attempt in range(20):
        text = _text(root / "manifest.json")
        try:
            return _parse(root, text)
        except (DamagedRun, OSError, ValueError) as error:
            if _text(root / "manifest.json") == text or attempt == 19:
                raise error if isinstance(error, DamagedRun) else DamagedRun(f"{root}: {error}") from error
    raise AssertionError


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise DamagedRun(f"{path}: {error.strerror}; a run's folder has this file") from error


def _parse(root: Path, text: str) -> Index:
    info = json.loads(text)
    if info.get("format") != FORMAT:
        raise DamagedRun(f"{root} has format {info.get('format')}, and this package reads {FORMAT}")
    index = Index(info)
    for segment in info["segments"]:
        for node, file in segment["files"].items():
            index.files.setdefault(node, []).append(_known(root, file))
        for line in _lines(_known(root, segment["details"])):
            _add(index, root, line)
    for journal in _journal(root, info):
        for line in _lines(journal):
            _add(index, root, line)
    if info.get("lost"):
        index.files.setdefault(info["lost"]["node"], []).append(_known(root, info["lost"]))
    return index


def newest(root: Path) -> tuple[str, int, dict[str, dict[str, float | None]]]:
    """Of a run the status, how many iterations are committed, and the figures of the newest: without reading the rest."""
    info = json.loads(_text(root / "manifest.json"))
    lines = [line for journal in _journal(root, info) for line in journal.read_text().split("\n")[:-1]]
    count = sum(segment["details"]["rows"] for segment in info["segments"]) + len(lines)
    if not lines and info["segments"]:
        lines = (root / info["segments"][-1]["details"]["path"]).read_text().splitlines()
    status = info["status"] if isinstance(info["status"], str) else next(iter(info["status"]))
    return status, count, json.loads(lines[-1])["metrics"] if lines else {}


def _journal(root: Path, info: dict[str, Any]) -> list[Path]:
    """The journal's files of iterations that are in no segment."""
    block = info["segments"][-1]["last"] // BLOCK + 1 if info["segments"] else 0
    own = sorted((root / "journal").glob(f"{info['generation']}-{'[0-9]' * 20}.jsonl"))
    return [journal for journal in own if int(journal.stem.split("-")[1]) >= block]


def _add(index: Index, root: Path, line: dict[str, Any]) -> None:
    index.figures.append((line["iteration"], line["metrics"]))
    index.seconds.append(line.get("seconds", 0.0))
    for part in line.get("parts", ()):
        index.files.setdefault(part["node"], []).append(_known(root, part))


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file. What a kill left of a last one isn't committed."""
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _known(root: Path, file: dict[str, Any]) -> Path:
    """The place of a committed file, which a kill may have left under its first name."""
    path = root / str(file["path"])
    if not path.resolve().is_relative_to(root.resolve()):
        raise DamagedRun(f"{root} names {file['path']}, which is outside of it")
    if not path.exists():
        path = path.with_name(f".{path.stem}.pending")
    if not path.exists() or path.stat().st_size != file["bytes"]:
        raise DamagedRun(f"{root / file['path']} isn't what was committed")
    return path
