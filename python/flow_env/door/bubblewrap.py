"""`sandbox: bubblewrap`: a command in namespaces of its own, by `bwrap`. It sees the system's folders, its own and those that the settings
name, all read-only; it has no network but the door; its processes together have limits, which `inside.py` holds.

docs/agents.md says what it doesn't hold.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from .sandbox import INSIDE, PROBE, PROCESS_1, SECRETS, Sandbox, inside, outermost
from .settings import PYTHON, SandboxSettings, Wrong

SYSTEM = ("/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu")
"""What programs need of a machine. Nothing else of it is there: no home, no `/run` with its sockets, no other disk."""
ISOLATED = ["--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "sandbox"]
NO_NESTING = ["--unshare-user", "--disable-userns"]
"""Namespaces within the sandbox are a way into the kernel. Versions before 0.8 can't forbid them."""
ADVICE = ("Install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`) and allow user namespaces: on Ubuntu from 23.10 on by an AppArmor profile "
          "for bwrap, in a container by `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`. Or say `sandbox: none`: commands then run "
          "as you, with your files and your network")  # in a line, since flow tells the last one


class Bubblewrap(Sandbox):
    unwritable = (*SYSTEM, "/dev", "/proc")

    def __init__(self, settings: SandboxSettings, commands: Sequence[Sequence[str]], folder: Optional[str]) -> None:
        super().__init__(settings, folder)
        self.pythons: Dict[str, str] = {}
        self.python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else os.path.realpath(sys.executable)
        shown = [*self.given, *([] if self.python.startswith("/usr/") else [sys.base_prefix])]
        for command in commands:
            shown += self.needed(command[0])
        shown += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and os.path.isdir(path)]
        self.shown = outermost(path for path in map(os.path.abspath, shown) if not any(inside(path, one) for one in SYSTEM))
        self.bwrap = shutil.which("bwrap") or ""
        self.options = self.tried() + self.seen()
        self.hidden = self.covered(self.settings.hide)

    def needed(self, program: str) -> List[str]:
        """The folders that a program lies in. Python itself says where its packages are."""
        base = self.folder or os.getcwd()
        path = shutil.which(program if os.sep not in program else os.path.join(base, program)) or program
        if PYTHON.match(os.path.basename(program)):
            code = "import site, sys; print(sys.executable, sys.prefix, sys.base_prefix, site.getusersitepackages(), sep='\\n')"
            try:
                said = subprocess.run([path, "-c", code], cwd=base, capture_output=True, text=True, timeout=PROBE)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Wrong(f"`{program}` doesn't say where its packages are: {error}") from None
            lines = said.stdout.splitlines()
            if said.returncode or len(lines) != 4 or not lines[0]:
                raise Wrong(f"`{program}` doesn't say where its packages are: {said.stderr.strip()[-300:]}")
            # A shim, as of pyenv, is a script that needs more than the Python that it starts.
            self.pythons[program] = lines[0]
            return [os.path.dirname(lines[0]), *(each for each in lines[1:] if os.path.isdir(each))]
        real = os.path.realpath(path)
        above = os.path.dirname(os.path.dirname(real))
        whole = os.path.basename(os.path.dirname(real)) == "bin" and above not in (self.home, os.path.join(self.home, ".local"))
        return [os.path.abspath(path), above if whole else real]

    def tried(self) -> List[str]:
        """The options with which bwrap works here."""
        if not self.bwrap:
            raise Wrong(f"`sandbox: bubblewrap` needs the program `bwrap`, and it isn't installed. {ADVICE}")
        said = ""
        for more in (NO_NESTING, []):
            options = [*ISOLATED, *more]
            command = [self.bwrap, *options, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "true"]
            try:
                run = subprocess.run(command, capture_output=True, text=True, timeout=PROBE)
            except (OSError, subprocess.TimeoutExpired) as error:
                said = said or str(error)
                continue
            if run.returncode == 0:
                return options
            said = said or run.stderr.strip() or f"exit status {run.returncode}"
        raise Wrong(f"`sandbox: bubblewrap` doesn't work here. `{' '.join(command)}` failed: {' '.join(said.split())[:500]}. {ADVICE}")

    def seen(self) -> List[str]:
        """The file system that every command sees."""
        size = str(self.settings.disk_mb << 20)
        options: List[str] = ["--share-net"] if self.settings.network else []
        for path in SYSTEM:
            if os.path.islink(path):
                options += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                options += ["--ro-bind", path, path]
        for path in private("/etc"):
            options += ["--tmpfs", path, "--remount-ro", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
        if self.settings.network and os.path.realpath("/etc/resolv.conf").startswith("/run/"):
            name = os.path.realpath("/etc/resolv.conf")
            options += ["--ro-bind", name, name]
        options += ["--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", "--proc", "/proc"]
        # What root owns there root may write to, in any namespace and without a capability: `core_pattern` would be a way out. bwrap leaves it.
        options += ["--ro-bind", "/proc/sys", "/proc/sys"]
        options += [each for name in kernel_files() for each in ("--ro-bind", "/dev/null", name)]
        for path in dict.fromkeys(["/tmp", "/var/tmp", os.path.realpath(tempfile.gettempdir())]):
            options += ["--size", size, "--tmpfs", path]
        options += ["--size", size, "--tmpfs", self.home] if self.home != "/" else []
        for path in self.shown:
            options += ["--ro-bind", path, path]
        if self.folder is not None:
            options += ["--bind" if self.settings.write_folder else "--ro-bind", self.folder, self.folder]
        return options + (self.covered(SECRETS) if self.folder else [])

    def covered(self, paths: Iterable[str]) -> List[str]:
        """Options that put something empty in the place of these files and folders."""
        options: List[str] = []
        for path in map(self.place, paths):
            if os.path.isdir(path):
                options += ["--tmpfs", path, "--remount-ro", path]
            elif os.path.exists(path):
                options += ["--ro-bind", "/dev/null", path]
        return options

    def wrapped(self, command: Sequence[str], folder: str, places: Sequence[Tuple[str, str]], files: Sequence[str] = (),
                door: Optional[Tuple[int, str]] = None, checks: bool = False, owner: str = "", names: Sequence[str] = ()) -> List[str]:
        told = self.told(places)
        options = self.options + ([] if checks else self.hidden)
        for path, at in sorted(places, key=lambda place: place[1]):
            options += ["--bind", path, at]
        for path in files:
            options += ["--ro-bind", path, path]
        if door is not None and not self.settings.network:
            told["port"], told["socket"] = door
            options += ["--ro-bind", door[1], door[1]]
        options += ["--ro-bind", INSIDE, PROCESS_1]
        program = self.pythons.get(command[0], command[0])
        return [self.bwrap, *options, "--remount-ro", "/", "--chdir", self.folder or folder, "--", self.python, "-I", "-S", PROCESS_1, json.dumps(told), program, *command[1:]]


def kernel_files() -> List[str]:
    """The files of `/proc` itself that only root may read, which is this machine's root in a sandbox, too."""
    if os.getuid():
        return []
    return [entry.path for entry in os.scandir("/proc") if entry.is_file(follow_symlinks=False) and not entry.stat().st_mode & 0o004]


def private(top: str) -> List[str]:
    """What not everybody may read below a folder: root reads it all, in a sandbox too."""
    found: List[str] = []
    for path, folders, names in os.walk(top):
        for name in [*folders, *names]:
            one = os.path.join(path, name)
            try:
                mode = os.lstat(one).st_mode
            except OSError:
                continue
            if not os.path.islink(one) and not mode & 0o004:
                found.append(one)
        folders[:] = [name for name in folders if os.path.join(path, name) not in found]
    return found
