//! Conversations with rewards, one a line: OpenAI's messages, ShareGPT, verifiers before its traces, TRL's completions.
//! Each message of the assistant after the first other one is a turn.

use super::episode::{reward_f32, Call, Episode, Failure};
use super::fields::unread;
use super::messages::{observation, plain, Calls, Message};
use flow_core::seed::{mix, text};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Where a line has its conversation: messages, or a beginning and its continuation.
const WHOLE: [&str; 2] = ["messages", "conversations"];
const PARTS: [(&str, &str); 2] = [("prompt", "completion"), ("prompt", "response")];
/// Where it has its iteration, its task's name, the number of its sample.
const STEPS: [&str; 3] = ["step", "global_step", "iteration"];
const TASKS: [&str; 4] = ["task_id", "example_id", "task", "id"];
/// The largest step that is read.
const LAST_STEP: u64 = 1_000_000;
/// Fields that are read, or change nothing.
const KNOWN: [&str; 27] = [
    "reward",
    "rewards.**",
    "score",
    "metrics.**",
    "answer.**",
    "system",
    "tools.**",
    "advantage",
    "model",
    "step",
    "global_step",
    "iteration",
    "task_id",
    "example_id",
    "task.**",
    "id",
    "info.**",
    "timing.**",
    "is_truncated",
    "is_completed",
    "stop_condition",
    "generation_ms",
    "scoring_ms",
    "total_ms",
    "source",
    "created",
    "token_usage.**",
];

/// Whether a line looks like one of these.
pub fn is_one(line: &Value) -> bool {
    WHOLE.iter().any(|key| line[key].is_array()) || PARTS.iter().any(|(begin, end)| !line[begin].is_null() && !line[end].is_null())
}

/// The episode of a line; the names of fields that aren't read are added to `names`.
pub fn read(line: &[u8], names: &mut BTreeSet<String>) -> Result<Episode, String> {
    let line: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    let (messages, asked) = messages(&line, names)?;
    let prompt = messages[..asked].iter().fold(0, |hash, message| mix(hash, message.hash()));
    let named = TASKS.iter().map(|key| &line[key]).find(|value| value.is_string() || value.is_number());
    let id = named.map_or(prompt, |id| mix(prompt, text(&id.to_string())));
    let kind = line["task"].as_str().map(plain).unwrap_or_default();
    let parts: Vec<String> = [kind.clone(), format!("{id:016x}")].into_iter().filter(|part| !part.is_empty()).collect();
    let iteration = STEPS.iter().find_map(|key| line[key].as_u64()).unwrap_or(0);
    if iteration > LAST_STEP {
        return Err(format!("its step is {iteration}, and a step becomes an iteration: it is at most {LAST_STEP}"));
    }
    let truncated = if line["is_truncated"] == true { "world" } else { "" };
    let mut episode = Episode { iteration, task: format!("import-{}", parts.join("-")), kind, truncated, ..Episode::default() };
    let (reward, figures) = rewards(&line)?;
    let mut info = figures;
    info.extend(line["metrics"].as_object().into_iter().flatten().filter(|(_, v)| v.is_number()).map(|(k, v)| (k.clone(), v.clone())));
    episode.info = if info.is_empty() { String::new() } else { Value::Object(info.clone()).to_string() };
    let mut known: Vec<&str> = KNOWN.to_vec();
    known.extend(["messages.**", "conversations.**", "prompt.**", "completion.**", "response.**"]);
    known.extend(info.keys().map(String::as_str));
    unread(&line, &known, names);
    let calls = calls(&messages, asked);
    let fail = |error: &str| Some(Failure { cause: "error", error: error.into(), tries: 1 });
    match reward {
        _ if calls.is_empty() => episode.failure = fail("the conversation has no answer of an assistant"),
        None => episode.failure = fail("the conversation has no reward: give it `reward`, `rewards` or `score`"),
        Some(reward) => (episode.reward, episode.calls) = (reward_f32(reward)?, calls),
    }
    Ok(episode)
}

/// The messages of a line, and how many of them were there before the model's first answer.
fn messages(line: &Value, names: &mut BTreeSet<String>) -> Result<(Vec<Message>, usize), String> {
    let list = |value: &Value, role: &str, names: &mut BTreeSet<String>| match value {
        Value::Array(all) => all.iter().map(|message| Message::read(message, names)).collect::<Vec<_>>(),
        other => vec![Message { role: role.into(), text: super::messages::content(other), ..Message::default() }],
    };
    let system = line["system"].as_str().map(|text| Message { role: "system".into(), text: text.into(), ..Message::default() });
    if let Some(key) = WHOLE.iter().find(|key| line[**key].is_array()) {
        let all: Vec<Message> = system.into_iter().chain(list(&line[*key], "user", names)).collect();
        let asked = all.iter().position(|message| message.role == "assistant").unwrap_or(all.len());
        return Ok((all, asked));
    }
    let parts = PARTS.iter().find(|(begin, end)| !line[*begin].is_null() && !line[*end].is_null());
    let (begin, end) = parts.ok_or("it has neither `messages`, `conversations` nor `prompt` with `completion`")?;
    let mut all: Vec<Message> = system.into_iter().chain(list(&line[*begin], "user", names)).collect();
    let asked = all.len();
    all.extend(list(&line[*end], "assistant", names));
    Ok((all, asked))
}

/// The reward of a line, and the parts that it has by name. TRL logs a number for each reward function and no sum.
fn rewards(line: &Value) -> Result<(Option<f64>, Map<String, Value>), String> {
    let all = |value: &Value| match value {
        Value::Number(number) => number.as_f64(),
        Value::Array(all) if !all.is_empty() => all.iter().map(Value::as_f64).sum::<Option<f64>>(),
        Value::Object(all) if !all.is_empty() => all.values().map(Value::as_f64).sum::<Option<f64>>(),
        _ => None,
    };
    let own = ["reward", "rewards", "score"].into_iter().find(|key| !line[*key].is_null());
    if let Some(key) = own {
        let reward = all(&line[key]).ok_or_else(|| format!("`{key}` is no number, and no numbers"))?;
        let parts = line[key].as_object().cloned().unwrap_or_default();
        return Ok((Some(reward), parts));
    }
    if line["advantage"].is_null() {
        return Ok((None, Map::new()));
    }
    // A run logs other numbers beside them, such as `kl`.
    let function = |name: &str| name.contains("reward") || name.ends_with("_func");
    let parts: Map<String, Value> =
        line.as_object().into_iter().flatten().filter(|(k, v)| v.is_number() && function(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let sum = parts.values().map(Value::as_f64).sum::<Option<f64>>();
    Ok((sum.filter(|_| !parts.is_empty()), parts))
}

/// The answers after the first `asked` messages.
fn calls(messages: &[Message], asked: usize) -> Vec<Call> {
    let (mut graph, mut calls, mut since, mut parent, mut state) = (Calls::default(), Vec::new(), 0, 0, 0);
    for (at, message) in messages.iter().enumerate() {
        if at >= asked && message.role == "assistant" {
            let all: Vec<&Message> = messages[..at].iter().collect();
            let (call, fork) = graph.add(parent, &all[since..], &all);
            calls.push(Call {
                observation: observation(&all[since..]),
                state,
                response: message.whole(),
                action: message.said(),
                tokens: None,
                temperature: None,
                cut: None,
                call,
                parent,
                fork,
            });
            (since, parent) = (at + 1, call);
        }
        state = mix(state, message.hash());
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn episode(line: Value) -> (Episode, Vec<String>) {
        let mut names = BTreeSet::new();
        let episode = read(line.to_string().as_bytes(), &mut names).unwrap();
        (episode, names.into_iter().collect())
    }

    fn turns(episode: &Episode) -> Vec<(&str, &str)> {
        episode.calls.iter().map(|call| (call.observation.as_str(), call.response.as_str())).collect()
    }

    #[test]
    fn the_same_conversation_is_read_from_each_format() {
        let user = json!({ "role": "user", "content": "2 + 2?" });
        let answer = json!({ "role": "assistant", "content": "4" });
        let lines = [
            json!({ "messages": [user, answer], "reward": 1.0 }),
            json!({ "conversations": [{ "from": "human", "value": "2 + 2?" }, { "from": "gpt", "value": "4" }], "score": 1 }),
            json!({ "prompt": [user], "completion": [answer], "answer": "4", "reward": 1.0, "info": {}, "metrics": { "exact": 1.0 } }),
            json!({ "step": 3, "prompt": "2 + 2?", "completion": "4", "exact_reward": 0.75, "length_reward": 0.25, "advantage": 0.5 }),
            json!({ "prompt": "2 + 2?", "response": "4", "rewards": { "exact": 1.0 } }),
        ];
        let read: Vec<(Episode, Vec<String>)> = lines.into_iter().map(episode).collect();
        for (episode, names) in &read {
            assert_eq!((turns(episode), episode.reward, names.len()), (vec![("2 + 2?", "4")], 1.0, 0), "{names:?}");
            assert_eq!(episode.task, read[0].0.task, "one task, whatever the format");
        }
        assert_eq!((read[3].0.iteration, read[3].0.info.as_str()), (3, r#"{"exact_reward":0.75,"length_reward":0.25}"#));
    }

    #[test]
    fn tools_thoughts_and_further_turns_are_read() {
        let call = json!([{ "id": "a", "type": "function", "function": { "name": "add", "arguments": "{\"b\": 2, \"a\": 1}" } }]);
        let object = json!([{ "id": "a", "name": "add", "arguments": { "b": 2, "a": 1 } }]);
        for tools in [call, object] {
            let (episode, names) = episode(json!({ "reward": 0.5, "messages": [
                { "role": "system", "content": "Add." },
                { "role": "user", "content": [{ "type": "text", "text": "1 + 2?" }] },
                { "role": "assistant", "content": null, "reasoning_content": "I add.", "tool_calls": tools },
                { "role": "tool", "tool_call_id": "a", "content": "3" },
                { "role": "assistant", "content": [{ "type": "thinking", "thinking": "Done." }, { "type": "text", "text": "3" }] },
            ] }));
            let first = "<think>\nI add.\n</think>\nadd({\"a\":1,\"b\":2})";
            assert_eq!(turns(&episode), [("system: Add.\nuser: 1 + 2?", first), ("3", "<think>\nDone.\n</think>\n3")]);
            assert_eq!((names, episode.calls[1].parent), (vec![], episode.calls[0].call));
        }
    }

    #[test]
    fn what_is_not_read_is_named_and_what_lacks_is_said() {
        let (episode, names) = episode(json!({ "reward": 1, "logprobs": [-0.5], "messages": [
            { "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "x" } }] }, { "role": "assistant", "content": "a", "weight": 0 } ] }));
        assert_eq!(names, ["content[].image_url", "logprobs", "weight"]);
        assert!(episode.failure.is_none());
        let failure = |line: Value| self::episode(line).0.failure.unwrap().error;
        assert!(failure(json!({ "messages": [{ "role": "user", "content": "a" }], "reward": 1 })).contains("no answer of an assistant"));
        assert!(failure(json!({ "prompt": "a", "completion": "b" })).contains("no reward"));
        let refused = |line: Value| read(line.to_string().as_bytes(), &mut BTreeSet::new()).err().unwrap();
        assert!(refused(json!({ "prompt": "a", "completion": "b", "reward": "good" })).contains("`reward` is no number"));
        assert!(refused(json!({ "prompt": "a", "completion": "b", "reward": 1, "step": 1u64 << 40 })).contains("at most 1000000"));
        assert!(refused(json!({ "text": "a" })).contains("neither `messages`"));
    }
}
