"""Files that a program may have made: none of them blocks, is another file by a link, or fills the memory."""

from __future__ import annotations

import os
import stat
import tempfile
from typing import IO, Optional


class Odd(Exception):
    """Something else than a plain file has this name. The text says what."""


def open_plain(path: str) -> Optional[int]:
    """A descriptor of a plain file; None where there is none."""
    try:
        # A FIFO would block until somebody writes.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Odd("is a link" if os.path.islink(path) else f"can't be read ({error.strerror})") from None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise Odd("is no plain file")


def read(path: str, most: int, end: bool = False) -> Optional[str]:
    """The beginning of a plain file, or its end; None where there is none."""
    file = open_plain(path)
    if file is None:
        return None
    with os.fdopen(file, "rb") as opened:
        if end:
            opened.seek(max(0, os.fstat(file).st_size - most))
        return opened.read(most).decode("utf-8", "replace")


def of_text(text: str) -> IO[bytes]:
    """An open file with this text that has no name, so that nobody else can change it."""
    file = tempfile.TemporaryFile()
    file.write(text.encode())
    file.seek(0)
    return file
