"""`sandbox: docker` and `sandbox: podman`: a command in a container of an image. It sees the image, its own folder and those that the
settings name, all read-only; it has no network but the door. The kernel holds its limits, and `inside.py`, its process 1, says which it was.

docs/agents.md says what it doesn't hold.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from typing import List, Optional, Sequence, Tuple

from . import folders
from .engine import CLIENT, OTHERWISE, Engine, last
from .sandbox import INSIDE, PROCESS_1, SECRETS, Sandbox, inside, outermost
from .settings import SandboxSettings, Wrong
from .variables import PASSED

HOME = "/home/flow"
PLACES = ("/tmp", "/var/tmp", "/run", HOME)
"""Folders that begin empty, in memory."""
OWN = 64
"""MB, and processes with threads, that process 1 may have beside those of the program."""
KEPT = ("LANG", "TZ", "OMP_NUM_THREADS", "FLOW_PROGRAM")
"""Of the variables that describe this machine a container gets these: paths of this machine mean nothing in it."""
ESCAPED = re.compile(r"\\([0-7]{3})")
HARDENED = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
TRIED = ("import os, shutil, sys; os.chdir(sys.argv[1]); missing = [name for name in sys.argv[2:] if not shutil.which(name)]; "
         "sys.exit(f'it has no program `{missing[0]}`' if missing else 0)")


class Container(Sandbox):
    client = CLIENT

    def __init__(self, settings: SandboxSettings, commands: Sequence[Sequence[str]], folder: Optional[str]) -> None:
        super().__init__(settings, folder)
        self.engine = Engine(settings.sandbox)
        self.image, volumes = self.engine.image(settings.image)
        self.shown = [] if self.folder is None else [self.folder]
        self.options = self.limits(volumes)
        self.own = [*PLACES, *volumes, *outermost(self.given), *self.shown]
        """Places that have a mount of their own."""
        self.empty = os.path.join(folders.own(), "empty")
        for path in (self.empty, self.empty + ".file"):
            if not os.path.exists(path):
                os.mkdir(path, 0o500) if path == self.empty else os.close(os.open(path, os.O_CREAT, 0o400))
        self.engine.remove_stale()
        self.tried([command[0] for command in commands])

    def limits(self, volumes: Sequence[str]) -> List[str]:
        """The options of every container."""
        settings = self.settings
        memory, size = f"{settings.memory_mb + OWN}m", f"{settings.disk_mb}m"
        options = ["--interactive", "--pull", "never", "--read-only", *HARDENED, *separate(self.engine, settings), *self.engine.user(), "--workdir", self.folder or HOME,
                   "--memory", memory, "--memory-swap", memory, "--pids-limit", str(settings.max_processes + OWN), "--shm-size", size, "--env", f"HOME={HOME}"]
        own = ",notmpcopyup" if self.engine.name == "podman" else ""
        # An image's volumes would be folders of this machine's disk, without a limit.
        for path in dict.fromkeys([*PLACES, *volumes]):
            options += ["--tmpfs", f"{path}:rw,exec,nosuid,nodev,size={size},mode=1777{own}"]
        return options

    def tried(self, programs: Sequence[str]) -> None:
        """Runs the image once, so that an error comes before the first episode."""
        try:
            whole = self.wrapped(["python3", "-c", TRIED, self.folder or HOME, *dict.fromkeys(programs)], self.folder or HOME, [], owner="trial")
            said = self.engine.say(*whole[1:])
            if said.returncode:
                words = last(said)
                if any(each in words for each in ("executable file not found", "no such file or directory")) and "python3" in words:
                    raise Wrong(f"the image {self.settings.image} has no `python3`, which process 1 of a sandbox needs. Take an image that has it")
                raise Wrong(f"`sandbox: {self.engine.name}` doesn't work with the image {self.settings.image}: {words}. {OTHERWISE}")
        except Wrong:
            self.engine.close()
            raise
        finally:
            self.engine.remove(self.engine.names.pop("trial", []))

    def hidden(self, checks: bool) -> List[str]:
        """The files and folders that have something empty in their place."""
        found = [] if self.folder is None else [os.path.realpath(os.path.join(self.folder, name)) for name in SECRETS]
        found += [] if checks else map(self.place, self.settings.hide)
        return [path for path in dict.fromkeys(found) if os.path.exists(path) and any(inside(path, one) for one in [*self.given, *self.shown])]

    def wrapped(self, command: Sequence[str], folder: str, places: Sequence[Tuple[str, str]], files: Sequence[str] = (),
                door: Optional[Tuple[int, str]] = None, checks: bool = False, owner: str = "", names: Sequence[str] = ()) -> List[str]:
        told = {**self.told(places), "counted": True}
        options = [*self.engine.new(owner), *self.options]
        hidden = self.hidden(checks)
        for path in outermost(self.given):
            options += read_only(path, [*self.own, *hidden])
        for path in self.shown:
            options += mount(path, path, True) if self.settings.write_folder else read_only(path, [*self.own, *hidden])
        for path in hidden:
            options += mount(self.empty if os.path.isdir(path) else self.empty + ".file", path)
        for path, at in places:
            options += mount(path, at, True)
        for path in files:
            options += mount(path, path)
        if door is not None and not self.settings.network:
            told["port"], told["socket"] = door
            options += mount(door[1], door[1])
        for name in dict.fromkeys([*KEPT, *(name for name in names if name not in PASSED)]):
            options += ["--env", name] if name in names or name in os.environ else []  # its value is in the client's environment, which nobody else reads
        options += mount(INSIDE, PROCESS_1)
        return [self.engine.path, "run", *options, "--entrypoint", "python3", self.image, "-I", "-S", PROCESS_1, json.dumps(told), *command]

    async def ended(self, owner: str) -> None:
        await self.engine.ended(owner)

    def close(self) -> None:
        self.engine.close()


def separate(engine: Engine, settings: SandboxSettings) -> List[str]:
    """Options that separate a container from this machine, with or without its network."""
    network = ["--network", "host"] if settings.network else ["--network", "none", "--hostname", "sandbox"]
    own = ["--read-only-tmpfs=false"] if engine.name == "podman" and settings.needs_image else []
    # A log of what it prints would grow on this machine's disk. Folders of this machine have no label of SELinux that a container may read.
    return [*network, "--ipc", "private", "--log-driver", "none", "--security-opt", "label=disable", *own]


def read_only(path: str, apart: Sequence[str] = ()) -> List[str]:
    """Options that show a file or folder of this machine read-only. What is mounted below it is named, too, because the clients would leave
    it writable (Docker before 25, Podman); it isn't named in places that have mounts `apart`."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = {ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), line.split(" ")[4]) for line in file}
    within = [one for one in apart if inside(one, path) and one != path]
    below = [one for one in sorted(points) if inside(one, path) and one != path and os.path.exists(one) and not any(inside(one, other) for other in within)]
    return [each for one in [path, *below] for each in mount(one, one)]


def mount(source: str, at: str, write: bool = False) -> List[str]:
    """The option that shows a file or folder of this machine; paths may have commas, quotes and colons."""
    for path in (source, at):
        if any(ord(letter) < 32 for letter in path):
            raise Wrong(f"a container can't be shown {path!r}, because its name has a control character")
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["type=bind", f"source={source}", f"target={at}", *([] if write else ["readonly"])])
    return ["--mount", line.getvalue()]
