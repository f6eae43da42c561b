//! The prompt of a reflection on a finished episode: a template, filled with the transcript.

use super::agent::Agent;
use super::template::{Placeholders, PromptTemplate, TemplateError, HOLE};
use super::transcript::Transcript;
use super::{notes, tags};
use crate::policy::Message;
use minijinja::Value;

/// The template where none is given: for small policies trained from nothing.
pub const SHORT: &str = "{{ memory }}{{ first }}\nAttempt {{ attempt }}: {{ actions }}\n{{ last }}\nReflect:";

/// What a template of a reflection can ask for.
pub const PLACES: Placeholders = &[
    ("first", "the first observation"),
    ("actions", "the actions, in order"),
    ("last", "the last observation"),
    ("rules", "how the world is played"),
    ("task", "the task's own text, where observations don't say it"),
    ("memory", "notes on earlier attempts, and entries retrieved from a memory"),
    ("attempt", "the number of the attempt, from 1"),
    ("transcript", "observations and actions, turn by turn, and the last observation"),
    ("won", "whether it was won"),
    ("score", "its score"),
    ("kind", "what is to be extracted from it: `strategy` or `warning`; empty in a reflection"),
];

/// The compiled prompt of a reflection.
#[derive(Clone, Debug)]
pub struct ReflectionQuestion {
    user: PromptTemplate,
    system: Option<PromptTemplate>,
}

impl ReflectionQuestion {
    /// The reflection prompt of this agent.
    ///
    /// # Errors
    /// If a template can't be read, uses an unknown name, or can't be filled.
    pub fn new(agent: &Agent) -> Result<ReflectionQuestion, TemplateError> {
        tried(agent).map_err(|(_, error)| error)
    }

    /// Whether the template uses this placeholder.
    pub fn asks(&self, place: &str) -> bool {
        self.user.asks(place) || self.system.as_ref().is_some_and(|system| system.asks(place))
    }

    /// The messages about an episode under these rules, with notes and retrieved entries: `memory` at its placeholder,
    /// `passages` in the system message.
    ///
    /// # Errors
    /// If a template can't be rendered.
    pub fn messages(&self, episode: &Transcript, rules: &str, memory: &str, passages: &str) -> Result<Vec<Message>, TemplateError> {
        let fill = |template: &PromptTemplate| filled(template, episode, rules, memory);
        let own = self.system.as_ref().map(fill).transpose()?;
        let parts: Vec<&str> = own.as_deref().into_iter().chain([passages]).filter(|text| !text.is_empty()).collect();
        let message = |role: &str, content| Message { role: role.into(), content };
        let system = (own.is_some() || !parts.is_empty()).then(|| message("system", parts.join("\n")));
        Ok(system.into_iter().chain([message("user", fill(&self.user)?)]).collect())
    }

    /// The words of the prompt, of the notes and of the tag, for a vocabulary.
    pub fn words(&self, tag: Option<&str>) -> Vec<String> {
        let own = self.system.iter().flat_map(|system| system.words(|_| HOLE.into()));
        words(&self.user, tag).into_iter().chain(own).collect()
    }
}

/// The same; an error names the setting that is wrong.
pub fn tried(agent: &Agent) -> Result<ReflectionQuestion, (&'static str, TemplateError)> {
    let tried = |template: PromptTemplate| {
        template.fill(|place| match place {
            "attempt" | "score" => 1.into(),
            "won" => true.into(),
            place => place.into(),
        })?;
        Ok(template)
    };
    let user = PromptTemplate::read(agent.prompt.as_deref().unwrap_or(SHORT), PLACES).and_then(tried);
    let system = agent.system.as_deref().map(|text| PromptTemplate::read_any(text, PLACES).and_then(tried)).transpose();
    let (user, system) = (user.map_err(|error| ("prompt", error))?, system.map_err(|error| ("system", error))?);
    Ok(ReflectionQuestion { user, system })
}

fn filled(template: &PromptTemplate, episode: &Transcript, rules: &str, memory: &str) -> Result<String, TemplateError> {
    template.fill(|place| match place {
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
    })
}

/// An episode, turn by turn.
fn retold(episode: &Transcript) -> String {
    let turns = episode.observations.iter().zip(&episode.actions);
    turns.map(|(seen, done)| format!("{seen}\n> {done}\n")).chain([episode.outcome.to_owned()]).collect()
}

/// The words of a reflection prompt, of the notes and of the tag.
fn words(template: &PromptTemplate, tag: Option<&str>) -> Vec<String> {
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
        let agent = serde_json::json!({ "model": "actor", "prompt": "papers/empo2/tip.txt" });
        let template = ReflectionQuestion::new(&serde_json::from_value(agent).unwrap()).unwrap();
        assert!(template.asks("rules") && template.asks("task") && template.asks("last"));
    }

    /// Their order numbers the tokens of a new model.
    #[test]
    fn the_words_of_the_short_question_stay_as_they_are() {
        let template = PromptTemplate::read(SHORT, PLACES).unwrap();
        assert_eq!(words(&template, None)[notes::words().len()..], ["\nAttempt ", ": ", "\n", "\nReflect:"].map(String::from));
    }
}
