"""The protocol of Anthropic's Messages."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping

from ..limits import Json
from .ask import Ask, Refusal, Reply, assistant, forced, limit_of, list_of, model_of, refuse, settled, stops_of, text_of, tool, tool_call
from .chat import Event
from .settings import canonical

BYTES = 4
"""`count_tokens` is an estimate: a token for so many bytes of the messages and tools as JSON."""


def tools_of(body: Mapping[str, Any]) -> List[Json]:
    choice = body.get("tool_choice") or {}
    kind = choice.get("type", "auto") if isinstance(choice, dict) else choice
    tools = []
    for given in list_of(body, "tools"):
        if given.get("type", "custom") not in ("custom", None):
            raise Refusal(f"tools of type `{given['type']}` aren't supported here: only such with an `input_schema` are", param="tools")
        tools.append(tool(given.get("name"), given.get("description"), given.get("input_schema")))
    return [] if kind == "none" else tools


def messages_of(given: Json) -> List[Json]:
    """A message has blocks; the result of a tool becomes a message of its own. Thoughts are dropped."""
    role, content = given.get("role"), given.get("content")
    if role not in ("user", "assistant", "system"):
        raise Refusal(f"a message has the role `{role}`")
    if not isinstance(content, list):
        return [{"role": role, "content": text_of(content)}]
    texts: List[Any] = []
    calls: List[Json] = []
    out: List[Json] = []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            calls.append(tool_call(block.get("id"), block.get("name"), block.get("input")))
        elif kind == "tool_result":
            out.append({"role": "tool", "content": text_of(block.get("content")), "tool_call_id": str(block.get("tool_use_id") or "")})
        elif kind not in ("thinking", "redacted_thinking"):
            texts.append(block)
    if role == "assistant":
        return [assistant(text_of(texts), calls)]
    return [*out, {"role": role, "content": text_of(texts)}] if texts or not out else out


class Anthropic:
    prefix = "msg_"

    def parse(self, body: Json, store: Json) -> Ask:
        refuse(body, mcp_servers=([],), container=(), output_format=())
        output = body.get("output_config")
        if isinstance(output, dict):
            refuse(output, format=())
        messages = [message for given in list_of(body, "messages") for message in messages_of(given)]
        if not messages:
            raise Refusal("messages: at least one message is required")
        if messages[-1]["role"] == "assistant":
            raise Refusal("this model does not support assistant message prefill: the conversation must end with a user message")
        system = text_of(body.get("system"), "system")
        head = [{"role": "system", "content": system}] if system else []
        choice, tools = body.get("tool_choice"), tools_of(body)
        return Ask(model_of(body), settled([*head, *messages]), tools, limit_of(body, "max_tokens"), stops_of(body, "stop_sequences"),
                   bool(body.get("stream")), isinstance(choice, dict) and bool(choice.get("disable_parallel_tool_use")),
                   must_call=forced(choice, tools))

    def answer(self, ask: Ask, reply: Reply, call_id: str, store: Json) -> Json:
        content: List[Json] = [{"type": "text", "text": reply.content}] if reply.content or not reply.calls else []
        content += [{"type": "tool_use", "id": each, "name": name, "input": arguments} for each, name, arguments in reply.calls]
        return {
            "id": self.prefix + call_id, "type": "message", "role": "assistant", "model": ask.model, "content": content,
            "stop_reason": "max_tokens" if reply.cut else "tool_use" if reply.calls else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": reply.prompt_tokens, "output_tokens": reply.response_tokens},
        }

    def count(self, ask: Ask) -> Json:
        return {"input_tokens": len(canonical([ask.messages, ask.tools]).encode()) // BYTES + 1}

    def events(self, ask: Ask, whole: Json) -> Iterator[Event]:
        """The answer as a stream: each block in one delta."""

        def event(kind: str, /, **fields: Any) -> Event:
            return kind, {"type": kind, **fields}

        usage = whole["usage"]
        yield event("message_start", message={**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}})
        for index, block in enumerate(whole["content"]):
            if block["type"] == "text":
                empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": canonical(block["input"])}
            yield event("content_block_start", index=index, content_block=empty)
            yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        yield event("message_delta", delta={"stop_reason": whole["stop_reason"], "stop_sequence": None}, usage=usage)
        yield event("message_stop")

    def error(self, refusal: Refusal) -> Json:
        return {"type": "error", "error": {"type": refusal.kind, "message": str(refusal)}}
