//! What the policy is asked about an episode that is over: a template, filled with what is known of it.

use super::settings::ReflectionSettings;
use super::template::{Places, Template, TemplateError, HOLE};
use super::transcript::Transcript;
use super::{notes, tags};
use minijinja::Value;

/// The template where none is given: for small policies trained from nothing.
pub const SHORT: &str = "{{ memory }}{{ first }}\nAttempt {{ attempt }}: {{ actions }}\n{{ last }}\nReflect:";

/// What a template of a reflection can ask for.
pub const PLACES: Places = &[
    ("first", "what was seen first"),
    ("actions", "what was done, in order"),
    ("last", "what was seen in the end"),
    ("rules", "how the world is played"),
    ("task", "the task's own text, where observations don't say it"),
    ("memory", "what was told of earlier attempts, and what a memory tells"),
    ("attempt", "the number of the attempt, from 1"),
];

/// The template that these settings declare.
///
/// # Errors
/// If it can't be read, asks for what there isn't, or can't be filled.
pub fn question(settings: &ReflectionSettings) -> Result<Template, TemplateError> {
    let template = Template::read(settings.prompt.as_deref().unwrap_or(SHORT), PLACES)?;
    template.fill(|place| if place == "attempt" { 1.into() } else { place.into() })?;
    Ok(template)
}

/// The template, filled with an episode of a world with these rules; `memory` is what was told of earlier attempts and is told from a memory.
///
/// # Errors
/// If it does something with a place that can't be done.
pub fn ask(template: &Template, episode: &Transcript, rules: &str, memory: &str) -> Result<String, TemplateError> {
    template.fill(|place| match place {
        "first" => episode.first.into(),
        "actions" => episode.actions.join("; ").into(),
        "last" => episode.outcome.into(),
        "rules" => rules.into(),
        "task" => episode.instruction.into(),
        "memory" => memory.into(),
        "attempt" => (episode.start.attempt + 1).into(),
        _ => Value::UNDEFINED,
    })
}

/// The words of the question, of what is kept and of the tag, for a vocabulary.
pub fn words(template: &Template, tag: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = tag.into_iter().flat_map(|tag| [tags::open(tag), tags::close(tag)]).collect();
    words.extend(notes::words());
    words.extend(template.words(|_| HOLE.into()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_of_empo2_can_be_filled() {
        let settings = serde_json::json!({ "prompt": "pipelines/empo2/tip.txt" });
        let template = question(&serde_json::from_value(settings).unwrap()).unwrap();
        assert!(template.asks("rules") && template.asks("task") && template.asks("last"));
    }

    /// Their order numbers the tokens of a new model.
    #[test]
    fn the_words_of_the_short_question_stay_as_they_are() {
        let template = Template::read(SHORT, PLACES).unwrap();
        assert_eq!(words(&template, None)[notes::words().len()..], ["\nAttempt ", ": ", "\n", "\nReflect:"].map(String::from));
    }
}
