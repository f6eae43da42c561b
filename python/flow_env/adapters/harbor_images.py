"""The images and the containers of tasks in Harbor's format: an image a task, built once, and a container an episode."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from ..door.container import HARDENED, read_only, separate
from ..door.engine import CLIENT, Engine, last
from ..door.episode import Failure
from ..door.sandbox import Sandbox, outermost
from ..door.settings import IMAGE, Wrong
from ..limits import Json
from .harbor_shell import HarborSettings

RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
"""Capabilities that the task's root has: as much as package managers and servers need, and no right over the machine."""
PROCESS_1 = "mkdir -p /logs/agent /logs/verifier; while :; do sleep 3600 & wait $!; done"
"""Waits, and takes in the children of processes that have ended. A process in the container can send it no signal that ends it."""
BASE = re.compile(r"(?i)\s*(?:FROM\s+(?:--platform=\S+\s+)?(\S+)(?:\s+AS\s+(\S+))?|(?:COPY|RUN)\s.*?(?:--from=|[,=]from=)([^\s,]+)|ARG\s+(\w+)=(\S+))")


class TaskContainers(Sandbox):
    client = CLIENT

    def __init__(self, settings: HarborSettings) -> None:
        super().__init__(settings, None)
        self.engine = Engine(settings.sandbox)
        self.builders = ThreadPoolExecutor(2, "builders")
        """So many images are built at once."""
        self.building: Dict[str, asyncio.Lock] = {}
        self.known: Dict[str, str] = {}
        """Ids of images by the names that tasks have for them."""
        if settings.image:
            self.known[settings.image] = self.engine.image(settings.image)[0]
        self.engine.remove_stale()

    def check(self, task: Json) -> None:
        """Names the image of a task; raises `Wrong` where it or what it is built from isn't here."""
        folder = Path(task["folder"], "environment")
        task["built"] = not task["image"] and (folder / "Dockerfile").is_file()
        if task["built"]:
            task["image"] = f"flow-harbor:{content(folder)}"
            if not self.engine.say("image", "inspect", "--format", "{{.Id}}", task["image"]).returncode:
                return
            for base in bases((folder / "Dockerfile").read_text(encoding="utf-8", errors="replace")):
                self.present(base)
            return
        task["copied"] = not task["image"]
        task["image"] = task["image"] or self.settings.image
        if not task["image"]:
            raise Wrong("it has no environment/Dockerfile, and task.toml no `docker_image`: say which one by `image=NAME`")
        self.present(task["image"])

    def present(self, image: str) -> None:
        if not IMAGE.match(image):
            raise Wrong(f"`{image[:80]}` names no image")
        if image not in self.known:
            self.known[image] = self.engine.image(image)[0]

    async def image(self, task: Json) -> str:
        """The id of a task's image, which is built at the first episode."""
        name: str = task["image"]
        if name not in self.known:
            async with self.building.setdefault(name, asyncio.Lock()):
                if name not in self.known:
                    self.known[name] = await asyncio.get_running_loop().run_in_executor(self.builders, self.build, name, task)
        return self.known[name]

    def build(self, name: str, task: Json) -> str:
        try:
            return self.engine.image(name)[0]
        except Wrong:
            pass
        folder = os.path.join(task["folder"], "environment")
        self.engine.watch()
        never = ["--pull=never"] if self.engine.name == "podman" else []
        said = self.engine.say("build", *never, "--force-rm", "--tag", name, "--file", os.path.join(folder, "Dockerfile"), folder, seconds=float(task["build_seconds"]), end=True)
        if said.returncode:
            raise Failure(f"environment/Dockerfile can't be built: {printed(said.stdout, said.stderr) or last(said)}")
        try:
            return self.engine.image(name)[0]
        except Wrong as wrong:
            raise Failure(f"environment/Dockerfile was built, but {wrong}") from None

    async def begun(self, task: Json, seed: int, owner: str) -> str:
        """The name of a container that has been started for an episode."""
        image = await self.image(task)
        settings = self.settings
        known = self.engine.new(owner)
        memory = f"{settings.memory_mb}m"
        options = [*known, "--detach", "--pull", "never", *HARDENED, *(f"--cap-add={each}" for each in RIGHTS), *separate(self.engine, settings),
                   "--memory", memory, "--memory-swap", memory, "--pids-limit", str(settings.max_processes), "--shm-size", f"{settings.disk_mb}m"]
        for path in outermost(self.given):
            options += read_only(path)
        for variable, value in {"FLOW_SEED": str(seed), **task["env"]}.items():
            options += ["--env", f"{variable}={value}"]
        said = await self.engine.start(owner, "run", *options, "--entrypoint", "bash", image, "-c", PROCESS_1)
        if said.returncode:
            raise Failure(f"its container can't be started: {last(said)}")
        return known[1]

    async def carried(self, failure: str, *arguments: str) -> None:
        """Has the client do something; a failure is one of the episode."""
        said = await asyncio.get_running_loop().run_in_executor(None, self.engine.say, *arguments)
        if said.returncode:
            raise Failure(f"{failure}: {last(said)}")

    async def ended(self, owner: str) -> None:
        await self.engine.ended(owner)

    def close(self) -> None:
        self.builders.shutdown(wait=False, cancel_futures=True)
        self.engine.close()


def bases(text: str) -> List[str]:
    """The images that a Dockerfile is built from.

    >>> bases("ARG V=3.12\\nFROM python:$V AS build\\nFROM scratch\\nCOPY --from=build /a /a\\nCOPY --from=tools:1 /b /b")
    ['python:3.12', 'tools:1']
    """
    stages, given, found = {"scratch"}, {}, []
    for base, stage, source, name, value in parts(text):
        if name:
            given[name] = value.strip("\"'")
            continue
        image = re.sub(r"\$\{?(\w+)\}?", lambda match: given.get(match.group(1), match.group(0)), base or source)
        if image.lower() not in stages and not image.isdigit() and image not in found:
            found.append(image)
        if stage:
            stages.add(stage.lower())
    return found


def parts(text: str) -> Iterator[Tuple[str, ...]]:
    lines = re.sub(r"^\s*#.*\n?", "", text, flags=re.MULTILINE)
    for line in re.sub(r"\\\s*\n", " ", lines).splitlines():
        match = BASE.match(line)
        if match:
            yield tuple(each or "" for each in match.groups())


def content(folder: Path) -> str:
    """A digest of a folder's files: their names, rights, links and content."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        what = os.readlink(path) if path.is_symlink() else ""
        digest.update(f"{path.relative_to(folder)}\0{path.lstat().st_mode:o}\0{what}\0".encode("utf-8", "surrogateescape"))
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:24]


def printed(output: str, errors: str) -> str:
    """The last lines of a build: those of the step that failed, and why. Docker's advice on its own builder is left out."""
    lines = [line.strip() for line in f"{output}\n{errors}".splitlines()]
    return " / ".join([line for line in lines if line and "DEPRECATED" not in line and "buildx" not in line][-10:])[-800:]
