"""Tasks in Harbor's format: `harbor:FOLDER[,key=value...]`.

FOLDER is a task, or has tasks: each a folder with `instruction.md`, `task.toml` and `tests/test.sh`. The policy has one tool, `bash`, and works until an answer
calls none, or `turns` times. Then `tests/test.sh` runs, and its `/logs/verifier/reward.txt` or `reward.json` has the reward. The last tenth of the tasks is `test`. The
expert runs `solution/solve.sh`, where there is one.

WITHOUT `sandbox=...` THIS IS NO SANDBOX. Commands run on this machine as the user that flow runs as, with its files and its network. They start in a working folder of the
episode, are killed with their children when they have ended or after `call_seconds`, and their output is bounded; nothing else holds them. Play only tasks and models that you trust.

With `sandbox=docker` or `sandbox=podman` an episode has a container of the task's own image (`harbor_container.py`): `docker_image` of task.toml, or built from
`environment/Dockerfile`, or `image=NAME`. docs/agents.md says what a build may do.

With `sandbox=bubblewrap` each command and `tests/test.sh` run in one (`door/bubblewrap.py`), with this machine's `/usr` and `/etc` and no network unless `network=true`. The WORKDIR of
`environment/Dockerfile` (else `/app`), `/logs`, `/tests` and `/root` are folders of the episode at these places, and nothing is rewritten.

Without a sandbox paths are rewritten: the WORKDIR of `environment/Dockerfile` (else `/app`), `/logs`, `/tests` and `/root` stand for folders of the episode. They are replaced
in the commands of the policy and in the texts of `environment/` and `tests/`, where they begin a path; in outputs the other way round. The working folder is a
fresh copy of `environment/` if there is no Dockerfile or it copies its context (`COPY . .`), else empty. `tests/` is copied only when the policy has ended.

A task that needs more is refused when flow starts, with the reason. Without a container: a Dockerfile with other lines than FROM, WORKDIR and `COPY . .`, an image of its own.
In any case: several containers or steps, a variable that isn't a plain text. `[agent] timeout_sec` isn't used, since an episode waits for its policy; `[verifier] timeout_sec` is.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..door import sandbox, sandboxes
from ..door.episode import Episode
from ..door.settings import Wrong
from ..door.tasks import Tasks
from ..door.world import World
from ..limits import Json
from .arguments import split
from .harbor_container import Contained
from .harbor_images import TaskContainers
from .harbor_shell import HarborSettings, Shell
from .harbor_tasks import read


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
        self.containers = TaskContainers(self.limits) if self.limits.contained else None
        self.sandbox = self.containers or sandboxes.of(self.limits, [["bash"]], None)
        tasks, wrong = {}, []
        for folder in folders:
            try:
                task = read(folder, self.limits.contained)
                if self.containers:
                    self.containers.check(task)
                elif self.sandbox and any(sandbox.inside(task["work"], one) for one in self.sandbox.unwritable):
                    raise Wrong(f"its WORKDIR {task['work']} is in a folder that a sandbox can't write to")
                tasks[folder.name] = task
            except Wrong as error:
                wrong.append(f"{folder.name}: {error}")
        if wrong:
            raise Wrong(f"these tasks can't be played {'in' if self.containers else 'without'} a container:\n  " + "\n  ".join(wrong[:20]))
        self.tasks = Tasks.held_out(tasks)
        self.name = f"harbor {root.name}"

    def episode(self, task: Json, seed: int) -> Episode:
        return Contained(self.limits, task, seed, self.containers) if self.containers else Shell(self.limits, task, seed, self.sandbox)

    async def end(self) -> None:
        if self.sandbox is not None:
            self.sandbox.close()


WORLD = Harbor
