//! What an operator is there for, as a pipeline and the manifest of its run say it.

use serde::{Deserialize, Serialize};

/// The role of an operator. Code that depends on a node's kind tests its role, never its operator's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Opens each iteration with tasks.
    Opens,
    /// Plays training episodes.
    Plays,
    /// Has a model reflect on finished episodes.
    Reflects,
    /// Scores rows, by themselves or relative to others.
    Judges,
    /// Makes the next version of a model's weights.
    Learns,
    /// Plays evaluation episodes.
    Measures,
    /// Keeps state over iterations.
    Remembers,
}

impl Role {
    /// Whether its rows are separate from the training's: neither turns of its episodes nor derived from them.
    pub fn apart(self) -> bool {
        matches!(self, Role::Opens | Role::Measures | Role::Remembers)
    }
}
