"""TensorBoard's event files: records with a checksum (TFRecord) that hold `Event` messages of Protocol Buffers.

Only what a run has to say is written: numbers by step, and one text. So no package is needed to write them.
"""

from __future__ import annotations

import itertools
import shlex
import struct
from pathlib import Path

from .index import read

# The same name each time, so that a later export takes the place of an earlier one.
FILE = "events.out.tfevents.flow"
# `DT_STRING` of TensorFlow's types.
STRING = 7


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def text(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def single(field: int, value: float | None) -> bytes:
    """A number of 32 bits; what they can't hold is infinite, and what isn't there is none."""
    value = float("nan") if value is None else value
    try:
        return varint(field << 3 | 5) + struct.pack("<f", value)
    except OverflowError:
        return single(field, float("inf") if value > 0 else float("-inf"))


def crc32c(data: bytes) -> int:
    """RFC 3720, appendix B.4."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


TABLE = [entry(byte) for byte in range(256)]


def masked(data: bytes) -> bytes:
    """The checksum, turned and shifted as TFRecord has it."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def summary(time: float, step: int, values: list[bytes]) -> bytes:
    return record(double(1, time) + number(2, step) + text(5, b"".join(text(1, value) for value in values)))


def pipeline(source: str) -> bytes:
    """A text, which TensorBoard shows as Markdown: four spaces make a block of code."""
    lines = source.split("\n")
    code = "".join(f"    {line}\n" for line in lines[: len(lines) - (not lines[-1])])
    tensor = number(1, STRING) + text(2, text(2, number(1, 1))) + text(8, code.encode())
    return text(1, b"pipeline") + text(8, tensor) + text(9, text(1, text(1, b"text")))


def events(folder: Path) -> tuple[bytes, int]:
    """Every figure of every committed iteration, and their number."""
    index = read(folder)
    # The manifest was written last when the last iteration was committed; before that each took its seconds.
    seconds, nanoseconds = divmod((folder / "manifest.json").stat().st_mtime_ns, 10**9)
    taken = 0.0
    for spent in index.seconds:
        taken += spent
    time = seconds + nanoseconds / 1e9 - taken
    with open(folder / "pipeline.yaml", encoding="utf-8", newline="") as source:
        records = [record(double(1, time) + text(3, b"brain.Event:2")), summary(time, 0, [pipeline(source.read())])]
    count = 0
    for (iteration, nodes), spent in zip(index.figures, index.seconds):
        time += spent
        values = [text(1, f"{node}/{name}".encode()) + single(2, nodes[node][name]) for node in sorted(nodes) for name in sorted(nodes[node])]
        records.append(summary(time, iteration, values))
        count += len(values)
    return b"".join(records), count


def export(runs: list[Path], into: Path) -> str:
    """Writes an event file a run, in a folder of the run's name, and says so."""
    names: list[str] = []
    written = 0
    for folder in runs:
        data, count = events(folder)
        own = folder.resolve().name or "run"
        name = next(name for n in itertools.count(1) if (name := own if n == 1 else f"{own}-{n}") not in names)
        names.append(name)
        (into / name).mkdir(parents=True, exist_ok=True)
        (into / name / FILE).write_bytes(data)
        written += count
    said = f"{written} numbers of {len(runs)} run{'s' if len(runs) > 1 else ''} -> {into}"
    return f"{said}\n\nTry next:\n  tensorboard --logdir {shlex.quote(str(into))}"
