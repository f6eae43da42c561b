//! What the policy is shown in a turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of the situation a prompt tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Prompt {
    /// The observation alone: for small policies trained from nothing.
    #[default]
    Board,
    /// The rules, the last turns, the observation and the admissible actions: for policies that can read.
    Full,
}

const HISTORY: &str = "Your last turns:\n";
const NOW: &str = "What you see now:\n";
const CHOICES: &str = "Admissible actions: ";
const ACTION: &str = "Action: ";
const OPEN: &str = "<action>";
const CLOSE: &str = "</action>";

/// The words of the templates here, for a vocabulary.
pub fn words() -> Vec<String> {
    [HISTORY, NOW, CHOICES, ACTION, OPEN, CLOSE, "\n", ", "].map(String::from).to_vec()
}

/// One turn as the prompt retells it: what was seen and what was done.
pub type Past = (String, String);

impl Prompt {
    /// `memory` is what is told of earlier attempts; empty in the first.
    pub fn text(self, rules: &str, memory: &str, history: &[Past], observation: &str, admissible: &[String]) -> String {
        if self == Prompt::Board {
            return format!("{memory}{observation}");
        }
        let mut text = format!("{rules}\n{memory}");
        if !history.is_empty() {
            text.push_str(HISTORY);
            for (seen, done) in history {
                text.push_str(&format!("{seen}\n{ACTION}{done}\n"));
            }
        }
        text.push_str(&format!("{NOW}{observation}\n{CHOICES}{}\n", admissible.join(", ")));
        text
    }
}

/// The action inside the last `<action>` tag; `None` without a closed tag.
pub fn parse(response: &str) -> Option<&str> {
    let start = response.rfind(OPEN)? + OPEN.len();
    let length = response[start..].find(CLOSE)?;
    Some(response[start..start + length].trim())
}

/// An action as a free response would say it.
pub fn tagged(action: &str) -> String {
    format!("{OPEN}{action}{CLOSE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_closed_tag_counts() {
        assert_eq!(parse("<action>up</action> or <action> down </action>"), Some("down"));
        assert_eq!(parse("<action>up"), None);
        assert_eq!(parse("</action><action>"), None);
        assert_eq!(parse(&tagged("left")), Some("left"));
    }
}
