"""Puts a pipeline's text where the program can read it: beside the files that it names, for as long as it is read."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import Iterator, Mapping

from .errors import Error


@contextlib.contextmanager
def written(folder: Path, name: str, text: str, beside: Mapping[str, str]) -> Iterator[Path]:
    """A hidden file with this text in `folder`, and the files `beside` it by their names. A run keeps what it needs of them, so they are removed
    afterwards; a file that was there before stays."""
    made = []
    try:
        for file, content in beside.items():
            if not (folder / file).exists():
                (folder / file).write_text(content, encoding="utf-8")
                made.append(folder / file)
        handle, made_path = tempfile.mkstemp(".yaml", f".{re.sub('[^A-Za-z0-9_-]', '_', name)}-", folder)
        # Messages name other files as this path is: relative to the working folder.
        path = folder / os.path.basename(made_path)
        made.append(path)
        with os.fdopen(handle, "w", encoding="utf-8") as file_:
            file_.write(text)
    except OSError as error:
        remove(made)
        raise Error(f"the pipeline can't be written into {folder}: {error.strerror}", "its paths are relative to this folder; give a Pipeline another folder=") from error
    try:
        yield path
    finally:
        remove(made)


def remove(files: "list[Path]") -> None:
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()
