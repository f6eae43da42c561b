"""NeMo Gym's `rollouts.jsonl`: an episode a line, in items of the Responses API; a model call's tokens ride on its last item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flow_env.games.seeds import mix

from . import messages
from .fields import patterns, unread
from .messages import Calls, Message, content, plain
from .values import REQUIRED, Bad, anything, at, checked, count, is_number, many, maybe, narrow, parsed, real, record, reward, small, spelled, text

PARAMS = record(input=(anything, REQUIRED), temperature=(maybe(narrow), None))
RESPONSE = record(output=(many(anything), REQUIRED), error=(maybe(anything), None), incomplete_details=(maybe(anything), None))
WORD = (maybe(text), None)
# A reward is null for a number that JSON doesn't have.
LINE = record(
    _ng_task_index=(count, REQUIRED), _ng_rollout_index=(count, REQUIRED), responses_create_params=(maybe(PARAMS), None),
    response=(maybe(RESPONSE), None), reward=(maybe(real), None), _ng_failure_class=WORD, error_message=WORD,
    agent_ref=(maybe(record(name=(text, ""))), None),
)
OWN = {"_ng_task_index", "_ng_rollout_index", "responses_create_params", "response", "reward", "_ng_failure_class", "error_message", "agent_ref"}
IDS = record(prompt_token_ids=(many(small), REQUIRED), generation_token_ids=(many(small), REQUIRED), generation_log_probs=(maybe(many(maybe(narrow))), None))
# Fields that are read, or change nothing.
FIELDS = """responses_create_params.** reward _ng_failure_class error_message agent_ref.name agent_ref.type""".split() + [
    f"response.{path}" for path in """error.** incomplete_details.** background conversation.** created_at id instructions max_output_tokens
    max_tool_calls metadata.** model object parallel_tool_calls previous_response_id prompt_cache_key reasoning.** safety_identifier service_tier
    status temperature text.** tool_choice.** tools.** top_logprobs top_p truncation usage.** user""".split()
] + [
    f"response.output.*.{path}" for path in """type id status role name call_id arguments.** output.** encrypted_content prompt_token_ids.**
    generation_token_ids.** generation_log_probs.** content content.*.type content.*.text content.*.refusal content.*.annotations.**
    summary.**""".split()
]
# The indices by which a line is joined with its input.
Key = tuple[int, int]


def read(whole: Any, input: Callable[[Key], "bytes | None"], names: set[str]) -> tuple[Key, dict[str, Any]]:
    """The episode of a line. `input` finds the line of the materialized inputs, for a line that doesn't repeat its own. The names of fields
    that aren't read are added to `names`."""
    figures = {name: value for name, value in (whole.items() if isinstance(whole, dict) else ()) if isinstance(value, (bool, int, float))}
    unread(whole, patterns(FIELDS, figures), names)
    line = LINE(whole)
    key = (line["_ng_task_index"], line["_ng_rollout_index"])
    params = line["responses_create_params"] or joined(input(key))
    asked = [message(item) for item in (params["input"] if isinstance(params["input"], list) else [{"role": "user", "content": params["input"]}])]
    kind = line["agent_ref"]["name"] if line["agent_ref"] else ""
    name = messages.hashed(key[0], asked)
    info = {name: value for name, value in figures.items() if name not in OWN} | {"_ng_task_index": key[0]}
    episode = messages.episode(
        task="-".join(part for part in ("import", plain(kind), f"{name:016x}") if part), sample=key[1] if key[1] < 1 << 32 else None,
        kind=kind, info=spelled(info),
    )

    def failed(error: str, cause: str = "error") -> tuple[Key, dict[str, Any]]:
        return key, {**episode, "failure": messages.failure(cause, error)}

    failure, why = line["_ng_failure_class"], line["error_message"]
    if failure is not None:
        return failed(failure if why is None else f"{failure}: {why}", "timeout" if "timeout" in failure else "error")
    if line["response"] is None:
        raise Bad("missing field `response`")
    if "reward" not in whole:
        raise Bad("missing field `reward`")
    called = calls(asked, line["response"], params["temperature"])
    error = line["response"]["error"]
    if error is not None:
        said = at(error, "message")
        return failed(said if isinstance(said, str) else spelled(error))
    if not called:
        return failed("the response has no output of a model")
    if line["reward"] is None:
        return failed("the rollout has no reward")
    return key, {**episode, "reward": reward(float(line["reward"])), "calls": called}


def key(line: bytes) -> Key | None:
    """The indices of a line of the materialized inputs."""
    try:
        indices = record(_ng_task_index=(count, REQUIRED), _ng_rollout_index=(count, REQUIRED))(parsed(line))
    except ValueError:
        return None
    return indices["_ng_task_index"], indices["_ng_rollout_index"]


def joined(input: bytes | None) -> dict[str, Any]:
    if input is None:
        raise Bad("missing field `responses_create_params`, and no line of the materialized inputs has these indices")
    return record(responses_create_params=(PARAMS, REQUIRED))(parsed(input))["responses_create_params"]  # type: ignore[no-any-return]


def message(item: Any) -> Message:
    kind = at(item, "type")
    if kind == "function_call":
        return Message("assistant", tools=[messages.tool(item)])
    if kind == "reasoning":
        # Models that show their thoughts have them in `content`, others a summary.
        return Message("assistant", thought=content(at(item, "content")) or content(at(item, "summary")))
    if kind == "function_call_output":
        return Message("tool", content(at(item, "output")))
    made = messages.read(item, set())
    made.role = made.role or "user"
    return made


def calls(asked: list[Message], response: dict[str, Any], temperature: float | None) -> list[dict[str, Any]]:
    """The model calls of a response: a call ends with the item that has its tokens, or before the next item that no model wrote."""
    before, since, parent = list(asked), 0, 0
    open_: Message | None = None
    graph, made = Calls(), []

    def close(message: Message, item: Any) -> None:
        nonlocal since, parent
        now = None if item is None else tokens(item)
        earlier = made[-1]["tokens"] if made else None
        anew = bool(earlier and now and not goes_on(earlier, now))
        parent = 0 if anew else parent
        name, fork = graph.add(parent, before[since:], before)
        made.append(messages.call(
            before[since:], message, state=messages.hashed(0, before), tokens=now, temperature=temperature, cut=False, call=name, parent=parent,
            fork="retokenised" if anew else fork,
        ))
        parent = name
        before.append(message)
        since = len(before)

    for item in response["output"]:
        part = message(item)
        if part.role != "assistant":
            if open_ is not None:
                close(open_, None)
            open_ = None
            before.append(part)
            continue
        open_ = open_ or Message(part.role)
        open_.text = "\n".join(text for text in (open_.text, part.text) if text)
        open_.thought = "\n".join(text for text in (open_.thought, part.thought) if text)
        open_.tools += part.tools
        if at(item, "generation_token_ids") is not None:
            close(open_, item)
            open_ = None
    if open_ is not None:
        close(open_, None)
    if at(response["incomplete_details"], "reason") == "max_output_tokens" and made:
        made[-1]["cut"] = True
    return made


def goes_on(earlier: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a prompt begins with the tokens of the call before."""
    begin = earlier["prompt"] + earlier["response"]
    return bool(now["prompt"][: len(begin)] == begin)


def tokens(item: Any) -> dict[str, Any]:
    """The tokens of a call, which its last item has."""
    ids = IDS(item)
    where = "an item has {} values in `generation_log_probs` for {} in `generation_token_ids`"
    response = ids["generation_token_ids"]
    return {"prompt": ids["prompt_token_ids"], "response": response, "logprobs": checked(ids["generation_log_probs"] or [], len(response), where)}
