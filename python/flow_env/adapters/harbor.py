"""Tasks in Harbor's format, where they need no container: `harbor:FOLDER[,key=value...]`.

FOLDER is a task, or has tasks: each a folder with `instruction.md`, `task.toml` and `tests/test.sh`. The policy has one tool, `bash`, and works until an answer
calls none, or `turns` times. Then `tests/test.sh` runs, and its `/logs/verifier/reward.txt` or `reward.json` has the reward. The last tenth of the tasks is `test`. The
expert runs `solution/solve.sh`, where there is one.

WITHOUT `sandbox=bubblewrap` THIS IS NO SANDBOX. Commands run on this machine as the user that flow runs as, with its files and its network. They start in a working folder of the
episode, are killed with their children when they have ended or after `call_seconds`, and their output is bounded; nothing else holds them. Play only tasks and models that you trust.

With `sandbox=bubblewrap` each command and `tests/test.sh` run in one (`door/sandbox.py`), with this machine's `/usr` and `/etc` and no network unless `network=true`. The WORKDIR of
`environment/Dockerfile` (else `/app`), `/logs`, `/tests` and `/root` are folders of the episode at these places, and nothing is rewritten.

Without a sandbox paths are rewritten: the WORKDIR of `environment/Dockerfile` (else `/app`), `/logs`, `/tests` and `/root` stand for folders of the episode. They are replaced
in the commands of the policy and in the texts of `environment/` and `tests/`, where they begin a path; in outputs the other way round. The working folder is a
fresh copy of `environment/` if there is no Dockerfile or it copies its context (`COPY . .`), else empty. `tests/` is copied only when the policy has ended.

A task that needs more is refused when flow starts, with the reason: a Dockerfile with other lines than FROM, WORKDIR and `COPY . .`, an image of its own, several containers or steps,
a variable that isn't a plain text. `[agent] timeout_sec` isn't used, since an episode waits for its policy; `[verifier] timeout_sec` is.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from ..door import ask, files, reward, sandbox, strict
from ..door.episode import Episode, Failure
from ..door.program import Program
from ..door.removal import remove
from ..door.settings import SandboxSettings, Tasks, Wrong
from ..door.tools import Conversation, ToolSettings
from ..door.world import World
from ..limits import INFO, NAME, TASK, Json, is_number
from .arguments import split

TEXT = 1 << 20
"""Files of so many bytes may be texts in which paths are rewritten."""
VERIFIER_SECONDS = 600.0
ONE_FILE = "exec bash -c \"$1\" 2>&1"


@dataclass(kw_only=True)
class HarborSettings(ToolSettings, SandboxSettings):
    live: int = 16


class Harbor(World):
    abilities = ("expert",)

    def __init__(self, arguments: str) -> None:
        plain, settings = split(arguments)
        if len(plain) != 1 or not os.path.isdir(plain[0]):
            raise Wrong(f"harbor:FOLDER[,key=value...] names a folder, not `{arguments}`")
        self.settings = self.limits = HarborSettings.of(settings)
        root = Path(plain[0]).resolve()
        folders = [root] if (root / "task.toml").is_file() else sorted(path.parent for path in root.glob("*/task.toml"))
        if not folders:
            raise Wrong(f"{plain[0]} has no task: no `task.toml` in it or in a folder of it")
        self.sandbox = sandbox.of(self.limits, [["bash"]], None)
        tasks, wrong = {}, []
        for folder in folders:
            try:
                tasks[folder.name] = read(folder)
                if self.sandbox and any(sandbox.inside(tasks[folder.name]["work"], one) for one in self.sandbox.unwritable):
                    raise Wrong(f"its WORKDIR {tasks[folder.name]['work']} is in a folder that a sandbox can't write to")
            except Wrong as error:
                wrong.append(f"{folder.name}: {error}")
        if wrong:
            raise Wrong("these tasks can't be played without a container:\n  " + "\n  ".join(wrong[:20]))
        self.tasks = Tasks.held_out(tasks)
        self.name = f"harbor {root.name}"

    def episode(self, task: Json, seed: int) -> Episode:
        return Shell(self.limits, task, seed, self.sandbox)


def read(folder: Path) -> Json:
    """A task; raises `Wrong` where it needs a container."""
    try:
        about = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
        instruction = (folder / "instruction.md").read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Wrong(f"task.toml or instruction.md can't be read: {error}") from None
    if not TASK.match(folder.name):
        raise Wrong("its name isn't of 1 to 128 letters, digits and . _ / : + -")
    if not (folder / "tests" / "test.sh").is_file():
        raise Wrong("it has no tests/test.sh")
    verifier, environment = about.get("verifier", {}), about.get("environment", {})
    if about.get("steps"):
        raise Wrong("it has several steps")
    if "docker_image" in environment or "environment" in verifier:
        raise Wrong("task.toml names an image or an environment of its own")
    if list((folder / "environment").glob("docker-compose*")):
        raise Wrong("environment/ has several containers")
    variables = {**environment.get("env", {}), **verifier.get("env", {})}
    if not all(isinstance(value, str) and "${" not in value for value in variables.values()):
        raise Wrong(f"task.toml has variables that aren't plain texts: {', '.join(variables)}")
    work, copied = dockerfile(folder / "environment" / "Dockerfile")
    return {"folder": str(folder), "instruction": instruction, "work": work, "copied": copied, "env": environment.get("env", {}), "verifier_env": variables,
            "seconds": verifier.get("timeout_sec", VERIFIER_SECONDS)}


def dockerfile(path: Path) -> Tuple[str, bool]:
    """The working folder that a Dockerfile says, and whether the files beside it belong there."""
    if not path.is_file():
        return "/app", True
    work, copied = "/app", False
    text = re.sub(r"^\s*#.*\n?", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in re.sub(r"\\\s*\n", " ", text).splitlines():
        words = line.split()
        verb = words[0].upper() if words else "FROM"
        if verb == "WORKDIR" and len(words) == 2 and re.fullmatch(r"/[\w.-]+(/[\w.-]+)*/?", words[1]):
            work = words[1].rstrip("/")
        elif verb == "COPY" and words[1:] in ([".", "."], [".", "./"], [".", work], [".", work + "/"]):
            copied = True
        elif verb != "FROM":
            raise Wrong(f"environment/Dockerfile has `{line.strip()[:80]}`: only FROM, WORKDIR and `COPY . .` can be had")
    return work, copied


class Shell(Conversation):
    ending = "The task is over."

    def __init__(self, settings: HarborSettings, task: Json, seed: int, box: Optional[sandbox.Sandbox] = None) -> None:
        super().__init__(settings, task, seed)
        self.sandbox = box
        self.about = task
        self.source = Path(task["folder"])
        self.places: Dict[str, str] = {task["work"]: os.path.join(self.home, "work"), "/logs": os.path.join(self.home, "logs"), "/tests": os.path.join(self.home, "tests"), "/root": self.folder}
        """The folders that paths stand for."""
        self.began = re.compile(r"(?<![\w./-])(" + "|".join(map(re.escape, self.places)) + r")(?![\w.-])")
        self.done = 0
        text = (f"Run a command in bash, in the folder {task['work']}. Each call is a shell of its own; what still runs at its end is killed. "
                f"A command may take {settings.call_seconds:g} seconds.")
        self.tools = [ask.tool("bash", text, {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]})]
        self.messages = [{"role": "user", "content": task["instruction"]}]

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
        for folder in self.places.values():
            os.makedirs(folder, exist_ok=True)
        os.rmdir(self.places["/tests"])
        if self.about["copied"] and (self.source / "environment").is_dir():
            await self.copy(self.source / "environment", self.work)
        whole = await self.converse(self.settings.turns)
        return self.end(await self.verified(), truncated=not whole)

    async def verified(self) -> Json:
        """The reward that the task's tests write."""
        verifier = os.path.join(self.places["/logs"], "verifier")
        for folder in (verifier, self.places["/tests"]):
            await asyncio.get_running_loop().run_in_executor(None, remove, folder)
        os.makedirs(verifier)
        os.makedirs(self.work, exist_ok=True)
        await self.copy(self.source / "tests", self.places["/tests"])
        script = self.here("/tests/test.sh")
        seconds = float(self.about["seconds"])
        program = await self.started(["bash", script], self.work, self.about["verifier_env"])
        try:
            status = await asyncio.wait_for(program.wait(), seconds)
        except asyncio.TimeoutError:
            raise Failure(f"tests/test.sh took longer than {seconds:g} s (`[verifier] timeout_sec`)") from None
        said = written(os.path.join(verifier, "reward.txt"), os.path.join(verifier, "reward.json"))
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
            await program.end()
            how = f"\n[killed after {seconds:g} s]"
        self.programs.remove(program)
        return self.seen(program) + how

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


def written(text: str, table: str) -> Optional[Json]:
    """The reward in a file with a number, or in one with numbers by name, of which `reward` or the only one counts; the others are `info`."""
    said = reward.of_file(text)
    try:
        given = None if said is not None else files.read(table, TEXT)
        if given is None:
            return said
        numbers = strict.loads(given)
    except files.Odd as odd:
        raise reward.NoReward(f"/logs/verifier/reward.json {odd}") from None
    except ValueError as error:
        raise reward.NoReward(f"/logs/verifier/reward.json is no JSON: {error}") from None
    name = "reward" if not isinstance(numbers, dict) or "reward" in numbers or len(numbers) != 1 else next(iter(numbers))
    if not isinstance(numbers, dict) or not is_number(numbers.get(name)):
        raise reward.NoReward(f"/logs/verifier/reward.json has no number `reward`: {str(numbers)[:120]}")
    others: List[Tuple[str, float]] = [(key, value) for key, value in numbers.items() if key != name and NAME.match(key) and is_number(value)]
    return {"reward": numbers[name], "info": dict(others[:INFO])}


WORLD = Harbor
