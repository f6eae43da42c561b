//! What a source contributes to the prompt of a turn.

use crate::episode::EpisodeStart;
use crate::turn::Turn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where in a prompt a passage stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PassageSlot {
    /// With the notes on earlier attempts, before the observation: at `{{ memory }}`.
    #[default]
    #[serde(rename = "before")]
    Context,
    /// In a system message; where the model knows no messages, before everything else.
    System,
}

/// A turn, or the end of an episode, for which a prompt is built.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// Which episode it is.
    pub start: &'a EpisodeStart,
    /// The observation.
    pub observation: &'a str,
    /// The hash of the state.
    pub state: u64,
    /// The turn before, if there was one.
    pub before: Option<&'a Turn>,
}

/// A source's contribution to one prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Its place in the prompt.
    pub slot: PassageSlot,
    /// The text; empty where there is nothing to contribute.
    pub text: String,
    /// The memory entries in it: the id and the text of each.
    pub entries: Vec<(u64, String)>,
    /// Whether it is left out from the second message of a conversation on, since it stands in the first.
    pub once: bool,
}

impl Passage {
    /// Whether it contains memory entries.
    pub fn retrieved(&self) -> bool {
        !self.entries.is_empty()
    }
}

/// The texts of the passages in this slot, concatenated.
pub fn words<'a>(passages: impl IntoIterator<Item = &'a Passage>, slot: PassageSlot) -> String {
    passages.into_iter().filter(|passage| passage.slot == slot).map(|passage| passage.text.as_str()).collect()
}
