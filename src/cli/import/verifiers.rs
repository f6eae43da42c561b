//! verifiers' `traces.jsonl`: an episode a line, with a trace for each of its agents; a trace is a graph of messages.

use super::episode::{checked_logprobs, reward_f32, Call, Episode, Failure, Tokens};
use super::fields::unread;
use super::messages::{observation, plain, Calls, Message};
use flow_core::seed::{mix, text};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The version of a trace that is understood.
const VERSION: u64 = 1;

/// The largest `step` that is read: a replay goes through all iterations up to the last one.
const LAST_STEP: u64 = 1_000_000;

#[derive(Deserialize)]
struct Line {
    task: Task,
    #[serde(default)]
    env: Env,
    run: Option<Run>,
    #[serde(default)]
    errors: Vec<Fault>,
    ok: Option<bool>,
    #[serde(default)]
    is_timeout: bool,
    traces: Vec<Trace>,
}

#[derive(Default, Deserialize)]
struct Env {
    #[serde(default)]
    id: String,
}

#[derive(Deserialize)]
struct Run {
    work: Option<Work>,
}

#[derive(Deserialize)]
struct Work {
    step: u64,
    policy: Option<Policy>,
}

#[derive(Deserialize)]
struct Policy {
    start: u64,
}

#[derive(Deserialize)]
struct Task {
    #[serde(default, rename = "type")]
    kind: String,
    data: Value,
    key: Option<String>,
    hash: Option<String>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Trace {
    version: u64,
    task: Task,
    agent: Option<Agent>,
    nodes: Vec<Node>,
    #[serde(default)]
    calls: Vec<ModelCall>,
    rewards: BTreeMap<String, Option<Reward>>,
    #[serde(default)]
    metrics: BTreeMap<String, Option<f64>>,
    ok: Option<bool>,
    stop_condition: Option<String>,
    #[serde(default)]
    is_timeout: bool,
    #[serde(default)]
    errors: Vec<Fault>,
}

#[derive(Deserialize)]
struct Agent {
    name: Option<String>,
    trainable: Option<bool>,
}

#[derive(Deserialize)]
struct Reward {
    score: Option<f64>,
    weight: Option<f64>,
}

#[derive(Deserialize)]
struct ModelCall {
    node: Option<usize>,
    sampling: Option<Sampling>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Sampling {
    temperature: Option<f32>,
}

#[derive(Deserialize)]
struct Node {
    parent: Option<usize>,
    message: Value,
    #[serde(default)]
    sampled: bool,
    #[serde(default)]
    token_ids: Vec<u32>,
    #[serde(default)]
    mask: Vec<bool>,
    #[serde(default)]
    logprobs: Vec<Option<f32>>,
}

/// Fields that are read, or change nothing.
const FIELDS: [&str; 55] = [
    "id",
    "group.**",
    "env.**",
    "errors.*.type",
    "errors.*.message",
    "errors.*.traceback",
    "ok",
    "is_timeout",
    "num_input_tokens",
    "num_output_tokens",
    "num_total_tokens",
    "run.id",
    "run.type",
    "run.work.type",
    "run.work.step",
    "run.work.policy.**",
    "task.type",
    "task.key",
    "task.hash",
    "task.data.**",
    "traces.*.version",
    "traces.*.id",
    "traces.*.task.**",
    "traces.*.agent.name",
    "traces.*.agent.trainable",
    "traces.*.agent.config.**",
    "traces.*.nodes.*.parent",
    "traces.*.nodes.*.message.**",
    "traces.*.nodes.*.sampled",
    "traces.*.nodes.*.token_ids.**",
    "traces.*.nodes.*.mask.**",
    "traces.*.nodes.*.logprobs.**",
    "traces.*.nodes.*.is_content.**",
    "traces.*.nodes.*.timestamp",
    "traces.*.nodes.*.semantic_parents.**",
    "traces.*.calls.*.node",
    "traces.*.calls.*.model",
    "traces.*.calls.*.sampling.temperature",
    "traces.*.calls.*.sampling.max_tokens",
    "traces.*.calls.*.finish_reason",
    "traces.*.calls.*.time.**",
    "traces.*.rewards.**",
    "traces.*.metrics.**",
    "traces.*.ok",
    "traces.*.stop_condition",
    "traces.*.is_timeout",
    "traces.*.is_completed",
    "traces.*.errors.**",
    "traces.*.timing.**",
    "traces.*.tools.**",
    "traces.*.verifiers.**",
    "traces.*.extra_usage.**",
    "traces.*.num_input_tokens",
    "traces.*.num_output_tokens",
    "traces.*.num_total_tokens",
];

/// The episodes of a line, one for each agent that is trained; and how many agents are not. The names of fields that
/// aren't read are added to `names`.
pub fn read(line: &[u8], names: &mut BTreeSet<String>) -> Result<(Vec<Episode>, usize), String> {
    let whole: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    unread(&whole, &FIELDS, names);
    let Line { task, env, run, errors, ok, is_timeout, traces } = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    let work = run.and_then(|run| run.work);
    if let Some(Work { step, .. }) = work.as_ref().filter(|work| work.step > LAST_STEP) {
        return Err(format!("`run.work.step` is {step}, and a step becomes an iteration: it is at most {LAST_STEP}"));
    }
    let new = |task: &Task, agent: Option<&str>| Episode {
        iteration: work.as_ref().map_or(0, |work| work.step),
        weights: work.as_ref().and_then(|work| Some(work.policy.as_ref()?.start)),
        task: named(task, &env.id, agent.filter(|name| *name != "agent")),
        kind: task.kind.clone(),
        ..Episode::default()
    };
    // An episode fails by its own hooks, or with one of its traces.
    let own = (ok == Some(false) && (is_timeout || !errors.is_empty())) || traces.is_empty();
    if traces.is_empty() {
        let failure = Some(failed(&errors, is_timeout, "the episode has no trace"));
        return Ok((vec![Episode { failure, ..new(&task, None) }], 0));
    }
    let (mut episodes, mut frozen) = (Vec::new(), 0);
    for trace in traces {
        if trace.version != VERSION {
            return Err(format!("a trace has version {}, and version {VERSION} is understood", trace.version));
        }
        let agent = trace.agent.as_ref();
        if agent.is_some_and(|agent| agent.trainable == Some(false)) {
            frozen += 1;
            continue;
        }
        let mut episode = new(&trace.task, agent.and_then(|agent| agent.name.as_deref()));
        let calls = calls(&trace, names)?;
        let value = |reward: &Reward| Some(reward.score? * reward.weight.unwrap_or(1.0));
        let rewards: Option<Vec<f64>> = trace.rewards.values().map(|reward| reward.as_ref().and_then(value)).collect();
        if !trace.ok.unwrap_or(trace.errors.is_empty()) {
            episode.failure = Some(failed(&trace.errors, trace.is_timeout, "the trace did not complete"));
        } else if own {
            episode.failure = Some(failed(&errors, is_timeout, "the episode did not complete"));
        } else if calls.is_empty() {
            episode.failure = Some(failed(&[], false, "the trace has no sampled message"));
        } else {
            match rewards.filter(|rewards| !rewards.is_empty()) {
                Some(rewards) => episode.reward = reward_f32(rewards.iter().sum())?,
                None => episode.failure = Some(failed(&[], false, "the trace has no reward")),
            }
        }
        episode.truncated = match trace.stop_condition.as_deref() {
            Some("max_turns") => "max_turns",
            Some("max_input_tokens" | "max_output_tokens" | "max_total_tokens" | "compaction_failed") => "world",
            _ => "",
        };
        let scores = trace.rewards.iter().filter_map(|(name, reward)| Some((name, reward.as_ref()?.score?)));
        let metrics = trace.metrics.iter().filter_map(|(name, value)| Some((name, (*value)?)));
        let info: Map<String, Value> = scores.chain(metrics).map(|(name, value)| (name.clone(), value.into())).collect();
        episode.info = if info.is_empty() { String::new() } else { Value::Object(info).to_string() };
        if episode.failure.is_none() {
            episode.calls = calls;
        }
        episodes.push(episode);
    }
    Ok((episodes, frozen))
}

/// The task's name: from its own key, or else from its content.
fn named(task: &Task, env: &str, agent: Option<&str>) -> String {
    let content = || {
        let mut data = task.data.clone();
        data.sort_all_objects();
        data.to_string()
    };
    let key = task.key.clone().or_else(|| task.hash.clone()).unwrap_or_else(content);
    let id = agent.map_or(text(&key), |agent| mix(text(&key), text(agent)));
    let parts = [plain(if env.is_empty() { &task.kind } else { env }), plain(agent.unwrap_or_default())];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    format!("import-{}-{id:016x}", parts.join("-"))
}

fn failed(errors: &[Fault], timeout: bool, otherwise: &str) -> Failure {
    let error = errors.last().map_or(otherwise.into(), |fault| format!("{}: {}", fault.kind, fault.message));
    Failure { cause: if timeout { "timeout" } else { "error" }, error, tries: errors.len().max(1) as u32 }
}

/// The sampled messages of a trace, in the order of its nodes.
fn calls(trace: &Trace, names: &mut BTreeSet<String>) -> Result<Vec<Call>, String> {
    let messages: Vec<Message> = trace.nodes.iter().map(|node| Message::read(&node.message, names)).collect();
    let (mut chains, mut names) = (Vec::<u64>::new(), vec![0; messages.len()]);
    let (mut said, mut graph, mut calls) = (BTreeSet::new(), Calls::default(), Vec::new());
    for (i, node) in trace.nodes.iter().enumerate() {
        if node.parent.is_some_and(|parent| parent >= i) {
            return Err(format!("node {i} has a `parent` that doesn't stand before it"));
        }
        let before = node.parent.map_or(0, |parent| chains[parent]);
        chains.push(mix(before, messages[i].hash()));
        if !node.sampled {
            continue;
        }
        let mut path: Vec<usize> = std::iter::successors(node.parent, |at| trace.nodes[*at].parent).collect();
        path.reverse();
        let since = path.iter().rposition(|at| trace.nodes[*at].sampled).map_or(0, |at| at + 1);
        let parent = since.checked_sub(1).map_or(0, |at| names[path[at]]);
        let all: Vec<&Message> = path.iter().map(|at| &messages[*at]).collect();
        let (name, fork) = graph.add(parent, &all[since..], &all);
        // A message that was sampled elsewhere in the graph stands here as text that was encoded anew.
        let anew = path[since..].iter().any(|at| said.contains(&chains[*at]));
        let of_node = trace.calls.iter().rev().find(|call| call.node == Some(i));
        calls.push(Call {
            observation: observation(&all[since..]),
            state: before,
            response: messages[i].whole(),
            action: messages[i].said(),
            tokens: tokens(trace, &path, i)?,
            temperature: of_node.and_then(|call| call.sampling.as_ref()?.temperature),
            cut: of_node.and_then(|call| Some(call.finish_reason.as_deref()? == "length")),
            call: name,
            parent,
            fork: if anew { "retokenised" } else { fork },
        });
        names[i] = name;
        said.insert(chains[i]);
    }
    Ok(calls)
}

/// The tokens that the model read and wrote; none if the trace doesn't have them.
fn tokens(trace: &Trace, path: &[usize], at: usize) -> Result<Option<Tokens>, String> {
    let node = &trace.nodes[at];
    if node.token_ids.is_empty() {
        return Ok(None);
    }
    if node.mask.len() != node.token_ids.len() {
        return Err(format!("node {at} has {} values in `mask` for {} in `token_ids`", node.mask.len(), node.token_ids.len()));
    }
    let first = node.mask.iter().position(|sampled| *sampled).unwrap_or(node.mask.len());
    let end = node.mask.iter().rposition(|sampled| *sampled).map_or(first, |last| last + 1);
    if node.mask[first..end].contains(&false) {
        return Err(format!("node {at} has tokens that were not sampled within its response"));
    }
    if !node.logprobs.is_empty() && node.logprobs.len() != end - first {
        return Err(format!("node {at} has {} values in `logprobs` for {} sampled tokens", node.logprobs.len(), end - first));
    }
    let logprobs: Option<Vec<f32>> = node.logprobs.iter().copied().collect();
    let mut prompt: Vec<u32> = path.iter().flat_map(|at| &trace.nodes[*at].token_ids).copied().collect();
    prompt.extend(&node.token_ids[..first]);
    let response = node.token_ids[first..end].to_vec();
    Ok(Some(Tokens { prompt, logprobs: checked_logprobs(logprobs.filter(|values| values.len() == response.len()))?, response }))
}
