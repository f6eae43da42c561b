//! The prompt of a reflection on a finished episode: a template, filled with the transcript.

use super::agent::Agent;
use super::template::{Placeholders, PromptTemplates, TemplateError, HOLE};
use super::transcript::Transcript;
use super::{notes, tags};
use minijinja::Value;

/// The template where none is given: for small policies trained from nothing.
pub const SHORT: &str = "{{ memory }}{{ first }}\nAttempt {{ attempt }}: {{ actions }}\n{{ last }}\nReflect:";

/// What a template of a reflection can ask for.
pub const PLACES: Placeholders = &[
    ("first", "the first observation"),
    ("actions", "the actions, in order"),
    ("last", "the last observation"),
    ("rules", "how the environment is played"),
    ("task", "the task's own text, where observations don't say it"),
    ("memory", "notes on earlier attempts, and entries retrieved from a memory"),
    ("attempt", "the number of the attempt, from 1"),
    ("transcript", "observations and actions, turn by turn, and the last observation"),
    ("won", "whether it was won"),
    ("score", "its score"),
    ("kind", "what is to be extracted from it: `strategy` or `warning`; empty in a reflection"),
];

/// The reflection prompt of this agent, filled on a sample. An error names the setting that is wrong: a template that
/// can't be read, uses an unknown name, or can't be filled.
pub fn tried(agent: &Agent) -> Result<PromptTemplates, (&'static str, TemplateError)> {
    let user = agent.prompt.as_deref().unwrap_or(SHORT);
    PromptTemplates::read(user, agent.system.as_deref(), PLACES)?.tried(|place| match place {
        "attempt" | "score" => 1.into(),
        "won" => true.into(),
        place => place.into(),
    })
}

/// The value of a placeholder: for an episode under these rules, with notes and retrieved entries in `memory`.
pub fn place(name: &str, episode: &Transcript, rules: &str, memory: &str) -> Value {
    match name {
        "first" => episode.first.into(),
        "actions" => episode.actions.join("; ").into(),
        "last" => episode.outcome.into(),
        "rules" => rules.into(),
        "task" => episode.instruction.into(),
        "memory" => memory.into(),
        "attempt" => (episode.start.attempt + 1).into(),
        "transcript" => retold(episode).into(),
        "won" => episode.won.into(),
        "score" => episode.score.into(),
        "kind" => episode.kind.into(),
        _ => Value::UNDEFINED,
    }
}

/// An episode, turn by turn.
fn retold(episode: &Transcript) -> String {
    let turns = episode.observations.iter().zip(&episode.actions);
    turns.map(|(seen, done)| format!("{seen}\n> {done}\n")).chain([episode.outcome.to_owned()]).collect()
}

/// The words of a reflection prompt, of the notes and of the tag, for a vocabulary.
pub fn words(prompt: &PromptTemplates, tag: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = tag.into_iter().flat_map(|tag| [tags::open(tag), tags::close(tag)]).collect();
    words.extend(notes::words());
    words.extend([&prompt.user].into_iter().chain(&prompt.system).flat_map(|template| template.words(|_| HOLE.into())));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_of_empo2_can_be_filled() {
        let agent = serde_json::json!({ "model": "actor", "prompt": "../../papers/empo2/tip.txt" });
        let template = tried(&serde_json::from_value(agent).unwrap()).unwrap();
        assert!(template.asks("rules") && template.asks("task") && template.asks("last"));
    }

    /// Their order numbers the tokens of a new model.
    #[test]
    fn the_words_of_the_short_question_stay_as_they_are() {
        let template = PromptTemplates::read(SHORT, None, PLACES).unwrap();
        assert_eq!(words(&template, None)[notes::words().len()..], ["\nAttempt ", ": ", "\n", "\nReflect:"].map(String::from));
    }
}
