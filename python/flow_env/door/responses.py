"""The protocol of Responses."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from ..limits import Json
from .ask import Ask, Refusal, Reply, assistant, forced, limit_of, list_of, model_of, refuse, settled, text_of, tool, tool_call
from .chat import ROLES, Chat, Event
from .graph import answer
from .settings import canonical

CUSTOM = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
"""A tool that takes free text is a function with one text."""


def tools_of(body: Mapping[str, Any]) -> Tuple[List[Json], Dict[str, Tuple[str, str]]]:
    """The tools, and of those that aren't plain functions their kind (`custom`, or the namespace they stand in) and their own name."""
    tools: List[Json] = []
    special: Dict[str, Tuple[str, str]] = {}

    def add(given: Json, namespace: str) -> None:
        kind, name = given.get("type"), given.get("name")
        if kind == "namespace" and not namespace:
            for part in list_of(given, "tools"):
                add(part, str(name))
        elif kind == "function" or kind == "custom" and not namespace:
            flat = f"{namespace}__{name}" if namespace else name
            tools.append(tool(flat, given.get("description"), CUSTOM if kind == "custom" else given.get("parameters")))
            if kind == "custom" or namespace:
                special[str(flat)] = (namespace or "custom", str(name))
        else:
            raise Refusal(f"tools of type `{kind}` aren't supported here: only functions are", param="tools")

    for given in list_of(body, "tools"):
        add(given, "")
    return ([] if body.get("tool_choice") == "none" else tools), special


def messages_of(body: Mapping[str, Any], store: Json) -> List[Json]:
    """The messages of this call and, where it names an earlier response, of that one before them."""
    before: List[Json] = []
    previous = body.get("previous_response_id")
    if previous is not None:
        before = store.get(str(previous), [])
        if not before:
            raise Refusal(f"Previous response with id '{str(previous)[:80]}' not found.", 400, code="previous_response_not_found", param="previous_response_id")
    given = body.get("input")
    if isinstance(given, str):
        return [*before, {"role": "user", "content": given}]
    return [*before, *(message for item in list_of(body, "input") for message in item_of(item, store))]


def item_of(item: Json, store: Json) -> List[Json]:
    """The message of an item; none of a thought."""
    kind = item.get("type", "message")
    if kind == "reasoning":
        return []
    if kind == "item_reference":
        if str(item.get("id")) not in store:
            raise Refusal(f"Item with id '{str(item.get('id'))[:80]}' not found.", 404, param="input")
        return item_of(store[str(item["id"])], store)
    if kind in ("function_call", "custom_tool_call"):
        name, arguments = item.get("name"), item.get("arguments")
        if item.get("namespace"):
            name = f"{item['namespace']}__{name}"
        if kind == "custom_tool_call":
            arguments = {"input": text_of(item.get("input"), "input")}
        return [assistant("", [tool_call(item.get("call_id"), name, arguments)])]
    if kind in ("function_call_output", "custom_tool_call_output"):
        return [{"role": "tool", "content": text_of(item.get("output"), "input"), "tool_call_id": str(item.get("call_id") or "")}]
    role = ROLES.get(str(item.get("role"))) if kind == "message" else None
    if role is None or role == "tool":
        raise Refusal(f"items of type `{kind}` (role `{item.get('role')}`) aren't supported here", param="input")
    return [{"role": role, "content": text_of(item.get("content"), "input")}]


class Responses(Chat):
    prefix = "resp_"

    def parse(self, body: Json, store: Json) -> Ask:
        refuse(body, background=(False,), conversation=(), prompt=(), top_logprobs=(0,), presence_penalty=(0,), frequency_penalty=(0,))
        text = body.get("text")
        if isinstance(text, dict):
            refuse(text, format=({"type": "text"},))
        if "message.output_text.logprobs" in (body.get("include") or []):
            raise Refusal("log-probabilities aren't given here", param="include")
        messages = messages_of(body, store)
        if not messages:
            raise Refusal("`input` is empty", param="input")
        tools, special = tools_of(body)
        instructions = text_of(body.get("instructions"), "instructions")
        head = [{"role": "system", "content": instructions}] if instructions else []
        return Ask(model_of(body), settled([*head, *messages]), tools, limit_of(body, "max_output_tokens"), [], bool(body.get("stream")),
                   body.get("parallel_tool_calls") is False, {"messages": messages, "special": special, "body": body},
                   must_call=forced(body.get("tool_choice"), tools))

    def answer(self, ask: Ask, reply: Reply, call_id: str, store: Json) -> Json:
        output: List[Json] = []
        if reply.content or not reply.calls:
            output.append({"id": f"msg_{call_id}", "type": "message", "role": "assistant", "status": "completed",
                           "content": [{"type": "output_text", "text": reply.content, "annotations": [], "logprobs": []}]})
        for place, (each, flat, arguments) in enumerate(reply.calls):
            kind, name = ask.extra["special"].get(flat, ("", flat))
            item: Json = {"id": f"fc_{call_id}_{place}", "type": "function_call", "call_id": each, "name": name, "status": "completed",
                          "arguments": canonical(arguments)}
            if kind == "custom":
                given = arguments.get("input", "")
                item = {"id": f"ctc_{call_id}_{place}", "type": "custom_tool_call", "call_id": each, "name": name, "status": "completed",
                        "input": given if isinstance(given, str) else canonical(given)}
            elif kind:
                item["namespace"] = kind
            output.append(item)
        body = ask.extra["body"]
        if body.get("store") is not False:
            store.update({item["id"]: item for item in output})
            store[self.prefix + call_id] = [*ask.extra["messages"], answer(reply)]
        return {
            "id": self.prefix + call_id, "object": "response", "created_at": int(time.time()), "model": ask.model,
            "status": "incomplete" if reply.cut else "completed", "incomplete_details": {"reason": "max_output_tokens"} if reply.cut else None,
            "error": None, "output": output, "parallel_tool_calls": not ask.single, "tool_choice": body.get("tool_choice") or "auto",
            "tools": body.get("tools") or [], "instructions": body.get("instructions"), "previous_response_id": body.get("previous_response_id"),
            "metadata": body.get("metadata") or {}, "temperature": body.get("temperature"), "top_p": body.get("top_p"),
            "text": {"format": {"type": "text"}}, "truncation": "disabled",
            "usage": {"input_tokens": reply.prompt_tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": reply.response_tokens,
                      "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": reply.prompt_tokens + reply.response_tokens},
        }

    def events(self, ask: Ask, whole: Json) -> Iterator[Event]:
        number = 0

        def event(kind: str, /, **fields: Any) -> Event:
            nonlocal number
            number += 1
            return kind, {"type": kind, "sequence_number": number - 1, **fields}

        begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        yield event("response.created", response=begun)
        yield event("response.in_progress", response=begun)
        for index, item in enumerate(whole["output"]):
            at = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                (part,) = item["content"]
                empty = {**part, "text": ""}
                yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress", "content": []})
                yield event("response.content_part.added", **at, content_index=0, part=empty)
                yield event("response.output_text.delta", **at, content_index=0, delta=part["text"], logprobs=[])
                yield event("response.output_text.done", **at, content_index=0, text=part["text"], logprobs=[])
                yield event("response.content_part.done", **at, content_index=0, part=part)
            else:
                field, name = ("input", "custom_tool_call_input") if item["type"] == "custom_tool_call" else ("arguments", "function_call_arguments")
                yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress", field: ""})
                yield event(f"response.{name}.delta", **at, delta=item[field])
                yield event(f"response.{name}.done", **at, name=item["name"], **{field: item[field]})
            yield event("response.output_item.done", output_index=index, item=item)
        yield event(f"response.{whole['status']}", response=whole)
