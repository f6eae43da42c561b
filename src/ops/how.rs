//! How episodes are played.

use super::prompt::Prompt;
use super::said::Decode;
use super::tries::Patience;
use crate::policy::Sampling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who chooses the actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// The model.
    #[default]
    Policy,
    /// The environment's own solver: demonstrations.
    Expert,
    /// In a loop: the model in the first attempt, the solver in those after it, which knows what was noted: demonstrations of how to go
    /// on from a failure.
    Rescue,
}

impl Actor {
    /// Whether the expert acts in this attempt.
    pub fn advises(self, attempt: u32) -> bool {
        self == Actor::Expert || self == Actor::Rescue && attempt > 0
    }
}

/// How episodes are played.
#[derive(Clone, Debug)]
pub struct Play {
    pub model: String,
    pub samples: u32,
    pub max_turns: u32,
    pub sampling: Sampling,
    pub actor: Actor,
    pub decode: Decode,
    pub prompt: Prompt,
    pub history: usize,
    pub patience: Patience,
}
