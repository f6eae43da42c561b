"""The base of the two sandboxes, `bubblewrap.py` and `container.py`: a sandbox turns a command into one that runs inside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from . import sockets
from .settings import LIMITS, SandboxSettings, Wrong

INSIDE = str(Path(__file__).with_name("inside.py"))
PROCESS_1 = "/.sandbox.py"
SECRETS = (".env", ".git", "runs")
"""Of the folder of a program these are hidden."""
PROBE = 20.0
"""Seconds for a trial before the first episode."""


class Sandbox:
    client: Sequence[str] = ()
    """Variables of flow's own that the sandbox itself needs; programs don't get them."""

    unwritable: Sequence[str] = ()
    """Folders that it can't give a place of an episode's in."""

    def __init__(self, settings: SandboxSettings, folder: Optional[str]) -> None:
        self.settings = settings
        self.home = os.path.realpath(os.path.expanduser("~"))
        self.folder = None if folder is None else os.path.realpath(folder)
        if self.folder is not None and inside(self.home, self.folder):
            raise Wrong(f"a sandbox shows a program its folder, and your home is in {self.folder}: give the program a `folder` of its own")
        self.given = [os.path.realpath(os.path.expanduser(path)) for path in settings.read]
        for path in self.given:
            if not os.path.exists(path):
                raise Wrong(f"`read` names {path}, which isn't there")
        seen = [*self.given, *([] if self.folder is None else [self.folder])]
        for socket in sockets.places() if seen else []:
            for path in seen:
                if inside(socket, path) or inside(path, socket):
                    raise Wrong(f"a sandbox would show {path}, and {socket} is for sockets of Docker, Podman or containerd: by them a program is master of this machine")
        for path in settings.hide:
            if not os.path.exists(self.place(path)):
                raise Wrong(f"`hide` names {path}, which isn't in {self.folder or os.getcwd()}: a name that hides nothing is misspelt")

    def place(self, path: str) -> str:
        """A path of the settings, which begins in the program's folder."""
        return os.path.realpath(os.path.join(self.folder or "", os.path.expanduser(path)))

    def told(self, places: Sequence[Tuple[str, str]]) -> Dict[str, Any]:
        """What process 1 of a sandbox without a door is told."""
        limits = {name: getattr(self.settings, name) for name in LIMITS}
        return {"port": 0, "socket": "", "writable": [at for _, at in places], **limits}

    def wrapped(self, command: Sequence[str], folder: str, places: Sequence[Tuple[str, str]], files: Sequence[str] = (),
                door: Optional[Tuple[int, str]] = None, checks: bool = False, owner: str = "", names: Sequence[str] = ()) -> List[str]:
        """The command in its sandbox: folders of this machine that it may write to, each with the place where it finds it, files that it may
        read, and the door's port with its socket. From one that `checks` nothing in `hide` is hidden. `owner` is its episode's folder, `names`
        are the variables that it gets."""
        raise NotImplementedError

    async def ended(self, owner: str) -> None:
        """Ends what still runs of an episode."""

    def close(self) -> None:
        """After the last episode."""


def inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def outermost(paths: Iterable[str]) -> List[str]:
    """The paths that lie in none of the others."""
    kept: List[str] = []
    for path in sorted(set(paths)):
        if not any(inside(path, one) for one in kept):
            kept.append(path)
    return kept
