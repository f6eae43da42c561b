"""The protocol of chat completions."""

from __future__ import annotations

import time
from typing import Any, Iterator, List, Mapping, Optional, Tuple

from ..limits import Json, wrong_actions
from .ask import Ask, Refusal, Reply, assistant, forced, limit_of, list_of, model_of, refuse, settled, stops_of, text_of, tool, tool_call
from .settings import canonical

Event = Tuple[Optional[str], Optional[Json]]
"""Name and data of an event of a stream; no data: the end."""
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def tools_of(body: Mapping[str, Any]) -> List[Json]:
    """The tools that may be called."""
    tools = []
    for given in list_of(body, "tools"):
        function = given.get("function")
        if given.get("type", "function") != "function" or not isinstance(function, dict):
            raise Refusal(f"tools of type `{given.get('type')}` aren't supported here: only functions are", param="tools")
        tools.append(tool(function.get("name"), function.get("description"), function.get("parameters")))
    return [] if body.get("tool_choice") == "none" else tools


def message_of(given: Json) -> Json:
    role = ROLES.get(str(given.get("role")))
    if role is None or given.get("function_call"):
        raise Refusal(f"a message has the role `{given.get('role')}`, or calls a function in the old form", param="messages")
    content = text_of(given.get("content"))
    if role == "assistant":
        calls = []
        for call in list_of(given, "tool_calls"):
            function = call.get("function")
            if not isinstance(function, dict):
                raise Refusal("only functions are called here", param="messages")
            calls.append(tool_call(call.get("id"), function.get("name"), function.get("arguments")))
        return assistant(content, calls)
    if role == "tool":
        return {"role": "tool", "content": content, "tool_call_id": str(given.get("tool_call_id") or "")}
    return {"role": role, "content": content}


def choices_of(body: Mapping[str, Any]) -> List[str]:
    """The texts of which the answer is one, in vLLM's extensions of the protocol. Its other ways to bind an answer are refused."""
    refuse(body, guided_json=(), guided_regex=(), guided_grammar=())
    choices, param = body.get("guided_choice"), "guided_choice"
    structured = body.get("structured_outputs")
    if structured is not None:
        if not isinstance(structured, dict) or set(structured) != {"choice"} or choices is not None:
            raise Refusal('of `structured_outputs` only {"choice": [...]} is supported here, and no `guided_choice` beside it', param="structured_outputs")
        choices, param = structured["choice"], "structured_outputs"
    if choices is None:
        return []
    wrong = wrong_actions(choices if choices else None, False)
    if wrong:
        raise Refusal(wrong[0].replace("`actions`", "the list of choices"), param=param)
    return [str(choice) for choice in choices]


class Chat:
    prefix = "chatcmpl-"

    def parse(self, body: Json, store: Json) -> Ask:
        refuse(body, n=(1,), logit_bias=({},), presence_penalty=(0,), frequency_penalty=(0,), logprobs=(False,), top_logprobs=(0,), functions=([],),
               function_call=("none", "auto"), response_format=({"type": "text"},), modalities=(["text"],), audio=(), prediction=(), web_search_options=())
        messages = list_of(body, "messages")
        if not messages:
            raise Refusal("`messages` is empty", param="messages")
        options, tools = body.get("stream_options"), tools_of(body)
        return Ask(
            model_of(body), settled([message_of(message) for message in messages]), tools,
            limit_of(body, "max_completion_tokens", "max_tokens"), stops_of(body, "stop"), bool(body.get("stream")),
            body.get("parallel_tool_calls") is False,
            {"usage": isinstance(options, dict) and bool(options.get("include_usage"))}, choices_of(body), forced(body.get("tool_choice"), tools),
        )

    def answer(self, ask: Ask, reply: Reply, call_id: str, store: Json) -> Json:
        message: Json = {"role": "assistant", "content": reply.content or (None if reply.calls else ""), "refusal": None}
        if reply.calls:
            message["tool_calls"] = [{"id": each, "type": "function", "function": {"name": name, "arguments": canonical(arguments)}}
                                     for each, name, arguments in reply.calls]
        finish = "length" if reply.cut else "tool_calls" if reply.calls else "stop"
        return {
            "id": self.prefix + call_id, "object": "chat.completion", "created": int(time.time()), "model": ask.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
            "usage": {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.response_tokens,
                      "total_tokens": reply.prompt_tokens + reply.response_tokens},
        }

    def events(self, ask: Ask, whole: Json) -> Iterator[Event]:
        """The answer as a stream: each block in one delta."""
        usage, (choice,) = whole.pop("usage"), whole.pop("choices")
        whole["object"] = "chat.completion.chunk"
        message = choice["message"]

        def chunk(delta: Json, finish: Optional[str] = None) -> Event:
            return None, {**whole, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]}

        yield chunk({"role": "assistant", "content": message["content"]})
        for index, call in enumerate(message.get("tool_calls", [])):
            yield chunk({"tool_calls": [{"index": index, **call}]})
        yield chunk({}, choice["finish_reason"])
        if ask.extra["usage"]:
            yield None, {**whole, "choices": [], "usage": usage}
        yield None, None

    def error(self, refusal: Refusal) -> Json:
        text, code = str(refusal), refusal.code
        if refusal.tokens:
            had, most = refusal.tokens
            text = (f"This model's maximum context length is {most} tokens. However, your messages resulted in {had} tokens. "
                    "Please reduce the length of the messages.")
            code = "context_length_exceeded"
        return {"error": {"message": text, "type": refusal.kind, "param": refusal.param, "code": code}}
