"""The client of Docker or Podman: what it can do here, its images, and containers that must go."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import selectors
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Set, Tuple

from . import folders, sockets, watch
from .settings import Wrong

LABEL = "flow.door"
"""Every container has it, with the folder of its door: what a killed door leaves is found by it."""
OWNER = "flow.machine"
PATIENCE = 60.0
"""Seconds for an answer of the client; starting and removing containers may take as long on a slow disk."""
SAID = 1 << 20
"""Bytes that a client may write: a program in a container, or of a build, decides what it writes."""
CLIENT = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "DBUS_SESSION_BUS_ADDRESS")
"""Variables that the clients read."""
ADVICE = {
    "docker": ("Install Docker Engine (`apt install docker.io`), start it (`systemctl start docker`), and let your user reach it, by the group `docker` or by "
               "rootless Docker"),
    "podman": "Install Podman (`apt install podman`, `dnf install podman`)",
}
OTHERWISE = "Or say `sandbox: bubblewrap`, which needs no daemon and no image"


def machine() -> str:
    """Names this machine since its start, as this process sees it. Folders of another one say nothing about its containers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{os.stat('/proc/self/ns/mnt').st_ino}"
    except OSError:
        return "unknown"


class Engine:
    def __init__(self, name: str) -> None:
        self.name = name
        self.path = shutil.which(name) or ""
        self.watcher: Optional["subprocess.Popen[bytes]"] = None
        self.lock = threading.Lock()
        self.names: Dict[str, List[str]] = {}
        """The containers of each owner, an episode's folder."""
        self.starts: Dict[str, "asyncio.Future[subprocess.CompletedProcess[str]]"] = {}
        """The start of each owner's container that a thread waits for."""
        self.builds: Set["subprocess.Popen[bytes]"] = set()
        if not self.path:
            raise Wrong(f"`sandbox: {name}` needs the program `{name}`, and it isn't installed. {ADVICE[name]}. {OTHERWISE}")
        host = sockets.host(name)
        if host and not host.startswith("unix:"):
            raise Wrong(f"`sandbox: {name}` needs a daemon on this machine, because it shows containers folders of it; the client is set to {host.partition('://')[0]}. {OTHERWISE}")
        asked = ["version", "--format", "{{.Server.Version}}"] if name == "docker" else ["info", "--format", "{{.Version.Version}}"]
        said = self.say(*asked)
        if said.returncode:
            raise Wrong(f"`sandbox: {name}` doesn't work here. `{name} {' '.join(asked[:1])}` failed: {last(said)}. {ADVICE[name]}. {OTHERWISE}")
        self.rootless = "true" in self.say("info", "--format", "{{.Host.Security.Rootless}}").stdout if name == "podman" else \
            "name=rootless" in self.say("info", "--format", "{{json .SecurityOptions}}").stdout

    def say(self, *arguments: str, seconds: float = PATIENCE, end: bool = False) -> "subprocess.CompletedProcess[str]":
        """Runs the client; a failure is an exit status. A client that writes more than `SAID` is killed; with `end` the last bytes are kept."""
        mark = {} if folders.OWN is None else {"FLOW_DOOR": folders.own() + "/"}  # the watcher kills by it
        try:
            with subprocess.Popen([self.path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **mark}) as client:
                try:
                    if arguments[0] == "build":
                        self.builds.add(client)
                    output, complaints = heard(client, seconds, end)
                    return subprocess.CompletedProcess(arguments, client.wait(PATIENCE), output.decode("utf-8", "replace"), complaints.decode("utf-8", "replace"))
                finally:
                    if client.poll() is None:
                        watch.kill({client.pid})
                    self.builds.discard(client)
        except (OSError, subprocess.TimeoutExpired) as error:
            return subprocess.CompletedProcess(arguments, 125, "", str(error))

    def image(self, name: str) -> Tuple[str, List[str]]:
        """An image's id and its volumes. The id keeps it the same for the whole run. It is never pulled."""
        said = self.say("image", "inspect", "--format", "{{.Id}} {{json .Config.Volumes}}", name)
        if said.returncode:
            why = "" if "no such image" in said.stderr.lower() or "not known" in said.stderr else f" ({last(said)})"
            raise Wrong(f"the image {name} isn't on this machine{why}. flow pulls none: say `{self.name} pull {name}`")
        known, _, volumes = said.stdout.strip().partition(" ")
        return known, sorted(json.loads(volumes or "null") or {})

    def new(self, owner: str) -> List[str]:
        """The name and the labels of a container of this owner, which is removed with it."""
        self.watch()
        name = f"flow-{secrets.token_hex(8)}"
        self.names.setdefault(owner, []).append(name)
        return ["--name", name, "--label", f"{LABEL}={folders.own()}", "--label", f"{OWNER}={machine()}"]

    def user(self) -> List[str]:
        """Options that give a container's files to the user who runs flow."""
        user = f"{os.getuid()}:{os.getgid()}"
        if not self.rootless:
            return ["--user", user]
        return ["--userns", "keep-id", "--user", user] if self.name == "podman" else ["--user", "0:0"]

    def watch(self) -> None:
        """Starts the process that removes the containers of this one if it is killed."""
        with self.lock:
            if self.watcher is None:
                kept = {name: value for name, value in os.environ.items() if name != "FLOW_PROGRAM"}  # flow kills by it
                self.watcher = subprocess.Popen([sys.executable, "-I", "-S", watch.__file__, self.path, f"{LABEL}={folders.own()}"], stdin=subprocess.PIPE,
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=kept, start_new_session=True)

    async def start(self, owner: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Has the client start a container of an owner. Who waits may be cancelled, but not the thread: `ended` waits for it."""
        self.starts[owner] = asyncio.get_running_loop().run_in_executor(None, self.say, *arguments)
        return await asyncio.shield(self.starts[owner])

    async def ended(self, owner: str) -> None:
        """Removes the containers of an owner, whatever they do."""
        if owner in self.starts:
            await asyncio.wait({self.starts[owner]})
            self.starts.pop(owner, None)
        names = list(self.names.get(owner, ()))
        if names:
            said = await asyncio.get_running_loop().run_in_executor(None, self.remove, names)
            if said.returncode:
                print(f"containers can't be removed: {last(said)}", file=sys.stderr, flush=True)
                return
            self.names.pop(owner, None)

    def remove(self, names: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        # Podman would first ask process 1 to end, which it ignores, and wait for ten seconds.
        said = self.say("rm", "--force", "--volumes", *(["--time", "0"] if self.name == "podman" else []), *names)
        # A container that never came to be is none that is left.
        if said.returncode and all("no such container" in line.lower() or "no container with" in line.lower() for line in said.stderr.strip().splitlines()):
            said.returncode = 0
        return said

    def remove_stale(self) -> None:
        """Begins to remove the containers of doors that live no more."""
        threading.Thread(target=self.stale_removed, daemon=True).start()

    def stale_removed(self) -> None:
        label = '{{.Label "%s"}}' if self.name == "docker" else '{{index .Labels "%s"}}'
        said = self.say("ps", "--all", "--filter", f"label={OWNER}={machine()}", "--format", "{{.ID}} " + label % LABEL)
        left = [line.partition(" ") for line in said.stdout.splitlines()]
        names = [name for name, _, folder in left if not folders.lives(folder)]
        if names:
            self.remove(names)

    def close(self) -> None:
        """Ends builds, and has the watcher look a last time and end."""
        for client in list(self.builds):
            if client.poll() is None:
                watch.kill({client.pid})
        with self.lock:
            if self.watcher is not None and self.watcher.stdin is not None:
                try:
                    self.watcher.stdin.write(b".")
                    self.watcher.stdin.close()
                except OSError:
                    pass
                self.watcher = None


def heard(client: "subprocess.Popen[bytes]", seconds: float, end: bool) -> List[bytearray]:
    """The output and the complaints of a client, within bounds of bytes and time; raises `OSError` where it exceeds them."""
    assert client.stdout and client.stderr
    said = {client.stdout.fileno(): bytearray(), client.stderr.fileno(): bytearray()}
    until = time.monotonic() + seconds
    with selectors.DefaultSelector() as pipes:
        for pipe in said:
            pipes.register(pipe, selectors.EVENT_READ)
        while pipes.get_map():
            left = until - time.monotonic()
            if left <= 0:
                raise OSError(f"it hasn't answered within {seconds:g} s")
            for key, _ in pipes.select(left):
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    pipes.unregister(key.fd)
                said[key.fd] += chunk
                if len(said[key.fd]) > SAID and not end:
                    raise OSError(f"it has written more than {SAID >> 20} MiB")
                del said[key.fd][:-SAID]
    return list(said.values())


def last(said: "subprocess.CompletedProcess[str]") -> str:
    """What a client has said of a failure, in a line."""
    return " ".join((said.stderr.strip() or said.stdout.strip() or f"exit status {said.returncode}").split())[-500:].rstrip(".?")
