"""Makes the samples of this folder with the packages' own classes: `python make.py verifiers` with verifiers 0.4.0 installed, `python make.py
nemo-gym` with nemo-gym 0.4.0. No model is asked: the messages and tokens are written here, the packages check and write them."""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent


def verifiers():
    from verifiers.v1.configs.agent import WireAgentConfig
    from verifiers.v1.episode import Episode, EnvInfo, GroupInfo, PolicySpan, TrainRunInfo, TrainWorkInfo
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.state import State
    from verifiers.v1.task import WireTaskData, task_key
    from verifiers.v1.trace import AgentInfo, Error, ModelCall, Reward, Trace, TraceTask, VersionInfo
    from verifiers.v1.types import AssistantMessage, Sampling, SystemMessage, ToolCall, ToolMessage, UserMessage
    from verifiers.v1.utils.trace_store import write_episode

    trace_type = Trace[WireTaskData, State, WireAgentConfig]
    episode_type = Episode[WireTaskData, State, WireAgentConfig]

    def node(parent, message, ids, sampled=0, logprobs=()):
        mask = [False] * (len(ids) - sampled) + [True] * sampled
        return MessageNode(parent=parent, message=message, sampled=sampled > 0, token_ids=ids, mask=mask, logprobs=list(logprobs), timestamp=0.0)

    def trace(name, number, nodes, rewards, ok=True, errors=(), metrics=None, stop="agent_completed", temperature=1.0):
        data = WireTaskData(idx=number, prompt=f"What is {number} + {number}?")
        key = task_key(data.model_dump(mode="json", exclude_none=True))
        calls = [ModelCall(node=i, model="m", finish_reason="stop", sampling=Sampling(temperature=temperature)) for i, n in enumerate(nodes) if n.sampled]
        return trace_type(
            id=name, verifiers=VersionInfo(version="0.4.0"), task=TraceTask(type="SumTask", data=data, key=key, hash=key),
            agent=AgentInfo(config=WireAgentConfig()), nodes=nodes, calls=calls, rewards={k: Reward(score=s, weight=w) for k, (s, w) in rewards.items()},
            metrics=metrics or {}, is_completed=True, ok=ok, errors=list(errors), stop_condition=stop)

    def write(folder, name, traces, group="g", step=0):
        run = TrainRunInfo(id="r", work=TrainWorkInfo(step=step, policy=PolicySpan(start=4, end=4)))
        write_episode(folder, episode_type(id=name, env=EnvInfo(id="sums"), task=traces[0].task, group=GroupInfo(id=group), run=run,
                                           ok=all(t.ok for t in traces), traces=traces))

    def nodes(number, said, ids=True):
        system, user = SystemMessage(content="Add."), UserMessage(content=f"What is {number} + {number}?")
        call = AssistantMessage(content="", tool_calls=[ToolCall(id="c1", name="add", arguments='{"b": %d, "a": %d}' % (number, number))])
        result, final = ToolMessage(tool_call_id="c1", content=str(2 * number)), AssistantMessage(content=said)
        made = [node(None, system, [1, 2]), node(0, user, [3, 4, 5]), node(1, call, [6, 7, 8], 2, [-0.5, -0.25]), node(2, result, [9, 10]),
                node(3, final, [6, 11, 12], 2, [-1.0, -0.125])]
        if not ids:
            for one in made:
                one.token_ids, one.mask, one.logprobs = [], [], []
        return made

    for ids, name in ((True, "traces.jsonl"), (False, "traces_without_ids.jsonl")):
        folder = HERE / "new"
        folder.mkdir()
        for i, (number, said, reward) in enumerate([(2, "4", 1.0), (2, "5", 0.0), (2, "4 or 5", 0.5), (3, "6", 1.0), (3, "7", 0.0)]):
            made = nodes(number, said, ids)
            if i == 2:  # Asked again from the user's message with another history: a fork.
                edited = node(1, UserMessage(content="Be brief."), [13] if ids else [])
                made += [edited, node(5, AssistantMessage(content="4?"), [6, 14] if ids else [], 1 if ids else 0, [-2.0] if ids else [])]
            for one in made:
                one.sampled = isinstance(one.message, AssistantMessage)
            metrics = {"length": float(len(said))}
            write(folder, f"e{i}", [trace(f"t{i}", number, made, {"exact": (reward, 1.0)}, metrics=metrics)], group=f"g{number}")
        failed = trace("t5", 3, nodes(3, "", ids)[:2], {}, ok=False, errors=[Error(type="SandboxError", message="the box died")], stop="sandbox_error")
        write(folder, "e5", [failed], group="g3")
        (folder / "traces.jsonl").rename(HERE / name)
        folder.rmdir()


def nemo_gym():
    from nemo_gym import openai_utils as o

    def message(text):
        return o.NeMoGymResponseOutputMessage(id="msg", content=[o.NeMoGymResponseOutputText(annotations=[], text=text)])

    def trained(item, prompt, ids, logprobs):
        kind = o.RESPONSES_TO_TRAIN[type(item)]
        return kind(**item.model_dump(), prompt_token_ids=prompt, generation_token_ids=ids, generation_log_probs=logprobs)

    def line(task, rollout, said, reward, more):
        question = o.NeMoGymEasyInputMessage(role="user", content=f"How warm is city {task}?")
        params = o.NeMoGymResponseCreateParamsNonStreaming(input=[question], temperature=0.5)
        call = trained(o.NeMoGymResponseFunctionToolCall(arguments='{"city": %d}' % task, call_id="c", name="weather"), [1, 2], [3, 4], [-0.5, -1.0])
        thought = o.NeMoGymResponseReasoningItem(id="rs", summary=[o.NeMoGymSummary(text="I look it up.", type="summary_text")])
        answer = trained(message(said), [1, 2, 3, 4, 5], [6], [-0.25])
        result = o.NeMoGymFunctionCallOutput(call_id="c", output="20 degrees")
        response = o.NeMoGymResponse(id="resp", created_at=0, model="m", object="response", output=[thought, call, result, answer],
                                     parallel_tool_calls=True, tool_choice="auto", tools=[])
        return {"responses_create_params": params.model_dump(), "response": response.model_dump(), "reward": reward, **more,
                "_ng_task_index": task, "_ng_rollout_index": rollout, "agent_ref": {"name": "weather_agent"}}

    def write(name, lines):
        (HERE / name).write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in lines))

    # In the order in which they ended.
    rollouts = [line(0, 1, "It is cold.", 0.0, {"judged": 0.25}), line(0, 0, "20 degrees.", 1.0, {"judged": 0.75}), line(1, 0, "Warm.", 0.5, {"judged": 0.5})]
    inputs = [{"responses_create_params": {"input": [{"role": "user", "content": f"How warm is city {task}?"}], "temperature": 0.5},
               "agent_ref": {"name": "weather_agent"}, "_ng_task_index": task, "_ng_rollout_index": rollout}
              for task in range(2) for rollout in range(2)]
    # One rollout doesn't repeat its input, so it is joined with it.
    del rollouts[2]["responses_create_params"]
    again = {"_ng_failure_class": "transient", "error_message": "no host", "reward": 0.0, "agent_ref": {"name": "weather_agent"}}
    failures = [{**again, "_ng_task_index": 0, "_ng_rollout_index": 0}] + [{**again, "_ng_task_index": 1, "_ng_rollout_index": 1}] * 2
    write("rollouts.jsonl", rollouts)
    write("rollouts_materialized_inputs.jsonl", inputs)
    write("rollouts_failures.jsonl", failures)


{"verifiers": verifiers, "nemo-gym": nemo_gym}[sys.argv[1]]()
