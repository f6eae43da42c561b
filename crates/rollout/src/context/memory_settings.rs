//! How an agent says that a memory stands in its prompt.

use super::PassageSlot;
use crate::exchange::NotesOwner;
use flow_core::defaults::{number, yes};
use flow_credit::memory::Retrieval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a memory is read while episodes are played.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MemorySettings {
    /// The memory: the name of its port, as in `inputs: { tips: { after: tips } }`. A node without this input plays
    /// without the memory.
    #[schemars(regex(pattern = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"))]
    pub memory: String,
    /// The probability with which an iteration's episodes are played with the memory and not without it: drawn once an
    /// iteration, for all. A measurement reads it always.
    #[serde(default = "number::<f64, 1>")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub chance: f64,
    /// When entries are retrieved.
    #[serde(default)]
    pub at: RecallTime,
    /// The query that keys of entries are compared with.
    #[serde(default)]
    pub of: RecallKey,
    /// The entries to retrieve. In a memory with a bucket a task: entries stored for this task or for all tasks, or
    /// entries of the next other task that has some, whatever their keys. In a memory by cluster: entries of the
    /// observation's cluster; if it has none, or there is no such cluster, entries of all buckets by similarity
    /// (SLEA-RL).
    #[serde(default)]
    pub whose: NotesOwner,
    /// The clusters of observations: the name of their port, from a `cluster` node. Retrieved are then the entries
    /// whose keys belong to the observation's cluster; where that has none, or there is no such cluster, those of all
    /// by similarity (SLEA-RL, Eq. 1 and 2); by `whose: another` those of the next other cluster that has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"))]
    pub clusters: Option<String>,
    /// Which entries are retrieved where the observation's cluster has none, or there is no such cluster. Read with
    /// `clusters`, and in a memory by cluster.
    #[serde(default)]
    pub fallback: Fallback,
    /// With `clusters`: whether entries that were retrieved by similarity, for a cluster that had none, belong to it
    /// from then on (SLEA-RL, section 3.2).
    #[serde(default = "yes")]
    pub link: bool,
    /// Nothing is retrieved before this iteration, counted from 0 (SLEA-RL: 5 epochs, which the released code counts as
    /// iterations). A measurement has no warm-up.
    #[serde(default)]
    pub warm_up: u64,
    /// Nothing is retrieved unless the memory has more entries than this (SLEA-RL: 10).
    #[serde(default)]
    pub more_than: usize,
    /// Where they stand in the prompt.
    #[serde(default)]
    pub place: PassageSlot,
    /// The line that introduces them.
    #[serde(default = "heading")]
    pub heading: String,
    /// The most tokens of all entries together: the first entry that doesn't fit is left out, with all that come after
    /// it.
    #[serde(default = "number::<usize, 200>")]
    #[schemars(range(min = 0, max = 100_000))]
    pub tokens: usize,
    #[serde(flatten)]
    pub retrieval: Retrieval,
}

/// Which entries are retrieved for a cluster that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// Those of the whole memory whose keys are similar (SLEA-RL, Eq. 2).
    #[default]
    Similarity,
    /// None.
    None,
}

/// When entries are retrieved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecallTime {
    /// Before every turn.
    #[default]
    Turn,
    /// Before the first turn, for all of them.
    Episode,
}

/// The query that keys of entries are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecallKey {
    /// The observation.
    #[default]
    Observation,
    /// The hash of the state.
    State,
    /// The task's name.
    Task,
}

fn heading() -> String {
    "Remembered:".into()
}
