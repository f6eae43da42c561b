//! A program's answers, validated against the protocol.

use super::actions::{within_limits, Actions};
use super::hello::{is_item, is_split};
use super::malformed::{malformed, quoted, why};
use crate::view::{EpisodeFacts, EpisodeView, Extras};
use crate::{call, Call, Cause, Fault, TimeStep};
use flow_core::seed;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::Value;
use std::collections::BTreeMap;

/// Numbers that `info` may have.
const MOST_INFO: usize = 32;

/// The answers on a line: an object, or an array of them.
pub(super) fn objects(line: &[u8]) -> Result<Vec<Value>, Fault> {
    let value: Value =
        serde_json::from_slice(line).map_err(|e| malformed(format!("its answer is no JSON ({}): {}", why(&e), quoted(line))))?;
    match value {
        Value::Array(values) => Ok(values),
        value => Ok(vec![value]),
    }
}

/// The episode that a line names which [`objects`] refuses: flow reads the line up to its fault, and neither numbers nor
/// depth matter.
pub(super) fn episode_of_line(line: &[u8]) -> Option<usize> {
    let mut found = None;
    let _ = serde_json::Deserializer::from_slice(line).deserialize_map(EpisodeOf(&mut found));
    found
}

/// Keeps the number of an object's `episode`, even where the object has a fault after it.
struct EpisodeOf<'a>(&'a mut Option<usize>);

impl<'de> Visitor<'de> for EpisodeOf<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "episode" => *self.0 = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The number of the episode that an answer is about.
pub(super) fn episode(value: &Value) -> Result<usize, Fault> {
    let number = value.get("episode").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    number.ok_or_else(|| malformed(format!("its answer names no `episode`: {}", quoted(value.to_string().as_bytes()))))
}

/// A view as a program writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawView {
    #[serde(rename = "episode")]
    _episode: u64,
    observation: String,
    actions: Option<Actions>,
    reward: Option<f64>,
    done: Option<bool>,
    won: Option<bool>,
    truncated: Option<bool>,
    valid: Option<bool>,
    state: Option<String>,
    score: Option<f64>,
    info: Option<BTreeMap<String, f64>>,
    instruction: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    gold: Option<String>,
    call: Option<Box<Call>>,
    credit: Option<Vec<(String, f64)>>,
    unread: Option<Vec<String>>,
}

/// The view in the answer to a reset or, with `step`, to a step. `last` is the episode's previous list of actions,
/// which the new one replaces.
pub(super) fn view(value: Value, step: bool, last: &mut Option<Vec<String>>) -> Result<EpisodeView, Fault> {
    let shown: RawView = read(value)?;
    let need = |what: &str| malformed(format!("its answer to a step has no `{what}`"));
    if shown.observation.is_empty() {
        return Err(malformed("its `observation` is empty"));
    }
    let done = shown.done.or((!step).then_some(false)).ok_or_else(|| need("done"))?;
    if done && !step {
        return Err(malformed("its episode is over before the first turn"));
    }
    let reward = if step { shown.reward.ok_or_else(|| need("reward"))? as f32 } else { 0.0 };
    let score = shown.score.map(|score| score as f32);
    if !reward.is_finite() || score.is_some_and(|score| !score.is_finite()) {
        return Err(malformed(format!("its `{}` is too large", if reward.is_finite() { "score" } else { "reward" })));
    }
    let actions = shown.actions.map(|actions| actions.after(last.as_deref())).transpose()?;
    let info = shown.info.unwrap_or_default();
    within_limits(actions.as_deref().unwrap_or_default())?;
    named(&info, shown.kind.as_deref())?;
    if let Some(fault) = shown.call.as_ref().and_then(|call| call.fault()) {
        return Err(malformed(fault));
    }
    let credit = call::credit(shown.credit.unwrap_or_default()).map_err(malformed)?;
    let unread = call::names(shown.unread.unwrap_or_default()).map_err(malformed)?;
    if actions.is_some() {
        last.clone_from(&actions);
    }
    let state = seed::text(shown.state.as_deref().unwrap_or(&shown.observation));
    let won = shown.won.unwrap_or(false) && done;
    let time_step = TimeStep { observation: shown.observation, state, reward, done, won, valid: shown.valid.unwrap_or(true) };
    let extras = Extras {
        score,
        info,
        truncated: shown.truncated.unwrap_or(false) && done,
        facts: EpisodeFacts {
            instruction: shown.instruction.unwrap_or_default(),
            kind: shown.kind.unwrap_or_default(),
            gold: shown.gold.unwrap_or_default(),
        },
        call: shown.call.filter(|_| !done),
        credit,
        unread,
    };
    Ok(EpisodeView { step: time_step, actions: actions.unwrap_or_default(), extras })
}

/// Refuses too many numbers in `info` and invalid names.
fn named(info: &BTreeMap<String, f64>, kind: Option<&str>) -> Result<(), Fault> {
    if info.len() > MOST_INFO {
        return Err(malformed(format!("its `info` has {} numbers, more than {MOST_INFO}", info.len())));
    }
    if let Some(name) = info.keys().find(|name| !is_split(name)) {
        return Err(malformed(format!("its `info` names {}: a name has small letters, digits and `_`", quoted(name.as_bytes()))));
    }
    match kind.filter(|kind| !is_item(kind)) {
        Some(kind) => Err(malformed(format!("its `type` is {}: it must be made as a task's name is", quoted(kind.as_bytes())))),
        None => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advice {
    #[serde(rename = "episode")]
    _episode: u64,
    action: Option<String>,
}

/// The expert's action in an answer; `None` where it knows no way on.
pub(super) fn advice(value: Value) -> Result<Option<String>, Fault> {
    Ok(read::<Advice>(value)?.action)
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Fault> {
    if let Some(error) = value.get("error") {
        return Err(Fault::new(Cause::Error, error.as_str().map_or_else(|| error.to_string(), String::from)));
    }
    serde_json::from_value(value).map_err(|e| malformed(format!("its answer doesn't follow the protocol: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, step: bool) -> Result<EpisodeView, Fault> {
        view(serde_json::from_str(text).unwrap(), step, &mut None)
    }

    fn shown_after(text: &str, last: &mut Option<Vec<String>>) -> Result<EpisodeView, Fault> {
        view(serde_json::from_str(text).unwrap(), true, last)
    }

    #[test]
    fn an_answer_is_read_with_its_defaults() {
        let first = shown(r#"{"episode":3,"observation":"P . F","actions":["left","right"]}"#, false).unwrap();
        assert_eq!(first.actions, ["left", "right"]);
        let expected =
            TimeStep { observation: "P . F".into(), state: seed::text("P . F"), reward: 0.0, done: false, won: false, valid: true };
        assert_eq!(first.step, expected);
        let text = r#"{"episode":3,"observation":"x","reward":1,"done":true,"won":true,"valid":false,"state":"end"}"#;
        let last = shown(text, true).unwrap();
        let expected = TimeStep { observation: "x".into(), state: seed::text("end"), reward: 1.0, done: true, won: true, valid: false };
        assert_eq!(last, EpisodeView { step: expected, actions: vec![], extras: Extras::default() });
    }

    #[test]
    fn an_answer_may_have_a_score_figures_and_the_tasks_text() {
        let text = r#"{"episode":3,"observation":"x","reward":0.5,"done":true,"won":null,"truncated":true,"score":33,"info":{"steps":1},"type":"long","instruction":"Go.","gold":"42"}"#;
        let view = shown_after(text, &mut None).unwrap();
        let info = BTreeMap::from([("steps".to_owned(), 1.0)]);
        let extras = Extras {
            score: Some(33.0),
            info,
            truncated: true,
            facts: EpisodeFacts { instruction: "Go.".into(), kind: "long".into(), gold: "42".into() },
            ..Extras::default()
        };
        assert_eq!((view.extras, view.step.won, view.step.done), (extras, false, true));
    }

    #[test]
    fn the_list_of_actions_is_remembered() {
        let mut last = Some(["look", "take key"].map(String::from).to_vec());
        let text = r#"{"episode":3,"observation":"x","reward":0,"done":false,"actions":{"drop":[1]}}"#;
        let view = shown_after(text, &mut last).unwrap();
        assert_eq!((view.actions, last), (vec!["look".to_owned()], Some(vec!["look".to_owned()])));
    }

    #[test]
    fn what_is_beyond_the_limits_is_refused() {
        let many: Vec<String> = (0..10_001).map(|i| i.to_string()).collect();
        let info: BTreeMap<String, u32> = (0..33).map(|i| (format!("n{i}"), i)).collect();
        for (field, word) in [
            (format!("\"actions\":{}", serde_json::to_string(&many).unwrap()), "names 10001 actions"),
            (format!("\"actions\":[\"{}\"]", "x".repeat(4097)), "has 4097 bytes"),
            ("\"actions\":[\"a\",\"a\"]".into(), "the action `a` twice"),
            (format!("\"info\":{}", serde_json::to_string(&info).unwrap()), "has 33 numbers"),
            ("\"info\":{\"A b\":1}".into(), "`info` names `A b`"),
            ("\"type\":\"a b\"".into(), "`type` is `a b`"),
            ("\"score\":1e39".into(), "`score` is too large"),
            ("\"moves\":1".into(), "unknown field `moves`"),
        ] {
            let text = format!(r#"{{"episode":3,"observation":"x","reward":0,"done":false,{field}}}"#);
            let message = shown_after(&text, &mut None).unwrap_err().text;
            assert!(message.contains(word), "{}: {message}", &field[..field.len().min(40)]);
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_names_its_episode() {
        let deep = format!("{}1{}", "[".repeat(400), "]".repeat(400));
        let digits = "9".repeat(400);
        for value in [deep.as_str(), &digits, "1e999", "NaN", "\"\\ud800\"", "\"half", "tru", ""] {
            let line = format!("{{\"world\":[1],\"episode\":7,\"call\":{{\"a\":{value}}}}}\n");
            assert!(objects(line.as_bytes()).is_err(), "{value:.20}");
            assert_eq!(episode_of_line(line.as_bytes()), Some(7), "{value:.20}");
        }
        for line in [
            "DEBUG stepping",
            "",
            "{\"observation\":NaN,\"episode\":7}",
            "{\"episode\":-1,\"a\":NaN}",
            "{\"episode\":\"7\"",
            "[{\"episode\":7",
        ] {
            assert_eq!(episode_of_line(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn what_is_no_answer_is_malformed() {
        for text in ["", "hello", r#"{"episode":1,"reward":NaN}"#] {
            assert!(objects(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["[1]", "{}", r#"{"episode":-1}"#, r#"{"episode":"1"}"#] {
            assert!(objects(text.as_bytes()).unwrap().iter().any(|value| episode(value).is_err()), "{text}");
        }
        assert!(objects(b"{\"episode\":1,\"observation\":\"\xff\"}").is_err(), "not UTF-8");
        for (text, word) in [
            (r#"{"episode":1,"reward":0,"done":false}"#, "missing field `observation`"),
            (r#"{"episode":1,"observation":7,"reward":0,"done":false}"#, "invalid type: integer `7`, expected a string"),
            (r#"{"episode":1,"observation":"","reward":0,"done":false}"#, "`observation` is empty"),
            (r#"{"episode":1,"observation":"x","done":false}"#, "no `reward`"),
            (r#"{"episode":1,"observation":"x","reward":0}"#, "no `done`"),
            (r#"{"episode":1,"observation":"x","reward":1e39,"done":false}"#, "too large"),
            (r#"{"episode":1,"observation":"x","rewrad":0,"done":false}"#, "unknown field `rewrad`"),
            (r#"{"episode":1,"observation":"x","reward":0,"done":false,"actions":"left"}"#, "`actions` are a list of texts"),
        ] {
            let fault = shown(text, true).unwrap_err();
            assert_eq!(fault.cause, Cause::Malformed, "{text}");
            assert!(fault.text.contains(word), "{text}: {}", fault.text);
        }
        assert!(shown(r#"{"episode":1,"observation":"x","done":true}"#, false).unwrap_err().text.contains("before the first turn"));
        let reported = shown(r#"{"episode":1,"error":"KeyError: 'left'"}"#, true).unwrap_err();
        assert_eq!((reported.cause, reported.text.as_str()), (Cause::Error, "KeyError: 'left'"));
    }
}
