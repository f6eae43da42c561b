//! NeMo Gym's `rollouts.jsonl`: an episode a line, in items of the Responses API; a model call's tokens ride on its
//! last item.

use super::episode::{checked_logprobs, reward_f32, Call, Episode, Failure, Tokens};
use super::fields::unread;
use super::messages::{content, observation, plain, tool, Calls, Message};
use flow_core::seed::mix;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "_ng_task_index")]
    task: u64,
    #[serde(rename = "_ng_rollout_index")]
    rollout: u64,
    responses_create_params: Option<Params>,
    response: Option<Response>,
    /// Null for a number that JSON doesn't have.
    #[serde(default, deserialize_with = "present")]
    reward: Option<Option<f64>>,
    #[serde(rename = "_ng_failure_class")]
    failure: Option<String>,
    error_message: Option<String>,
    agent_ref: Option<AgentRef>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct AgentRef {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Params {
    input: Value,
    temperature: Option<f32>,
}

#[derive(Deserialize)]
struct Response {
    output: Vec<Value>,
    error: Option<Value>,
    incomplete_details: Option<Value>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Fields that are read, or change nothing.
const FIELDS: [&str; 44] = [
    "responses_create_params.**",
    "reward",
    "_ng_failure_class",
    "error_message",
    "agent_ref.name",
    "agent_ref.type",
    "response.error.**",
    "response.incomplete_details.**",
    "response.background",
    "response.conversation.**",
    "response.created_at",
    "response.id",
    "response.instructions",
    "response.max_output_tokens",
    "response.max_tool_calls",
    "response.metadata.**",
    "response.model",
    "response.object",
    "response.parallel_tool_calls",
    "response.previous_response_id",
    "response.prompt_cache_key",
    "response.reasoning.**",
    "response.safety_identifier",
    "response.service_tier",
    "response.status",
    "response.temperature",
    "response.text.**",
    "response.tool_choice.**",
    "response.tools.**",
    "response.top_logprobs",
    "response.top_p",
    "response.truncation",
    "response.usage.**",
    "response.user",
    "response.output.*.type",
    "response.output.*.id",
    "response.output.*.status",
    "response.output.*.role",
    "response.output.*.name",
    "response.output.*.call_id",
    "response.output.*.arguments.**",
    "response.output.*.output.**",
    "response.output.*.encrypted_content",
    "response.output.*.prompt_token_ids.**",
];

/// The same, of the texts and tokens of an item.
const ITEMS: [&str; 8] = [
    "response.output.*.generation_token_ids.**",
    "response.output.*.generation_log_probs.**",
    "response.output.*.content",
    "response.output.*.content.*.type",
    "response.output.*.content.*.text",
    "response.output.*.content.*.refusal",
    "response.output.*.content.*.annotations.**",
    "response.output.*.summary.**",
];

/// The indices by which a line is joined with its input.
pub type Key = (u64, u64);

/// The episode of a line. `input` finds the line of the materialized inputs, for a line that doesn't repeat its own.
/// The names of fields that aren't read are added to `names`.
pub fn read(line: &[u8], input: &mut dyn FnMut(Key) -> Option<Vec<u8>>, names: &mut BTreeSet<String>) -> Result<(Key, Episode), String> {
    let whole: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    let figures = whole.as_object().into_iter().flatten().filter(|(_, value)| value.is_number() || value.is_boolean());
    let known: Vec<&str> = figures.map(|(name, _)| name.as_str()).chain(FIELDS).chain(ITEMS).collect();
    unread(&whole, &known, names);
    let line: Line = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    let key = (line.task, line.rollout);
    let params = match line.responses_create_params {
        Some(params) => params,
        None => joined(input(key).as_deref())?,
    };
    let asked: Vec<Message> = items(&params.input).iter().map(message).collect();
    let kind = line.agent_ref.map_or(String::new(), |agent| agent.name);
    let id = asked.iter().fold(line.task, |hash, message| mix(hash, message.hash()));
    let parts: Vec<String> = [plain(&kind), format!("{id:016x}")].into_iter().filter(|part| !part.is_empty()).collect();
    let figures = line.rest.iter().filter(|(_, value)| value.is_number() || value.is_boolean());
    let mut info: Map<String, Value> = figures.map(|(name, value)| (name.clone(), value.clone())).collect();
    info.insert("_ng_task_index".into(), line.task.into());
    let mut episode = Episode {
        task: format!("import-{}", parts.join("-")),
        sample: u32::try_from(line.rollout).ok(),
        kind,
        info: Value::Object(info).to_string(),
        ..Episode::default()
    };
    let fail = |cause, error: String| Some(Failure { cause, error, tries: 1 });
    if let Some(class) = line.failure {
        let cause = if class.contains("timeout") { "timeout" } else { "error" };
        episode.failure = fail(cause, line.error_message.map_or(class.clone(), |message| format!("{class}: {message}")));
        return Ok((key, episode));
    }
    let response = line.response.ok_or("missing field `response`")?;
    let reward = line.reward.ok_or("missing field `reward`")?;
    let calls = calls(&asked, &response, params.temperature)?;
    match (response.error, reward) {
        (Some(error), _) => episode.failure = fail("error", error["message"].as_str().map_or(error.to_string(), String::from)),
        _ if calls.is_empty() => episode.failure = fail("error", "the response has no output of a model".into()),
        (_, None) => episode.failure = fail("error", "the rollout has no reward".into()),
        (_, Some(reward)) => (episode.reward, episode.calls) = (reward_f32(reward)?, calls),
    }
    Ok((key, episode))
}

/// The indices of a line of the materialized inputs.
pub fn key(line: &[u8]) -> Option<Key> {
    #[derive(Deserialize)]
    struct Indices {
        _ng_task_index: u64,
        _ng_rollout_index: u64,
    }
    serde_json::from_slice::<Indices>(line).ok().map(|indices| (indices._ng_task_index, indices._ng_rollout_index))
}

fn joined(input: Option<&[u8]>) -> Result<Params, String> {
    #[derive(Deserialize)]
    struct Input {
        responses_create_params: Params,
    }
    let lacking = "missing field `responses_create_params`, and no line of the materialized inputs has these indices";
    serde_json::from_slice::<Input>(input.ok_or(lacking)?).map(|input| input.responses_create_params).map_err(|e| e.to_string())
}

/// An input is a list of items, or the text of a user.
fn items(input: &Value) -> Vec<Value> {
    match input {
        Value::Array(items) => items.clone(),
        text => vec![serde_json::json!({ "role": "user", "content": text })],
    }
}

fn message(item: &Value) -> Message {
    let role = |role: &str| Message { role: role.into(), ..Message::default() };
    match item["type"].as_str() {
        Some("function_call") => Message { tools: vec![tool(item)], ..role("assistant") },
        Some("reasoning") => {
            // Models that show their thoughts have them in `content`, others a summary.
            let thought = [content(&item["content"]), content(&item["summary"])].into_iter().find(|text| !text.is_empty());
            Message { thought: thought.unwrap_or_default(), ..role("assistant") }
        }
        Some("function_call_output") => Message { text: content(&item["output"]), ..role("tool") },
        _ => {
            let message = Message::read(item, &mut BTreeSet::new());
            Message { role: if message.role.is_empty() { "user".into() } else { message.role }, ..message }
        }
    }
}

/// The model calls of a response: a call ends with the item that has its tokens, or before the next item that no model
/// wrote.
fn calls(asked: &[Message], response: &Response, temperature: Option<f32>) -> Result<Vec<Call>, String> {
    let (mut before, mut since, mut parent) = (asked.to_vec(), 0, 0);
    let (mut open, mut graph, mut calls) = (None::<Message>, Calls::default(), Vec::<Call>::new());
    let mut close = |message: Message, item: Option<&Value>, before: &mut Vec<Message>, since: &mut usize| {
        let tokens = item.map(tokens).transpose()?.flatten();
        let earlier = calls.last().and_then(|call| call.tokens.as_ref());
        let read = |earlier: &Tokens, now: &Tokens| {
            now.prompt.strip_prefix(&earlier.prompt[..]).is_some_and(|rest: &[u32]| rest.starts_with(&earlier.response))
        };
        let anew = earlier.zip(tokens.as_ref()).is_some_and(|(earlier, now)| !read(earlier, now));
        if anew {
            parent = 0;
        }
        let all: Vec<&Message> = before.iter().collect();
        let (call, fork) = graph.add(parent, &all[*since..], &all);
        let state = before.iter().fold(0, |hash, message| mix(hash, message.hash()));
        let (whole, said) = (message.whole(), message.said());
        let fork = if anew { "retokenised" } else { fork };
        let observation = observation(&all[*since..]);
        calls.push(Call { observation, state, response: whole, action: said, tokens, temperature, cut: Some(false), call, parent, fork });
        parent = call;
        before.push(message);
        *since = before.len();
        Ok::<_, String>(())
    };
    for item in &response.output {
        let part = message(item);
        if part.role != "assistant" {
            if let Some(message) = open.take() {
                close(message, None, &mut before, &mut since)?;
            }
            before.push(part);
            continue;
        }
        let whole = open.get_or_insert_with(|| Message { role: part.role.clone(), ..Message::default() });
        for (text, more) in [(&mut whole.text, part.text), (&mut whole.thought, part.thought)] {
            let gap = if text.is_empty() || more.is_empty() { "" } else { "\n" };
            *text += &format!("{gap}{more}");
        }
        whole.tools.extend(part.tools);
        if item.get("generation_token_ids").is_some_and(|ids| !ids.is_null()) {
            let message = open.take().unwrap_or_default();
            close(message, Some(item), &mut before, &mut since)?;
        }
    }
    if let Some(message) = open.take() {
        close(message, None, &mut before, &mut since)?;
    }
    let reason = response.incomplete_details.as_ref().and_then(|details| details["reason"].as_str());
    if let (Some("max_output_tokens"), Some(last)) = (reason, calls.last_mut()) {
        last.cut = Some(true);
    }
    Ok(calls)
}

/// The tokens of a call, which its last item has.
fn tokens(item: &Value) -> Result<Option<Tokens>, String> {
    #[derive(Deserialize)]
    struct Ids {
        prompt_token_ids: Vec<u32>,
        generation_token_ids: Vec<u32>,
        generation_log_probs: Option<Vec<Option<f32>>>,
    }
    let ids = Ids::deserialize(item).map_err(|e| e.to_string())?;
    let (logprobs, length) = (ids.generation_log_probs.unwrap_or_default(), ids.generation_token_ids.len());
    if !logprobs.is_empty() && logprobs.len() != length {
        return Err(format!("an item has {} values in `generation_log_probs` for {length} in `generation_token_ids`", logprobs.len()));
    }
    let logprobs = logprobs.into_iter().collect::<Option<Vec<f32>>>().filter(|values| values.len() == length);
    Ok(Some(Tokens { prompt: ids.prompt_token_ids, response: ids.generation_token_ids, logprobs: checked_logprobs(logprobs)? }))
}
