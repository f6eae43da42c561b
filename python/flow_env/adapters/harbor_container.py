"""An episode on a task in Harbor's format in a container of the task's own image."""

from __future__ import annotations

import asyncio
import os
from typing import Dict, List, Optional

from ..door import reward
from ..door.engine import last
from ..door.program import Program
from ..limits import Json
from .harbor_images import TaskContainers
from .harbor_shell import HarborSettings, Shell
from .harbor_tasks import TEXT

FETCH = f'[ -e "$1" ] || [ -h "$1" ] || exit 3; [ -f "$1" ] && [ ! -h "$1" ] || exit 4; exec head -c {TEXT} "$1"'

GIVEN = "FLOW_GIVEN_"
"""Before the names of a task's variables in the client's environment: under their own names `LD_PRELOAD` and `DOCKER_HOST` would be the client's."""
LIMITED = 'for FLOW_GIVEN in ${!FLOW_GIVEN_@}; do export "${FLOW_GIVEN#FLOW_GIVEN_}=${!FLOW_GIVEN}"; unset "$FLOW_GIVEN"; done; unset FLOW_GIVEN; ulimit -c 0 -t "$1" -f "$2" && shift 2 && exec "$@"'
"""Gives variables their names, and each process its limits. As options of a container they would replace those that this machine sets for all containers."""


class Contained(Shell):
    def __init__(self, settings: HarborSettings, task: Json, seed: int, containers: TaskContainers) -> None:
        super().__init__(settings, task, seed, containers)
        self.containers = containers
        self.container = ""

    def about_bash(self) -> str:
        return ("Run a command in bash, in the container's working folder. Each call is a shell of its own; files, and what runs in the background, are there for the next one. "
                f"A command may take {self.settings.call_seconds:g} seconds; after that all processes in the container are killed.")

    @property
    def work(self) -> str:
        return self.folder  # of the client

    def variables(self) -> Dict[str, str]:
        return {"FLOW_FOLDER": self.folder}  # of the client alone, and its mark

    def boxed(self, command: List[str], folder: str, more: Optional[Dict[str, str]] = None) -> List[str]:
        given = [each for name in self.given(more) for each in ("--env", name)]
        work = ["--workdir", self.about["work"]] if self.about.get("copied") else []
        limits = [str(self.settings.cpu_seconds), str(self.settings.disk_mb << 10)]
        return [self.containers.engine.path, "exec", "--interactive", *work, *given, self.container, "bash", "-c", LIMITED, "bash", *limits, *command]

    def environment(self, more: Optional[Dict[str, str]] = None) -> Dict[str, str]:
        return {**super().environment(), **self.given(more)}

    def given(self, more: Optional[Dict[str, str]]) -> Dict[str, str]:
        """Variables of the tests as the client has them. Its command line, which everybody can read, has their names alone."""
        return {GIVEN + name if name.isascii() and name.isidentifier() else name: value for name, value in (more or {}).items()}

    async def begin(self) -> None:
        self.container = await self.containers.begun(self.about, self.seed, self.home)
        if self.about.get("copied"):
            await self.within("its working folder can't be made", 'mkdir -p "$1"', self.about["work"])
        if self.about.get("copied") and (self.source / "environment").is_dir():
            await self.brought(self.source / "environment", self.about["work"])

    async def brought(self, source: "os.PathLike[str]", to: str) -> None:
        await self.containers.carried(f"{os.path.basename(source)}/ can't be copied into its container", "cp", f"{source}/.", f"{self.container}:{to}")

    async def within(self, failure: str, script: str, *arguments: str) -> None:
        """Runs a script of ours as the container's root."""
        await self.containers.carried(failure, "exec", "--user", "0", self.container, "bash", "-c", script, "bash", *arguments)

    async def bring_tests(self) -> None:
        await self.within("the place of its tests can't be made", "rm -rf /tests /logs/verifier && mkdir -p /tests /logs/verifier && chmod 777 /logs/verifier")
        await self.brought(self.source / "tests", "/tests")

    async def stop(self, program: Program) -> None:
        await self.within("its processes can't be killed", "kill -9 -1")
        await program.end()

    @property
    def verifier(self) -> str:
        return os.path.join(self.home, "verifier")

    async def fetch_rewards(self) -> None:
        os.makedirs(self.verifier)
        for name in ("reward.txt", "reward.json"):
            path = f"/logs/verifier/{name}"
            command = ("exec", "--user", "0", self.container, "bash", "-c", FETCH, "bash", path)
            said = await asyncio.get_running_loop().run_in_executor(None, self.containers.engine.say, *command)
            if said.returncode == 4:
                raise reward.NoReward(f"{path} is no plain file")
            if said.returncode == 0:
                with open(os.path.join(self.verifier, name), "w", encoding="utf-8") as file:
                    file.write(said.stdout)
            elif said.returncode != 3:
                raise reward.NoReward(f"{path} can't be read: {last(said)}")
