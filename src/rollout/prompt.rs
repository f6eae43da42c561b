//! What the policy is shown in a turn.

use super::{action, tags};
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

/// The words of the templates here, for a vocabulary.
pub fn words() -> Vec<String> {
    let (open, close) = (tags::open(action::TAG), tags::close(action::TAG));
    [HISTORY, NOW, CHOICES, ACTION, &open, &close, "\n", ", "].map(String::from).to_vec()
}

/// One turn as the prompt retells it: what was seen and what was done.
pub type Past = (String, String);

/// All that a prompt can tell of a turn.
pub struct Situation<'a> {
    /// The rules of the game; [`Prompt::Board`] doesn't tell them.
    pub rules: &'a str,
    /// The task's own text, where the observations don't say it; else empty.
    pub instruction: &'a str,
    /// What is told of earlier attempts; empty in the first.
    pub memory: &'a str,
    /// The last turns of this episode, the oldest first.
    pub history: &'a [Past],
    /// What is seen now.
    pub observation: &'a str,
    /// The actions worth choosing from now.
    pub admissible: &'a [String],
}

impl Prompt {
    /// The situation in words.
    pub fn text(self, situation: &Situation) -> String {
        let Situation { rules, instruction, memory, history, observation, admissible } = situation;
        let task = if instruction.is_empty() { String::new() } else { format!("{instruction}\n") };
        if self == Prompt::Board {
            return format!("{memory}{task}{observation}");
        }
        let mut text = format!("{rules}\n{task}{memory}");
        if !history.is_empty() {
            text.push_str(HISTORY);
            for (seen, done) in history.iter() {
                text.push_str(&format!("{seen}\n{ACTION}{done}\n"));
            }
        }
        text.push_str(&format!("{NOW}{observation}\n{CHOICES}{}\n", admissible.join(", ")));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_prompt_tells_all_and_a_board_what_is_seen() {
        let (history, admissible) = ([("A".to_string(), "up".to_string())], ["left".to_string(), "up".to_string()]);
        let situation = Situation {
            rules: "Push.",
            instruction: "",
            memory: "Attempt 1: up\n",
            history: &history,
            observation: "B",
            admissible: &admissible,
        };
        assert_eq!(Prompt::Board.text(&situation), "Attempt 1: up\nB");
        let told = Situation { instruction: "Boil water.", ..situation };
        assert_eq!(Prompt::Board.text(&told), "Attempt 1: up\nBoil water.\nB");
        assert!(Prompt::Full.text(&told).starts_with("Push.\nBoil water.\nAttempt 1: up\n"));
        let situation = Situation { instruction: "", ..told };
        assert_eq!(
            Prompt::Full.text(&situation),
            "Push.\nAttempt 1: up\nYour last turns:\nA\nAction: up\nWhat you see now:\nB\nAdmissible actions: left, up\n"
        );
    }
}
