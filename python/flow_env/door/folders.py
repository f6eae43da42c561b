"""The folder of a door, in which each of its episodes has one. What a door that was killed left behind, the next door removes."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Optional

from . import files
from .removal import remove

PREFIX = "flow-door-"
LOCK = "lock"
LAST = 1.0
"""Seconds in which a door that is at its end removes its folder. What is left then, the next door removes."""


class Folder:
    """Locked for as long as this process lives: the kernel frees the lock of a process that is killed."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        own = os.path.join(self.path, f"{LOCK}.new")
        self.lock: IO[bytes] = open(own, "wb")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        # It has its name once it is locked, so that no other door finds it free.
        os.rename(own, os.path.join(self.path, LOCK))


OWN: Optional[Folder] = None
"""This door's, from its first episode on."""
REMOVER = ThreadPoolExecutor(1, "remover")
"""A folder may take long to remove, and nothing else waits for that."""


def own() -> str:
    """This door's folder."""
    global OWN
    OWN = OWN or Folder()
    return OWN.path


def new() -> str:
    """A new folder for an episode."""
    return tempfile.mkdtemp(dir=own())


def lives(folder: str) -> bool:
    """Whether the door of a folder holds its lock, as far as this user can see: only a folder or a lock that isn't there belongs to none."""
    try:
        lock = files.open_plain(os.path.join(folder, LOCK))
        if lock is None:
            return False
        with os.fdopen(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except (OSError, files.Odd):  # locked, or another user's
        return True


def remove_own() -> None:
    if OWN is not None:
        remove(OWN.path, LAST)


def remove_stale() -> None:
    """Begins to remove the folders of doors that live no more."""
    threading.Thread(target=stale_removed, daemon=True).start()


def stale_removed() -> None:
    try:
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            try:
                lock = files.open_plain(str(folder / LOCK))
                if lock is None:
                    continue
                with os.fdopen(lock, "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove(str(folder))
            except (OSError, files.Odd):  # in use, another user's, or gone meanwhile
                continue
    except Exception as error:
        print(f"folders of earlier doors can't be removed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
