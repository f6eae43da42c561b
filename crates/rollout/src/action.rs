//! Parses a response into the action that it means, and encodes actions as tokens.

use super::tags::{self, ACTION};
use flow_model::{Reply, Sampling};
use flow_text::Tokenizer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a response becomes an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decode {
    /// The response is one of the admissible actions, and nothing else can be written.
    #[default]
    Constrained,
    /// Anything can be written; the action is read from its `<action>` tag, or is the whole of it (`answer: []`).
    Free,
}

/// Why an action was not valid: the values of the column `invalid_because`, with their meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The answer lacks the tag of its action, or of another required part.
    NoTag,
    /// The same, and it was cut off at `max_tokens`.
    CutOff,
    /// The environment refused the action.
    NotAdmissible,
}

impl Invalid {
    /// Its name in the column.
    pub fn name(self) -> &'static str {
        match self {
            Invalid::NoTag => "no_tag",
            Invalid::CutOff => "cut_off",
            Invalid::NotAdmissible => "not_admissible",
        }
    }

    /// Of an answer that can't be read: whether it was cut off, or has no tag.
    pub fn unread(response: &Response) -> Invalid {
        if response.cut {
            Invalid::CutOff
        } else {
            Invalid::NoTag
        }
    }
}

/// The response of a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// The decoded text.
    pub text: String,
    /// The tokens, including the end token unless the length limit cut it off.
    pub tokens: Vec<u32>,
    /// The log-probability of each token; 0 where an expert chose it.
    pub logprobs: Vec<f32>,
    /// The temperature that the logits were divided by.
    pub temperature: f32,
    /// Whether the length limit cut it off before its end token.
    pub cut: bool,
}

impl Response {
    /// An expert's turn: where its action is `tagged`, the tagged parts `before` it too. Where the expert has no action
    /// the response is empty, which is invalid.
    ///
    /// # Errors
    /// If its text can't be encoded.
    pub fn of_expert(
        tagged: bool,
        before: &[(String, String)],
        action: Option<String>,
        encoder: &mut ActionEncoder,
    ) -> Result<Response, String> {
        let action = action.unwrap_or_default();
        let parts: String = before.iter().map(|(tag, text)| tags::write(tag, text)).collect();
        let text = if tagged { parts + &tags::write(ACTION, &action) } else { action };
        let tokens = encoder.closed(&text)?;
        Ok(Response::certain(text, tokens))
    }

    /// An expert's response, as if a policy had written it with probability 1.
    pub fn certain(text: String, tokens: Vec<u32>) -> Response {
        Response { logprobs: vec![0.0; tokens.len()], temperature: 1.0, tokens, text, cut: false }
    }

    /// The same up to its `most`th token and before the first of the texts in `stop`, and what it says then. It keeps
    /// the tokens up to the one that completes that text.
    pub fn until(mut self, most: Option<usize>, stop: &[String], tokenizer: &Tokenizer) -> (Response, String) {
        let keep = |response: &mut Response, count: usize| {
            response.tokens.truncate(count);
            response.logprobs.truncate(count);
            response.text = tokenizer.answer(&response.tokens);
        };
        if let Some(most) = most.filter(|most| self.tokens.len() > *most) {
            keep(&mut self, most.max(1));
            self.cut = true;
        }
        let first = |text: &str| stop.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| text.find(stop.as_str())).min();
        if first(&self.text).is_some() {
            let has = |count: usize| first(&tokenizer.answer(&self.tokens[..count])).is_some();
            let (mut without, mut with) = (0, self.tokens.len());
            while with - without > 1 {
                let middle = without + (with - without) / 2;
                if has(middle) {
                    with = middle;
                } else {
                    without = middle;
                }
            }
            keep(&mut self, with);
            self.cut = false;
        }
        let said = first(&self.text).map_or(&self.text[..], |end| &self.text[..end]).to_owned();
        (self, said)
    }

    /// A policy's reply, with these sampling settings.
    pub fn replied(reply: Reply, sampling: &Sampling, tokenizer: &Tokenizer) -> Response {
        let temperature = sampling.divisor() as f32;
        let text = tokenizer.answer(&reply.tokens);
        let closed = reply.tokens.last().is_some_and(|last| tokenizer.ends().contains(last));
        let stopped = sampling.stop.iter().any(|stop| text.contains(stop.as_str()));
        Response { text, tokens: reply.tokens, logprobs: reply.logprobs, temperature, cut: !closed && !stopped }
    }
}

/// Encodes texts with the end token, and caches the result.
pub struct ActionEncoder {
    tokenizer: Arc<Tokenizer>,
    known: BTreeMap<String, Vec<u32>>,
}

impl ActionEncoder {
    /// An empty cache.
    pub fn new(tokenizer: Arc<Tokenizer>) -> ActionEncoder {
        ActionEncoder { tokenizer, known: BTreeMap::new() }
    }

    /// The tokenizer that encodes.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The tokens of a text, and the end token.
    ///
    /// # Errors
    /// If the text can't be encoded.
    pub fn closed(&mut self, text: &str) -> Result<Vec<u32>, String> {
        if let Some(tokens) = self.known.get(text) {
            return Ok(tokens.clone());
        }
        let mut tokens = self.tokenizer.encoded(text).map_err(|error| error.to_string())?;
        tokens.push(self.tokenizer.end());
        self.known.insert(text.into(), tokens.clone());
        Ok(tokens)
    }

    /// The tokens of each of these actions, with the end token.
    ///
    /// # Errors
    /// If an answer couldn't say which of them it is: one has the text of an end token, or two have the same tokens, as
    /// a tokenizer's normalizer may make of two spellings.
    pub fn choices(&mut self, actions: &[String]) -> Result<Vec<Vec<u32>>, String> {
        let choices: Vec<Vec<u32>> = actions.iter().map(|action| self.closed(action)).collect::<Result<_, _>>()?;
        let mut known: BTreeMap<&[u32], &str> = BTreeMap::new();
        for (tokens, action) in choices.iter().zip(actions) {
            let text = &tokens[..tokens.len() - 1];
            if let Some(end) = text.iter().find(|token| self.tokenizer.ends().contains(token)) {
                let end = self.tokenizer.name(*end);
                return Err(format!("the action {action:?} contains {end}, the token that ends an answer: take it out of the action"));
            }
            if let Some(other) = known.insert(text, action) {
                return Err(format!(
                    "the actions {other:?} and {action:?} are the same tokens to the model, so its answer can't say which of them it is: \
                     list one of them, or give them different words"
                ));
            }
        }
        Ok(choices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experts_turn_reads_back_as_its_action() {
        let mut encoder = ActionEncoder::new(Arc::new(Tokenizer::bytes()));
        for (tagged, text) in [(false, "up"), (true, "<action>up</action>")] {
            let response = Response::of_expert(tagged, &[], Some("up".into()), &mut encoder).unwrap();
            assert_eq!(response.text, text);
            assert_eq!((response.tokens.len(), response.logprobs), (text.len() + 1, vec![0.0; text.len() + 1]), "closed by the end token");
        }
        let noted = [("memory".to_owned(), "a key".to_owned())];
        let response = Response::of_expert(true, &noted, Some("up".into()), &mut encoder).unwrap();
        assert_eq!(response.text, "<memory>a key</memory><action>up</action>");
    }

    /// The tokenizer of a small model with this normalizer.
    fn normalizing(normalizer: serde_json::Value) -> ActionEncoder {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/models/qwen3");
        let read = |path: &std::path::Path| {
            let text = std::fs::read_to_string(path).ok()?;
            if !path.ends_with("tokenizer.json") {
                return Some(text);
            }
            let mut file: serde_json::Value = serde_json::from_str(&text).ok()?;
            file["normalizer"] = normalizer.clone();
            Some(file.to_string())
        };
        ActionEncoder::new(Arc::new(Tokenizer::saved(&folder, &read).unwrap()))
    }

    #[test]
    fn a_list_that_an_answer_cannot_choose_from_is_refused() {
        let strip = serde_json::json!({ "type": "Strip", "strip_left": true, "strip_right": true });
        for (normalizer, one, other) in [
            (serde_json::json!({ "type": "NFC" }), "A\u{30a}ngstrom", "\u{c5}ngstrom"),
            (serde_json::json!({ "type": "Lowercase" }), "Go", "go"),
            (strip, "go", " go "),
            (serde_json::json!({ "type": "Replace", "pattern": { "String": "_" }, "content": " " }), "a_b", "a b"),
        ] {
            let mut encoder = normalizing(normalizer.clone());
            let choices =
                |encoder: &mut ActionEncoder, actions: &[&str]| encoder.choices(&actions.iter().map(|a| a.to_string()).collect::<Vec<_>>());
            let said = choices(&mut encoder, &["stay", one, other]).unwrap_err();
            assert!(said.contains(&format!("{one:?} and {other:?} are the same tokens")), "{said}");
            assert_eq!(choices(&mut encoder, &["stay", one]).unwrap().len(), 2, "{normalizer}");
            let said = choices(&mut encoder, &["stay", "a<|im_end|>b"]).unwrap_err();
            assert!(said.contains("contains <|im_end|>, the token that ends an answer"), "{said}");
            assert!(choices(&mut encoder, &["stay", "a<|im_start|>b"]).is_ok(), "another special token ends nothing");
        }
        assert!(normalizing(serde_json::Value::Null).choices(&["Go".into(), "go".into()]).is_ok());
    }

    #[test]
    fn an_answer_ends_where_its_call_says() {
        let tokenizer = Tokenizer::bytes();
        let answer = || Response { cut: true, ..Response::certain("go on. STOP here".into(), tokenizer.encode("go on. STOP here")) };
        let stop = ["STOP".to_owned(), " ST".into(), String::new()];
        let (response, said) = answer().until(None, &stop, &tokenizer);
        assert_eq!((said.as_str(), response.text.as_str(), response.cut), ("go on.", "go on. ST", false));
        assert_eq!((response.tokens.len(), response.logprobs.len()), (9, 9), "what completed the text was sampled");
        let (response, said) = answer().until(Some(5), &stop, &tokenizer);
        assert_eq!((said.as_str(), response.tokens.len(), response.cut), ("go on", 5, true));
        let (response, said) = answer().until(Some(99), &[], &tokenizer);
        assert_eq!((said.as_str(), response), ("go on. STOP here", answer()));
    }
}
