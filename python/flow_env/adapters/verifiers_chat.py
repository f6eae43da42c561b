"""The chat loop that plays the seat of an agent in verifiers' episodes, inside this process.

The package's own program of this kind (its harness `null`) does the same in a process that `uv` starts for each episode. Here as there
every request for an answer goes through the package's interception, which keeps the trace.
"""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from typing import Any, Dict, List, Optional

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.compaction import bound_tool_message
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp

NAME = "flow_env_chat"
"""The package finds a harness by the name of a module, at the top level."""
sys.modules[NAME] = sys.modules[__name__]
__all__ = ["Chat"]

Json = Dict[str, Any]


class Chat(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """Asks for answers, calls the tools that they name, and ends with the first answer that calls none."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    SUPPORTS_TOOL_INTERCEPTION = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Dict[str, str], data: Any,
        tool_interception_url: Optional[str] = None,
    ) -> Any:
        system, prompt = self.resolve_prompt(data)
        messages: List[Json] = [{"role": "system", "content": system}] if system else []
        messages += [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [message_to_wire(message) for message in prompt or []]
        servers = {name: {"url": url, "timeout": self.config.tool_timeout} for name, url in mcp_urls.items()}
        async with AsyncExitStack() as stack:
            # The endpoint is on this machine: no proxy, no certificates, and whoever answers may take his time.
            http = await stack.enter_async_context(
                httpx.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=None, verify=False, trust_env=False))
            tools, owners, connections = await connect_mcp({"mcpServers": servers}, stack)

            async def result(call: Json) -> Json:
                """The message that answers a call."""
                name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
                if tool_interception_url:
                    response = await http.post(tool_interception_url, json={"tool_call_id": call["id"], "name": name, "arguments": arguments})
                    response.raise_for_status()
                    verdict = response.json()
                    if verdict["action"] == "stop":
                        raise RuntimeError(verdict["reason"])
                    if verdict["action"] == "deny":
                        return verdict["message"]  # type: ignore[no-any-return]
                content = await call_mcp(connections, owners, name, arguments)
                return {"role": "tool", "tool_call_id": call["id"], "name": name, "content": content}

            while True:
                body: Json = {"model": ctx.model, "messages": messages}
                answer = await http.post(f"{endpoint}/chat/completions", json={**body, "tools": tools} if tools else body)
                if answer.status_code != 200:
                    return vf.ProgramResult(exit_code=1, stdout="", stderr=answer.text)
                message = answer.json()["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    return vf.ProgramResult(exit_code=0, stdout="", stderr="")
                for call in message["tool_calls"]:
                    messages.append(bound_tool_message(await result(call)))
