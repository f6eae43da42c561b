//! What a source contributes to the prompt of a turn.

use crate::rollout::episode::{Start, Turn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where in a prompt a passage stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Slot {
    /// With what is told of earlier attempts, before the observation: at `{{ memory }}`.
    #[default]
    #[serde(rename = "before")]
    Context,
    /// In a system message; where the model knows no messages, before everything else.
    System,
}

/// A turn, or the end of an episode, for which a prompt is made.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// Which episode it is.
    pub start: &'a Start,
    /// What is seen.
    pub observation: &'a str,
    /// The hash of the state.
    pub state: u64,
    /// The turn before, if there was one.
    pub before: Option<&'a Turn>,
}

/// What a source contributes to one prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Where it stands.
    pub slot: Slot,
    /// The words; empty where it has nothing to contribute.
    pub text: String,
    /// The entries of a memory in it: the id of each, and the words by which it stands in the text.
    pub entries: Vec<(u64, String)>,
    /// Whether it stands above in a conversation from its second message on.
    pub once: bool,
}

impl Passage {
    /// Whether its words came from a memory.
    pub fn retrieved(&self) -> bool {
        !self.entries.is_empty()
    }
}

/// The words of the passages in this slot, one after the other.
pub fn words<'a>(passages: impl IntoIterator<Item = &'a Passage>, slot: Slot) -> String {
    passages.into_iter().filter(|passage| passage.slot == slot).map(|passage| passage.text.as_str()).collect()
}
