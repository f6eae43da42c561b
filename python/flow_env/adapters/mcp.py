"""Tools of MCP servers: `mcp:FILE.json`, whose object says

    servers   {NAME: {"command": [...]}}, started for each episode, or {NAME: {"url": "http://..."}}, connected to (streamable HTTP)
    tasks     a file of tasks, a JSON object a line, by `id` and `split` as for programs; `prompt` is what the user says, `system` the system message
    reward    {"command": [...]}: a checking command, run at the end; its last line is the reward, {"reward": 1.0, "won": true} or a number
    system    the system message of tasks that have none

and perhaps `turns`, `call_seconds`, `characters`, `episode_seconds`, `live`, `won_at`, `pass` and `sandbox` with its limits (see `door/settings.py`, `door/tools.py`). Paths are relative to the file, and its folder is
where servers and command run. They get FLOW_TASK, FLOW_SEED and FLOW_FOLDER, an empty folder of the episode; the command also gets FLOW_TRANSCRIPT, a file with a
message a line. The command runs once the servers have ended.

The policy is asked until an answer calls no tool, or `turns` times. A server that can't be started or reached, that dies or is late is a failure
of the episode, never a reward; what a tool itself calls an error goes back to the policy. A server over HTTP is shared by all episodes.
A tool that a server lists with an invalid schema is left out, and standard error says which.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Dict, List, Optional, Set, Tuple

from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.types import INVALID_PARAMS, Tool
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from ..door import ask, files, sandbox, sandboxes, strict
from ..door.episode import Episode, Failure, cause
from ..door.program import COMPLAINTS, said_last
from ..door.settings import SandboxSettings, Wrong, is_command
from ..door.tasks import Tasks
from ..door.tools import Conversation, ToolSettings, WrongCall
from ..door.world import World
from ..limits import Json


@dataclass(kw_only=True)
class McpSettings(ToolSettings, SandboxSettings):
    servers: Dict[str, Dict[str, Any]]
    tasks: str
    reward: Dict[str, Any]
    system: str = ""
    folder: str = "."
    """Not to be given: that of the file."""

    def check(self) -> None:
        super().check()
        self.texts("tasks")
        if not isinstance(self.servers, dict) or not self.servers:
            raise Wrong('`servers` names no server, such as {"files": {"command": ["python3", "server.py"]}}')
        for name, server in self.servers.items():
            kind, value = next(iter(server.items())) if isinstance(server, dict) and len(server) == 1 else ("", None)
            if not (kind == "command" and is_command(value) or kind == "url" and isinstance(value, str) and value.startswith("http")):
                raise Wrong(f'the server `{name}` is neither {{"command": [...]}} nor {{"url": "http://..."}}')
            if kind == "command":
                self.runs(server["command"], self.folder)
        if not (isinstance(self.reward, dict) and set(self.reward) == {"command"} and is_command(self.reward["command"])):
            raise Wrong(f'`reward` is {self.reward!r}; it is {{"command": [...]}}')
        self.runs(self.reward["command"], self.folder)
        if not isinstance(self.system, str):
            raise Wrong("`system` is no text")


class Mcp(World):
    def __init__(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:
                given = json.load(file)
        except (OSError, ValueError) as error:
            raise Wrong(f"mcp:FILE.json: the file can't be read: {path}: {error}") from None
        if not isinstance(given, dict):
            raise Wrong(f"{path} has no object")
        self.settings = self.about = McpSettings.of({**given, "folder": os.path.dirname(os.path.abspath(path))})
        self.tasks = Tasks.of_file(os.path.join(self.about.folder, self.about.tasks))
        for name, task in ((name, task) for some in self.tasks.splits.values() for name, task in some.items()):
            if not isinstance(task.get("prompt"), str) or not isinstance(task.get("system", ""), str):
                raise Wrong(f"the task {name} has no text `prompt`, or a `system` that is no text")
        commands = [server["command"] for server in self.about.servers.values() if "command" in server]
        self.sandbox = sandboxes.of(self.about, [*commands, self.about.reward["command"]], self.about.folder)
        self.name = f"mcp {version('mcp')} {', '.join(self.about.servers)}"

    def episode(self, task: Json, seed: int) -> Episode:
        return Served(self.about, task, seed, self.sandbox)

    async def end(self) -> None:
        if self.sandbox is not None:
            self.sandbox.close()


class Served(Conversation):
    settings: McpSettings

    def __init__(self, settings: McpSettings, task: Json, seed: int, box: Optional[sandbox.Sandbox] = None) -> None:
        super().__init__(settings, task, seed)
        self.sandbox = box
        self.given = task
        self.clients: Dict[str, Tuple[Client, str, str]] = {}
        """Of each tool the client, the tool's name there and the server."""

    async def played(self) -> Json:
        system = self.given.get("system", self.settings.system)
        self.messages = [*([{"role": "system", "content": system}] if system else []), {"role": "user", "content": self.given["prompt"]}]
        with open(os.path.join(self.home, "complaints"), "w", encoding="utf-8") as complaints:
            async with AsyncExitStack() as stack:
                for name, server in self.settings.servers.items():
                    await self.connect(stack, name, server, complaints)
                whole = await self.converse(self.settings.turns)
        if self.sandbox is not None:  # what servers left running in it could change what is checked
            await self.swept()
        transcript = "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in self.messages)
        said = await self.checked(self.settings.reward["command"], self.settings.folder, FLOW_TRANSCRIPT=("transcript.jsonl", transcript))
        return self.end(said, truncated=not whole)

    async def connect(self, stack: AsyncExitStack, name: str, server: Json, complaints: Any) -> None:
        seconds = self.settings.call_seconds
        if "url" in server:
            client = Client(server["url"])
        else:
            command, *arguments = self.boxed(server["command"], self.settings.folder)
            parameters = StdioServerParameters(command=command, args=arguments, env=self.environment(), cwd=self.settings.folder)
            client = Client(stdio_client(parameters, complaints))
        try:
            async with asyncio.timeout(seconds):
                await stack.enter_async_context(client)
                odd = usable_alone(client)
                tools = await listed(client)
        except TimeoutError:
            raise Failure(f"the server `{name}` didn't list its tools within `call_seconds` ({seconds:g} s)") from None
        except Exception as error:
            raise Failure(f"the server `{name}` can't be used: {cause(error)}") from None
        for tool, why in odd.items():
            self.leave_out(name, tool, why)
        if odd and not tools:
            raise Failure(f"no tool of the server `{name}` can be used: {next(iter(odd))}: {next(iter(odd.values()))}")
        for tool in tools:
            known = tool.name if tool.name not in self.clients else f"{name}_{tool.name}"
            self.clients[known] = client, tool.name, name
            self.tools.append(ask.tool(known, tool.description, tool.input_schema))

    def leave_out(self, server: str, tool: str, why: str) -> None:
        """Says once that a tool can't be used; the others of its server can."""
        if (server, tool) not in LEFT_OUT:
            LEFT_OUT.add((server, tool))
            print(f"the tool `{tool}` of the server `{server}` is left out: {why}", file=sys.stderr, flush=True)

    async def call(self, name: str, arguments: Json) -> str:
        client, tool, server = self.clients[name]
        try:
            async with asyncio.timeout(self.settings.call_seconds):
                result = await client.call_tool(tool, arguments)
        except TimeoutError:
            raise Failure(f"the tool `{name}` took longer than `call_seconds` ({self.settings.call_seconds:g} s)") from None
        except MCPError as error:
            if error.error.code == INVALID_PARAMS:
                raise WrongCall(error.error.message) from None
            raise Failure(f"the server `{server}` failed in `{tool}`: {error.error.message}") from None
        parts = [part(block) for block in result.content]
        if not parts and result.structured_content is not None:
            parts = [json.dumps(result.structured_content, ensure_ascii=False)]
        return ("Error: " if result.is_error else "") + "\n".join(parts)

    def last_words(self) -> str:
        """Of the servers, unless the command has run."""
        if self.programs:
            return super().last_words()
        try:
            return said_last((files.read(os.path.join(self.home, "complaints"), COMPLAINTS, end=True) or "").encode())
        except files.Odd:
            return ""


LEFT_OUT: Set[Tuple[str, str]] = set()
"""Servers and their tools of which it was said."""


def usable_alone(client: Client) -> Dict[str, str]:
    """Takes tools that the client library or flow refuses out of what a server lists, which would be refused whole for one of them. Gives
    these tools, with the reason, as they come."""
    odd: Dict[str, str] = {}
    session = client.session
    dispatcher = session._dispatcher
    send = dispatcher.send_raw_request

    async def checked(method: str, params: Any, opts: Any = None) -> Dict[str, Any]:
        raw = await send(method, params, opts)
        if method != "tools/list" or not isinstance(raw.get("tools"), list):
            return raw
        good = []
        for place, each in enumerate(raw["tools"]):
            try:
                strict.loads(json.dumps(each))
                validate_server_result(method, session.protocol_version or "2025-11-25", {**raw, "tools": [each]})
                Tool.model_validate(each)
                good.append(each)
            except KeyError:  # a version without a schema of its own
                good.append(each)
            except ValueError as error:
                name = each.get("name") if isinstance(each, dict) else None
                odd[name if isinstance(name, str) else f"number {place + 1}"] = said(error)
        return {**raw, "tools": good}

    dispatcher.send_raw_request = checked  # type: ignore[method-assign]
    return odd


def said(error: ValueError) -> str:
    """The first of the faults that pydantic finds, with its place."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][2:])
    return f"{place}: {first['msg']}" if place else str(first["msg"])


async def listed(client: Client) -> List[Any]:
    tools: List[Any] = []
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            return tools


def part(block: Any) -> str:
    """The text of a part of a result; what is none is named."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource" and hasattr(block.resource, "text"):
        return str(block.resource.text)
    return f"[{block.type}]"


WORLD = Mcp
