"""verifiers' `traces.jsonl`: an episode a line, with a trace for each of its agents; a trace is a graph of messages."""

from __future__ import annotations

from typing import Any

from flow_env.games.seeds import mix, text as hash_of

from . import messages
from .fields import patterns, unread
from .messages import Calls, Message, plain
from .values import REQUIRED, Bad, anything, checked, count, flag, many, mapping, maybe, mean, narrow, real, record, reward, small, spelled, summed, text

# The version of a trace that is understood.
VERSION = 1
# The largest `step` that is read: a replay goes through all iterations up to the last one.
LAST_STEP = 1_000_000
STRING, WORD, FLAG, NONE = (text, ""), (maybe(text), None), (flag, False), (maybe(anything), None)
FAULTS = (many(record(type=STRING, message=STRING)), ())
TASK = (record(type=STRING, data=(anything, REQUIRED), key=WORD, hash=WORD), REQUIRED)
WORK = record(step=(count, REQUIRED), policy=(maybe(record(start=(count, REQUIRED))), None))
CALL = record(node=(maybe(count), None), sampling=(maybe(record(temperature=(maybe(narrow), None))), None), finish_reason=WORD)
NODE = record(
    parent=(maybe(count), None), message=(anything, REQUIRED), sampled=FLAG, token_ids=(many(small), ()), mask=(many(flag), ()),
    logprobs=(many(maybe(narrow)), ()), advantages=(maybe(many(maybe(real))), None),
)
TRACE = record(
    version=(count, REQUIRED), task=TASK, agent=(maybe(record(name=WORD, trainable=(maybe(flag), None))), None), nodes=(many(NODE), REQUIRED),
    calls=(many(CALL), ()), rewards=(mapping(maybe(record(score=(maybe(real), None), weight=(maybe(real), None)))), REQUIRED),
    metrics=(mapping(maybe(real)), {}), ok=(maybe(flag), None), stop_condition=WORD, is_timeout=FLAG, errors=FAULTS,
)
LINE = record(
    task=TASK, env=(record(id=STRING), {"id": ""}), run=(maybe(record(work=(maybe(WORK), None))), None), errors=FAULTS, ok=(maybe(flag), None),
    is_timeout=FLAG, traces=(many(TRACE), REQUIRED),
)
# Fields that are read, or change nothing.
FIELDS = patterns("""id group.** env.** errors.*.type errors.*.message errors.*.traceback ok is_timeout num_input_tokens num_output_tokens
    num_total_tokens run.id run.type run.work.type run.work.step run.work.policy.** task.type task.key task.hash task.data.**""".split(),
    (f"traces.*.{path}" for path in """version id task.** agent.name agent.trainable agent.config.** nodes.*.parent nodes.*.message.**
    nodes.*.sampled nodes.*.token_ids.** nodes.*.mask.** nodes.*.logprobs.** nodes.*.advantages.** nodes.*.is_content.** nodes.*.timestamp
    nodes.*.semantic_parents.** calls.*.node calls.*.model calls.*.sampling.temperature calls.*.sampling.max_tokens calls.*.finish_reason
    calls.*.time.** rewards.** metrics.** ok stop_condition is_timeout is_completed errors.** timing.** tools.** verifiers.** extra_usage.**
    num_input_tokens num_output_tokens num_total_tokens""".split()))
STOPS = {"max_turns": "max_turns", **dict.fromkeys(("max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"), "world")}


def read(whole: Any, names: set[str]) -> tuple[list[dict[str, Any]], int]:
    """The episodes of a line, one for each agent that is trained; and how many agents are not. The names of fields that aren't read are added
    to `names`."""
    unread(whole, FIELDS, names)
    line = LINE(whole)
    work = (line["run"] or {}).get("work") or {"step": 0, "policy": None}
    if work["step"] > LAST_STEP:
        raise Bad(f"`run.work.step` is {work['step']}, and a step becomes an iteration: it is at most {LAST_STEP}")

    def new(task: dict[str, Any], agent: str | None) -> dict[str, Any]:
        name = named(task, line["env"]["id"], agent if agent != "agent" else None)
        weights = work["policy"] and work["policy"]["start"]
        return messages.episode(iteration=work["step"], weights=weights, task=name, kind=task["type"])

    if not line["traces"]:
        return [{**new(line["task"], None), "failure": failed(line["errors"], line["is_timeout"], "the episode has no trace")}], 0
    # An episode fails by its own hooks, or with one of its traces.
    own = line["ok"] is False and (line["is_timeout"] or bool(line["errors"]))
    episodes, frozen = [], 0
    for trace in line["traces"]:
        if trace["version"] != VERSION:
            raise Bad(f"a trace has version {trace['version']}, and version {VERSION} is understood")
        agent = trace["agent"] or {"name": None, "trainable": None}
        if agent["trainable"] is False:
            frozen += 1
            continue
        episode = new(trace["task"], agent["name"])
        called = calls(trace, names)
        earned = [value(reward) for reward in trace["rewards"].values()]
        completed = not trace["errors"] if trace["ok"] is None else trace["ok"]
        if not completed:
            episode["failure"] = failed(trace["errors"], trace["is_timeout"], "the trace did not complete")
        elif own:
            episode["failure"] = failed(line["errors"], line["is_timeout"], "the episode did not complete")
        elif not called:
            episode["failure"] = failed((), False, "the trace has no sampled message")
        elif not earned or None in earned:
            episode["failure"] = failed((), False, "the trace has no reward")
        else:
            episode["reward"], episode["calls"] = reward(summed([each for each in earned if each is not None])), called
        episode["truncated"] = STOPS.get(trace["stop_condition"], "")
        info = {name: float(given["score"]) for name, given in trace["rewards"].items() if given and given["score"] is not None}
        info.update((name, float(number)) for name, number in trace["metrics"].items() if number is not None)
        episode["info"] = spelled(info) if info else ""
        episodes.append(episode)
    return episodes, frozen


def value(given: dict[str, Any] | None) -> float | None:
    if given is None or given["score"] is None:
        return None
    return float(given["score"]) * (1.0 if given["weight"] is None else float(given["weight"]))


def named(task: dict[str, Any], env: str, agent: str | None) -> str:
    """The task's name: from its own key, or else from its content."""
    key = task["hash"] if task["key"] is None else task["key"]
    name = hash_of(spelled(task["data"], ordered=True) if key is None else key)
    name = name if agent is None else mix(name, hash_of(agent))
    return "-".join(part for part in ("import", plain(env or task["type"]), plain(agent or ""), f"{name:016x}") if part)


def failed(errors: Any, timeout: bool, otherwise: str) -> dict[str, Any]:
    error = f"{errors[-1]['type']}: {errors[-1]['message']}" if errors else otherwise
    return messages.failure("timeout" if timeout else "error", error, max(len(errors), 1))


def calls(trace: dict[str, Any], names: set[str]) -> list[dict[str, Any]]:
    """The sampled messages of a trace, in the order of its nodes."""
    nodes = trace["nodes"]
    every: list[Message] = [messages.read(node["message"], names) for node in nodes]
    chains: list[int] = []
    known, said, graph, made = [0] * len(nodes), set(), Calls(), []
    for i, node in enumerate(nodes):
        if node["parent"] is not None and node["parent"] >= i:
            raise Bad(f"node {i} has a `parent` that doesn't stand before it")
        before = 0 if node["parent"] is None else chains[node["parent"]]
        chains.append(mix(before, every[i].hash()))
        if not node["sampled"]:
            continue
        path, above = [], node["parent"]
        while above is not None:
            path.insert(0, above)
            above = nodes[above]["parent"]
        since = next((at + 1 for at in reversed(range(len(path))) if nodes[path[at]]["sampled"]), 0)
        parent = known[path[since - 1]] if since else 0
        new = [every[at] for at in path[since:]]
        name, fork = graph.add(parent, new, [every[at] for at in path])
        # A message that was sampled elsewhere in the graph stands here as text that was encoded anew.
        anew = any(chains[at] in said for at in path[since:])
        of_node = next((call for call in reversed(trace["calls"]) if call["node"] == i), None)
        made.append(messages.call(
            new, every[i], state=before, tokens=tokens(nodes, path, i),
            temperature=of_node and of_node["sampling"] and of_node["sampling"]["temperature"],
            cut=None if of_node is None or of_node["finish_reason"] is None else of_node["finish_reason"] == "length",
            call=name, parent=parent, fork="retokenised" if anew else fork, advantage=mean(list(node["advantages"] or ())),
        ))
        known[i] = name
        said.add(chains[i])
    return made


def tokens(nodes: list[dict[str, Any]], path: list[int], at: int) -> dict[str, Any] | None:
    """The tokens that the model read and wrote; none if the trace doesn't have them."""
    ids, mask = nodes[at]["token_ids"], nodes[at]["mask"]
    if not ids:
        return None
    if len(mask) != len(ids):
        raise Bad(f"node {at} has {len(mask)} values in `mask` for {len(ids)} in `token_ids`")
    first = mask.index(True) if True in mask else len(mask)
    end = len(mask) - mask[::-1].index(True) if True in mask else first
    if False in mask[first:end]:
        raise Bad(f"node {at} has tokens that were not sampled within its response")
    logprobs = checked(list(nodes[at]["logprobs"]), end - first, f"node {at} has {{}} values in `logprobs` for {{}} sampled tokens")
    prompt = [token for above in path for token in nodes[above]["token_ids"]] + ids[:first]
    return {"prompt": prompt, "response": ids[first:end], "logprobs": logprobs}
