"""Messages over pipes: the length of a JSON header (4 bytes), the length of a body (8 bytes), the header, the body."""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import Any, Callable, List, Optional, Tuple

from .errors import Json

LENGTHS = struct.Struct("<IQ")
PIPE = 1 << 20
"""Bytes that a pipe holds, where the system allows it: fewer switches between the two processes."""
CHUNK = 1 << 20


class Pipes:
    """Owns the protocol's two pipes. Descriptor 0 becomes empty and 1 becomes standard error, so that no print of Python,
    of C or of a child gets between messages. Call this before anything else is imported."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.reader, self.writer = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        sys.stdin = open(0, encoding="utf-8", closefd=False)
        sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
        os.register_at_fork(after_in_child=self.close)
        for pipe in (self.reader, self.writer):
            grow(pipe)

    def close(self) -> None:
        """A forked child has no part in the conversation, and doesn't hold it open."""
        for pipe in (self.reader, self.writer):
            try:
                os.close(pipe)
            except OSError:
                pass

    def only_owner(self) -> None:
        """Ends a forked child of the user's function that came back to here."""
        if os.getpid() != self.owner:
            os._exit(0)

    def read(self, buffer: Callable[[int], Any] = bytearray) -> Optional[Tuple[bytes, Any]]:
        """The next header and its body; None at the end. The body is None if there is no memory for it."""
        lengths = bytearray(LENGTHS.size)
        if not self.fill(memoryview(lengths)):
            return None
        head, size = LENGTHS.unpack(lengths)
        header = bytearray(head)
        if not self.fill(memoryview(header)):
            return None
        body = None
        try:
            body = buffer(size)
        except MemoryError:
            spare = memoryview(bytearray(min(size, CHUNK)))
            while size and self.fill(spare[: min(size, CHUNK)]):
                size -= min(size, CHUNK)
            return bytes(header), None
        return (bytes(header), body) if self.fill(memoryview(body).cast("B")) else None

    def fill(self, view: memoryview) -> bool:
        """Whether the input had as many bytes."""
        while view:
            count = os.readv(self.reader, [view])
            if not count:
                return False
            view = view[count:]
        return True

    def write(self, header: Json, body: Any = b"") -> None:
        self.only_owner()
        # A lone surrogate is no UTF-8: it becomes a question mark.
        head = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
        views: List[memoryview] = [memoryview(LENGTHS.pack(len(head), len(body)) + head), memoryview(body).cast("B")]
        while views:
            count = os.writev(self.writer, views)
            while views and count >= len(views[0]):
                count -= len(views.pop(0))
            if views:
                views[0] = views[0][count:]


def grow(pipe: int) -> None:
    try:
        import fcntl

        fcntl.fcntl(pipe, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE)
    except (ImportError, OSError):
        pass
