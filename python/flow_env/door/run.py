"""One run of a program: its process, the rewards that it posts, its end."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple

from ..limits import Json
from . import reward as rewards
from .ask import Refusal
from .episode import Call, Episode, over
from .forking import Forks
from .program import Program
from .sandbox import Sandbox
from .settings import ProgramSettings


class Run(Episode):
    settings: ProgramSettings

    def __init__(self, settings: ProgramSettings, port: int, task: Json, seed: int, forks: Optional[Forks] = None, sandbox: Optional[Sandbox] = None,
                 socket: str = "") -> None:
        super().__init__(settings, task, seed)
        self.port, self.forks, self.sandbox, self.socket = port, forks, sandbox, socket
        self.posted: Optional[Json] = None
        self.store: Json = {}
        self.refusal: Optional[Refusal] = None
        """The last one that it got."""
        self.unread: List[str] = []
        self.digests: Dict[str, List[Call]] = {}

    def scrub(self, text: str) -> str:
        return super().scrub(text).replace(self.key, "KEY").replace(f"127.0.0.1:{self.port}", "127.0.0.1:PORT")

    async def played(self) -> Json:
        settings, program = self.settings, await self.started(self.settings.command, self.settings.folder, forks=self.forks)
        status = await program.wait()
        if self.outcome is not None:
            return self.outcome
        # Whether an answer that is still open comes in time depends on the clock, so none counts. One that a later call goes on from was read.
        self.unread = sorted(call.node.id for call in self.calls.values() if not call.delivered and not call.node.successors)
        answered = any(call.node.answer for call in self.calls.values() if call.node.id not in self.unread)
        self.close_calls()
        checker = settings.reward.get("command") if isinstance(settings.reward, dict) else None
        if status != 0:
            how = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
            return {"error": f"the program {how} after {self.so_far()}{program.last_words()}"}
        if not self.graph.nodes:
            why = self.refused() or ": it must use OPENAI_BASE_URL or ANTHROPIC_BASE_URL"
            return {"error": f"the program ended without a call of the model{why}{program.last_words()}"}
        if not answered:
            return {"error": f"the program ended after {self.so_far()}, and no call was answered{self.refused()}{program.last_words()}"}
        view = self.end(await self.rewarded(program, checker))
        return {**view, "unread": self.unread} if self.unread else view

    def door(self) -> Optional[Tuple[int, str]]:
        return self.port, self.socket

    def refused(self) -> str:
        return f"; its last request was refused: {self.refusal}" if self.refusal else ""

    def variables(self) -> Dict[str, str]:
        base = f"http://127.0.0.1:{self.port}/e/{self.key}"
        return {**super().variables(), "OPENAI_BASE_URL": base + "/v1", "OPENAI_API_KEY": self.key, "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": self.key,
                "ANTHROPIC_AUTH_TOKEN": self.key, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}

    async def rewarded(self, program: Program, checker: Optional[List[str]]) -> Json:
        """The reward, in the way that the settings say."""
        said: Optional[Json]
        way, output = self.settings.reward, program.output.decode("utf-8", "replace")
        if checker:
            said = await self.checked(checker, self.settings.folder, FLOW_OUTPUT=("output", bytes(program.output)))
            lacking = ""
        elif isinstance(way, dict):
            # In a folder that episodes share it could be another's.
            said = rewards.of_file(os.path.join(self.folder, way["file"]))
            lacking = f"the program wrote no reward to {way['file']} in FLOW_FOLDER{rewards.last_line(program.output)}"
        elif way == "output":
            said = rewards.of_text(output, "the last line of the program's output")
            lacking = f'the program printed no reward, such as {{"reward": 1.0, "won": true}}{rewards.last_line(program.output)}'
        else:
            said = {"reward": 0.0} if self.credit and self.posted is None else None
            lacking = f"the program posted no reward{rewards.last_line(program.output)}"
        return rewards.agreed(said, self.posted, lacking)

    def earn(self, body: Json) -> None:
        """A reward that the program posts: of the episode, or of a call. A later one replaces it."""
        if self.outcome is not None:
            raise over()
        named = body.pop("call", None)
        try:
            said = rewards.read(body, "the body")
        except rewards.NoReward as error:
            raise Refusal(str(error)) from None
        if named is None:
            self.posted = said
            return
        call = self.calls.get(str(named).rpartition("-" if "-" in str(named) else "_")[2])
        if call is None:
            raise Refusal(f"no call has the id {str(named)[:80]!r}: take the `id` of a response", 404)
        self.credit[call.node.id] = said["reward"]
