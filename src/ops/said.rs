//! What is said in a turn, as text and as tokens, and what action that is.

use super::prompt;
use crate::policy::{Tokenizer, END};
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
    /// Anything can be written; the action is read from its `<action>` tag.
    Free,
}

/// What the player of a turn said: the text, its tokens, and their log-probabilities.
pub type Said = (String, Vec<u32>, Vec<f32>);

/// The action that a response means; none where it can't be read.
pub fn action(response: &str, decode: Decode) -> String {
    match decode {
        Decode::Constrained => response.to_owned(),
        Decode::Free => prompt::parse(response).unwrap_or("").to_owned(),
    }
}

/// The expert's turn as if a policy had written it. An expert that knows no way on says nothing, which is invalid.
pub fn advice(action: Option<String>, decode: Decode, codes: &mut Codes) -> Said {
    let action = action.unwrap_or_default();
    let response = if decode == Decode::Free { prompt::tagged(&action) } else { action };
    let tokens = codes.closed(&response);
    let logprobs = vec![0.0; tokens.len()];
    (response, tokens, logprobs)
}

/// Texts as tokens with the end token, each encoded once.
pub struct Codes {
    tokenizer: Arc<Tokenizer>,
    known: BTreeMap<String, Vec<u32>>,
}

impl Codes {
    pub fn new(tokenizer: Arc<Tokenizer>) -> Codes {
        Codes { tokenizer, known: BTreeMap::new() }
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub fn closed(&mut self, text: &str) -> Vec<u32> {
        if let Some(code) = self.known.get(text) {
            return code.clone();
        }
        let mut code = self.tokenizer.encode(text);
        code.push(END);
        self.known.insert(text.into(), code.clone());
        code
    }
}
