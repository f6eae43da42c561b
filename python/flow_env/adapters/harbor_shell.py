"""An episode on a task in Harbor's format. Its commands run on this machine, in a sandbox or in none."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from ..door import ask, reward, sandbox
from ..door.episode import Failure
from ..door.program import Program
from ..door.removal import remove
from ..door.settings import SandboxSettings, Wrong
from ..door.tools import Conversation, ToolSettings
from ..limits import Json
from .harbor_tasks import TEXT, written

ONE_FILE = "exec bash -c \"$1\" 2>&1"


@dataclass(kw_only=True)
class HarborSettings(ToolSettings, SandboxSettings):
    needs_image = False
    live: int = 16

    def check(self) -> None:
        super().check()
        if self.contained and (self.hide or self.write_folder):
            raise Wrong("`hide` and `write_folder` aren't for tasks in containers, which see nothing of this machine")


class Shell(Conversation):
    ending = "The task is over."

    settings: HarborSettings

    def __init__(self, settings: HarborSettings, task: Json, seed: int, box: Optional[sandbox.Sandbox] = None) -> None:
        super().__init__(settings, task, seed)
        self.sandbox = box
        self.about = task
        self.source = Path(task["folder"])
        self.places: Dict[str, str] = {task["work"]: os.path.join(self.home, "work"), "/logs": os.path.join(self.home, "logs"), "/tests": os.path.join(self.home, "tests"), "/root": self.folder}
        """The folders that paths stand for."""
        self.began = re.compile(r"(?<![\w./-])(" + "|".join(map(re.escape, self.places)) + r")(?![\w.-])")
        self.done = 0
        self.tools = [ask.tool("bash", self.about_bash(), {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]})]
        self.messages = [{"role": "user", "content": task["instruction"]}]

    def about_bash(self) -> str:
        return (f"Run a command in bash, in the folder {self.about['work']}. Each call is a shell of its own; what still runs at its end is killed. "
                f"A command may take {self.settings.call_seconds:g} seconds.")

    @property
    def work(self) -> str:
        return self.places[self.about["work"]]

    def variables(self) -> Dict[str, str]:
        # The task itself has the path of its solution.
        known = {name: value for name, value in super().variables().items() if name not in ("FLOW_TASK", "FLOW_TASK_FILE")}
        home = self.folder if self.sandbox is None else "/root"
        return {**known, "FLOW_FOLDER": home, **self.about["env"], "HOME": home}

    def writable(self) -> List[Tuple[str, str]]:
        return [(folder, path) for path, folder in self.places.items() if os.path.isdir(folder)]

    def boxed(self, command: List[str], folder: str, more: Optional[Dict[str, str]] = None) -> List[str]:
        return super().boxed(command, folder if self.sandbox is None else self.about["work"], more)

    def here(self, text: str) -> str:
        """A text in which the paths of the task are those of this machine, where they differ."""
        return text if self.sandbox else self.began.sub(lambda match: self.places[match.group(1)], text)

    async def played(self) -> Json:
        self.input = ""
        os.unlink(self.file)
        await self.begin()
        whole = await self.converse(self.settings.turns)
        return self.end(await self.verified(), truncated=not whole)

    async def begin(self) -> None:
        """Makes what the task begins with."""
        for folder in self.places.values():
            os.makedirs(folder, exist_ok=True)
        os.rmdir(self.places["/tests"])
        if self.about["copied"] and (self.source / "environment").is_dir():
            await self.copy(self.source / "environment", self.work)

    async def bring_tests(self) -> None:
        """Puts the task's tests in their place, whatever the policy has made there."""
        for folder in (self.verifier, self.places["/tests"]):
            await asyncio.get_running_loop().run_in_executor(None, remove, folder)
        os.makedirs(self.verifier)
        os.makedirs(self.work, exist_ok=True)
        await self.copy(self.source / "tests", self.places["/tests"])

    @property
    def verifier(self) -> str:
        """The folder of this machine that has the reward."""
        return os.path.join(self.places["/logs"], "verifier")

    async def fetch_rewards(self) -> None:
        """Brings the rewards to that folder."""

    async def verified(self) -> Json:
        """The reward that the task's tests write."""
        await self.bring_tests()
        seconds = float(self.about["seconds"])
        program = await self.started(["bash", self.here("/tests/test.sh")], self.work, self.about["verifier_env"])
        try:
            status = await asyncio.wait_for(program.wait(), seconds)
        except asyncio.TimeoutError:
            raise Failure(f"tests/test.sh took longer than {seconds:g} s (`[verifier] timeout_sec`)") from None
        await self.fetch_rewards()
        said = written(os.path.join(self.verifier, "reward.txt"), os.path.join(self.verifier, "reward.json"))
        if said is None:
            end = program.output.decode("utf-8", "replace").strip()[-1000:]
            raise reward.NoReward(f"tests/test.sh ended with exit status {status} and wrote no reward to /logs/verifier/reward.txt or reward.json; it printed: {end or 'nothing'}")
        return said

    async def call(self, name: str, arguments: Json) -> str:
        self.done += 1
        os.makedirs(self.work, exist_ok=True)
        command = self.here(arguments["command"])
        if "\0" in command:
            return "[a command can't have a NUL]"
        program = await self.started(["bash", "-c", ONE_FILE, "bash", command], self.work)
        seconds = self.settings.call_seconds
        try:
            status = await asyncio.wait_for(program.wait(), seconds)
            how = f"\n[exit status {status}]" if status else ""
        except asyncio.TimeoutError:
            await self.stop(program)
            how = f"\n[killed after {seconds:g} s]"
        self.programs.remove(program)
        return self.seen(program) + how

    async def stop(self, program: Program) -> None:
        """Ends a command that takes too long."""
        await program.end()

    def seen(self, program: Program) -> str:
        """What a program has printed, with the paths that the policy knows."""
        text = program.output.decode("utf-8", "replace").rstrip("\n")
        for path, folder in self.places.items():
            text = text.replace(folder, path)
        return text

    async def copy(self, source: Path, to: str) -> None:
        """A copy of a folder, with its paths rewritten."""

        def copied(one: str, other: str) -> str:
            shutil.copy2(one, other)
            if os.path.getsize(other) <= TEXT:
                try:
                    with open(other, encoding="utf-8", newline="") as file:
                        text = file.read()
                except UnicodeDecodeError:
                    return other
                changed = self.here(text)
                if changed != text:
                    with open(other, "w", encoding="utf-8", newline="") as file:
                        file.write(changed)
            return other

        left_out = shutil.ignore_patterns("Dockerfile") if source.name == "environment" else None
        await asyncio.get_running_loop().run_in_executor(
            None, lambda: shutil.copytree(source, to, symlinks=True, ignore=left_out, copy_function=copied, dirs_exist_ok=True))

    def expert(self) -> Optional[str]:
        try:
            script = (self.source / "solution" / "solve.sh").read_text(encoding="utf-8")
        except OSError:
            return None
        call = {"name": "bash", "arguments": {"command": script}}
        return "Done." if self.done else f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"
