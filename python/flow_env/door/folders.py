"""The folder of a door, in which each of its episodes has one. What a door that was killed left behind, the next door removes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, Optional

PREFIX = "flow-door-"
LOCK = "lock"


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


def new() -> str:
    """A new folder for an episode."""
    global OWN
    OWN = OWN or Folder()
    return tempfile.mkdtemp(dir=OWN.path)


def remove_own() -> None:
    if OWN is not None:
        shutil.rmtree(OWN.path, ignore_errors=True)


def remove_stale() -> None:
    """Removes the folders of doors that live no more."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        try:
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # in use, another user's, or gone meanwhile
            continue
