"""Removes folders that a program may have made: however deep, with links, and without rights."""

from __future__ import annotations

import os
import secrets
import stat
import time
from typing import Optional

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(path: str, seconds: Optional[float] = None) -> bool:
    """Removes a folder and all in it; says whether nothing is left. It stops after so many seconds.

    Nothing here recurses, and only two folders are open at a time: folders within a folder are moved up before it is removed.
    """
    until = float("inf") if seconds is None else time.monotonic() + seconds
    try:
        if not is_folder(None, path):
            os.unlink(path)
            return True
        freed(None, path)
        top = os.open(path, FOLDER)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        while emptied(top, until):
            pass
        os.rmdir(path)
    except OSError:
        return False
    finally:
        os.close(top)
    return True


def emptied(top: int, until: float) -> bool:
    """Removes the files in this folder and flattens the folders in it by one level. Says whether anything has changed."""
    changed = False
    for name in os.listdir(top):
        if time.monotonic() > until:
            return False
        try:
            if is_folder(top, name):
                lifted(top, name, until)
                os.rmdir(name, dir_fd=top)
            else:
                os.unlink(name, dir_fd=top)
            changed = True
        except OSError:
            continue
    return changed


def lifted(top: int, name: str, until: float) -> None:
    """Removes the files in a folder, and moves its folders to the one that it is in."""
    freed(top, name)
    folder = os.open(name, FOLDER, dir_fd=top)
    try:
        for inner in os.listdir(folder):
            if time.monotonic() > until:
                return
            if is_folder(folder, inner):
                freed(folder, inner)
                os.rename(inner, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top)
            else:
                os.unlink(inner, dir_fd=folder)
    finally:
        os.close(folder)


def is_folder(parent: Optional[int], name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def freed(parent: Optional[int], name: str) -> None:
    """Gives the owner of a folder all rights to it: without them its content can be neither listed nor moved."""
    if stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode) & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)
