//! What an agent program asks of the policy: a call of a chat model, as an environment shows it.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A call of a chat model. The calls of an episode form a graph: one may go on from another, whose messages and answer
/// it begins with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Its name within the episode, which decides its random numbers: a hash of its parent call and its new messages.
    /// 16 hexadecimal digits.
    #[serde(deserialize_with = "id")]
    pub id: u64,
    /// The model that the program named.
    #[serde(default)]
    pub model: String,
    /// All messages, in the form of chat completions.
    pub messages: Vec<Value>,
    /// The tools that the model may call, in the same form.
    #[serde(default)]
    pub tools: Vec<Value>,
    /// The call that it goes on from.
    #[serde(default, deserialize_with = "some_id")]
    pub on: Option<u64>,
    /// With `on`: how many of its messages are that call's and its answer.
    #[serde(default)]
    pub since: usize,
    /// Why it doesn't go on from the call before, or goes on from one that another goes on from.
    #[serde(default)]
    pub fork: String,
    /// Tokens of its answer, at most.
    #[serde(default)]
    pub max_tokens: Option<usize>,
    /// Tools: its answer must call one of them. Empty where it needn't call any.
    #[serde(default)]
    pub must_call: Vec<String>,
    /// Texts before which its answer ends.
    #[serde(default)]
    pub stop: Vec<String>,
}

impl Call {
    /// What is wrong with it, if anything is.
    pub(super) fn fault(&self) -> Option<String> {
        let known = |message: &&Value| message["role"].is_string() && message["content"].is_string();
        if self.messages.is_empty() {
            return Some("its `call` has no messages".into());
        }
        if let Some(message) = self.messages.iter().find(|message| !known(message)) {
            return Some(format!("a message of its `call` has no text as `role` and `content`: {:.80}", message.to_string()));
        }
        let fits = if self.on.is_some() { (1..self.messages.len()).contains(&self.since) } else { self.since == 0 };
        (!fits)
            .then(|| format!("its `call` has {} messages, and {} of them can't be those of another call", self.messages.len(), self.since))
    }
}

fn parse<E: Error>(text: &str) -> Result<u64, E> {
    let digits = (text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit())).then(|| u64::from_str_radix(text, 16).ok()).flatten();
    digits.ok_or_else(|| E::custom(format!("a call's name is 16 hexadecimal digits, not `{text:.40}`")))
}

fn id<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    parse(&String::deserialize(from)?)
}

fn some_id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::<String>::deserialize(from)?.map(|text| parse(&text)).transpose()
}

/// The answer to an episode's observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act<'a> {
    /// An action, to be carried out.
    Action(&'a str),
    /// The answer to a call: its text, whether it was cut off at its limit, and the tokens of the prompt and of the
    /// answer.
    Answer { text: &'a str, cut: bool, tokens: [usize; 2] },
    /// A call can't be answered: its prompt has so many tokens, and so many are allowed.
    Refuse { tokens: usize, limit: usize },
    /// A call can't be answered for another reason.
    Decline { why: &'a str },
}

/// The names of calls.
pub(super) fn names(given: Vec<String>) -> Result<Vec<u64>, String> {
    given.iter().map(|name| parse::<serde_json::Error>(name).map_err(|e| e.to_string())).collect()
}

/// The reward of a call: its name and the number.
pub(super) fn credit(given: Vec<(String, f64)>) -> Result<Vec<(u64, f32)>, String> {
    given
        .into_iter()
        .map(|(name, reward)| {
            let id = parse::<serde_json::Error>(&name).map_err(|e| e.to_string())?;
            let reward = reward as f32;
            reward.is_finite().then_some((id, reward)).ok_or_else(|| format!("the reward of the call {name} is too large"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Call, String> {
        let call: Call = serde_json::from_str(text).map_err(|e| e.to_string())?;
        call.fault().map_or(Ok(call), Err)
    }

    #[test]
    fn a_call_says_what_it_adds() {
        let text = r#"{"id":"000000000000000a","on":"000000000000000b","since":1,"messages":[{"role":"user","content":"a"},{"role":"tool","content":""}]}"#;
        let call = read(text).unwrap();
        assert_eq!((call.id, call.on, call.messages[call.since]["role"].as_str()), (10, Some(11), Some("tool")));
        for (text, word) in [
            (r#"{"id":"a","messages":[]}"#, "16 hexadecimal digits"),
            (r#"{"id":"000000000000000a","messages":[]}"#, "no messages"),
            (r#"{"id":"000000000000000a","messages":[{"role":"user","content":null}]}"#, "no text as `role` and `content`"),
            (r#"{"id":"000000000000000a","since":1,"messages":[{"role":"user","content":""}]}"#, "can't be those of another call"),
            (r#"{"id":"000000000000000a","on":"000000000000000b","messages":[{"role":"user","content":""}]}"#, "can't be those"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(word), "{text}: {message}");
        }
        assert_eq!(credit(vec![("000000000000000a".into(), 0.5)]), Ok(vec![(10, 0.5)]));
        assert!(credit(vec![("000000000000000a".into(), 1e39)]).unwrap_err().contains("too large"));
    }
}
