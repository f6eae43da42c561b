//! Notes for an attempt on earlier ones (LaMer, sections 4 and 6.2: the inter-episode memory).

use flow_text::Tokenizer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The notes on an attempt, for later attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoteContent {
    /// The policy's reflection on it.
    Reflection,
    /// Its actions and its end.
    History,
    /// Both: the paper's default.
    #[default]
    Both,
    /// Nothing.
    None,
}

/// The notes on an attempt without a reflection, for later attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unwritten {
    /// Its actions and its end.
    History,
    /// Nothing.
    #[default]
    None,
}

const ATTEMPT: &str = "Attempt ";
const NOTED: &str = ", noted: ";
const THEN: &str = "; ";

/// The words of these texts, for a vocabulary.
pub fn words() -> Vec<String> {
    [ATTEMPT, NOTED, THEN, ": ", "\n"].map(String::from).to_vec()
}

/// A note of the actions of an attempt, counted from 0, and its final observation.
pub fn history(attempt: u32, actions: &[&str], outcome: &str) -> String {
    format!("{ATTEMPT}{}: {}\n{outcome}\n", attempt + 1, actions.join(THEN))
}

/// A note of the reflection on an attempt, counted from 0.
pub fn reflection(attempt: u32, remark: &str) -> String {
    format!("{ATTEMPT}{}{NOTED}{remark}\n", attempt + 1)
}

/// The reflections in `memory`.
pub fn remarks(memory: &str) -> impl Iterator<Item = &str> {
    memory.lines().filter_map(|line| Some(line.strip_prefix(ATTEMPT)?.split_once(NOTED)?.1))
}

/// `memory` with a new entry, within `budget` tokens: the oldest entries are dropped first, and a newest one that is
/// too long by itself is truncated.
///
/// An entry begins with a line that begins with `Attempt `.
pub fn grown(memory: &str, entry: &str, budget: usize, tokenizer: &Tokenizer) -> String {
    let mut text = format!("{memory}{entry}");
    let length = |text: &str| tokenizer.encode(text).len();
    while length(&text) > budget {
        let Some(next) = text.match_indices(&format!("\n{ATTEMPT}")).next().map(|(at, _)| at + 1) else {
            let tokens = tokenizer.encode(&text);
            return tokenizer.decode(&tokens[..budget]);
        };
        text.drain(..next);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let tokenizer = Tokenizer::bytes();
        let first = history(0, &["up", "left"], "Row 1: #");
        assert_eq!(first, "Attempt 1: up; left\nRow 1: #\n");
        let second = reflection(1, "go right");
        assert_eq!(second, "Attempt 2, noted: go right\n");
        let both = grown(&first, &second, 100, &tokenizer);
        assert_eq!(both, format!("{first}{second}"));
        assert_eq!(grown(&first, &second, first.len() + second.len() - 1, &tokenizer), second);
        assert_eq!(grown(&first, &second, 9, &tokenizer), "Attempt 2");
        assert_eq!(grown("", "", 0, &tokenizer), "");
        assert_eq!(remarks(&format!("{both}Row 1: , noted: x\n{second}")).collect::<Vec<_>>(), ["go right", "go right"]);
    }
}
