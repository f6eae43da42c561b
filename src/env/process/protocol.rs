//! Lines to and from a process, as values.

use crate::env::view::View;
use crate::env::{Cause, Fault, Seen, Task};
use crate::seed;
use serde::Deserialize;
use serde_json::{json, Value};

/// The version of the protocol.
const PROTOCOL: u64 = 1;

/// What is asked of an episode.
#[derive(Clone, Copy, Debug)]
pub enum Ask<'a> {
    Reset(&'a Task),
    Step(&'a str),
    Expert,
}

impl Ask<'_> {
    pub(super) fn line(&self, episode: usize) -> Vec<u8> {
        line(&match self {
            Ask::Reset(task) => json!({ "request": "reset", "episode": episode, "task": task.name(), "seed": task.seed }),
            Ask::Step(action) => json!({ "request": "step", "episode": episode, "action": action }),
            Ask::Expert => json!({ "request": "expert", "episode": episode }),
        })
    }
}

pub(super) fn hello(name: &str) -> Vec<u8> {
    line(&json!({ "request": "hello", "protocol": PROTOCOL, "name": name }))
}

fn line(value: &Value) -> Vec<u8> {
    (value.to_string() + "\n").into_bytes()
}

/// What a program says of itself.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    protocol: u64,
    /// The words of its texts.
    #[serde(default)]
    pub words: Vec<String>,
    /// The rules, as a full prompt tells them.
    #[serde(default)]
    pub rules: String,
    /// Whether it can be asked what an expert would do.
    #[serde(default)]
    pub expert: bool,
}

impl Hello {
    pub(super) fn read(line: &[u8]) -> Result<Hello, Fault> {
        let hello: Hello =
            serde_json::from_slice(line).map_err(|e| malformed(format!("its answer to hello is none ({}): {}", why(&e), quoted(line))))?;
        match hello.protocol {
            PROTOCOL => Ok(hello),
            other => Err(malformed(format!("it speaks version {other} of the protocol, this program version {PROTOCOL}"))),
        }
    }
}

/// The object on a line with the number of its episode, or why it is no answer to anything.
pub(super) fn object(line: &[u8]) -> Result<(usize, Value), Fault> {
    let value: Value =
        serde_json::from_slice(line).map_err(|e| malformed(format!("its answer is no JSON ({}): {}", why(&e), quoted(line))))?;
    let number = value.get("episode").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    number.map(|n| (n, value)).ok_or_else(|| malformed(format!("its answer names no `episode`: {}", quoted(line))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    #[serde(rename = "episode")]
    _episode: u64,
    observation: String,
    #[serde(default)]
    actions: Vec<String>,
    reward: Option<f64>,
    done: Option<bool>,
    #[serde(default)]
    won: bool,
    valid: Option<bool>,
    state: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advice {
    #[serde(rename = "episode")]
    _episode: u64,
    action: Option<String>,
}

/// What an answer shows; `step` says which of the two requests it answers.
pub(super) fn view(value: Value, step: bool) -> Result<View, Fault> {
    let shown: Shown = read(value)?;
    let need = |what: &str| malformed(format!("its answer to a step has no `{what}`"));
    if shown.observation.is_empty() {
        return Err(malformed("its `observation` is empty"));
    }
    let done = shown.done.or((!step).then_some(false)).ok_or_else(|| need("done"))?;
    if done && !step {
        return Err(malformed("its episode is over before the first turn"));
    }
    let reward = if step { shown.reward.ok_or_else(|| need("reward"))? as f32 } else { 0.0 };
    if !reward.is_finite() {
        return Err(malformed("its `reward` is too large"));
    }
    let state = seed::text(shown.state.as_deref().unwrap_or(&shown.observation));
    let seen = Seen { observation: shown.observation, state, reward, done, won: shown.won && done, valid: shown.valid.unwrap_or(true) };
    Ok(View { seen, actions: shown.actions })
}

/// The expert's action in an answer.
pub(super) fn advice(value: Value) -> Result<Option<String>, Fault> {
    Ok(read::<Advice>(value)?.action)
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Fault> {
    if let Some(error) = value.get("error") {
        return Err(Fault::new(Cause::Error, error.as_str().map_or_else(|| error.to_string(), String::from)));
    }
    serde_json::from_value(value).map_err(|e| malformed(format!("its answer doesn't follow the protocol: {e}")))
}

fn malformed(text: impl Into<String>) -> Fault {
    Fault::new(Cause::Malformed, text)
}

/// A JSON error without its place, which is always line 1.
fn why(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line").next().unwrap_or_default().into()
}

/// The beginning of a line, for a message.
fn quoted(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{short}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, step: bool) -> Result<View, Fault> {
        view(object(text.as_bytes()).unwrap().1, step)
    }

    #[test]
    fn an_answer_is_read_with_its_defaults() {
        let first = shown(r#"{"episode":3,"observation":"P . F","actions":["left","right"]}"#, false).unwrap();
        assert_eq!(first.actions, ["left", "right"]);
        let seen = Seen { observation: "P . F".into(), state: seed::text("P . F"), reward: 0.0, done: false, won: false, valid: true };
        assert_eq!(first.seen, seen);
        let text = r#"{"episode":3,"observation":"x","reward":1,"done":true,"won":true,"valid":false,"state":"end"}"#;
        let last = shown(text, true).unwrap();
        let seen = Seen { observation: "x".into(), state: seed::text("end"), reward: 1.0, done: true, won: true, valid: false };
        assert_eq!(last, View { seen, actions: vec![] });
    }

    #[test]
    fn what_is_no_answer_is_malformed() {
        for text in ["", "hello", "[1]", "{}", r#"{"episode":-1}"#, r#"{"episode":"1"}"#, r#"{"episode":1,"reward":NaN}"#] {
            assert!(object(text.as_bytes()).is_err(), "{text}");
        }
        assert!(object(b"{\"episode\":1,\"observation\":\"\xff\"}").is_err(), "not UTF-8");
        for (text, word) in [
            (r#"{"episode":1,"reward":0,"done":false}"#, "missing field `observation`"),
            (r#"{"episode":1,"observation":7,"reward":0,"done":false}"#, "invalid type: integer `7`, expected a string"),
            (r#"{"episode":1,"observation":"","reward":0,"done":false}"#, "`observation` is empty"),
            (r#"{"episode":1,"observation":"x","done":false}"#, "no `reward`"),
            (r#"{"episode":1,"observation":"x","reward":0}"#, "no `done`"),
            (r#"{"episode":1,"observation":"x","reward":1e39,"done":false}"#, "too large"),
            (r#"{"episode":1,"observation":"x","rewrad":0,"done":false}"#, "unknown field `rewrad`"),
            (r#"{"episode":1,"observation":"x","reward":0,"done":false,"actions":"left"}"#, "expected a sequence"),
        ] {
            let fault = shown(text, true).unwrap_err();
            assert_eq!(fault.cause, Cause::Malformed, "{text}");
            assert!(fault.text.contains(word), "{text}: {}", fault.text);
        }
        assert!(shown(r#"{"episode":1,"observation":"x","done":true}"#, false).unwrap_err().text.contains("before the first turn"));
        let reported = shown(r#"{"episode":1,"error":"KeyError: 'left'"}"#, true).unwrap_err();
        assert_eq!((reported.cause, reported.text.as_str()), (Cause::Error, "KeyError: 'left'"));
    }

    #[test]
    fn requests_are_lines() {
        let task = Task::parse("process-corridor-s77").unwrap();
        let reset = String::from_utf8(Ask::Reset(&task).line(3)).unwrap();
        assert_eq!(reset, "{\"request\":\"reset\",\"episode\":3,\"task\":\"process-corridor-s77\",\"seed\":77}\n");
        assert_eq!(Ask::Step("a\n\"b\"").line(0), b"{\"request\":\"step\",\"episode\":0,\"action\":\"a\\n\\\"b\\\"\"}\n");
    }
}
