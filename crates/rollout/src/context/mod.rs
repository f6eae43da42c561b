//! The context in an agent's prompt besides the observation: sources, each a file here and a line in
//! [`SourceSettings`].
//!
//! A source declares what it needs from the graph (a port, and columns there), which words it brings, and what it
//! contributes to the prompt of a turn. Its settings are a [`Declared`] source; [`Declared::open`] makes the
//! [`ContextSource`] that is queried while episodes are played.

mod carried;
mod memory;
mod memory_settings;
mod notes;
mod passage;
mod pools;

pub use carried::Carried;
#[cfg(test)]
pub use memory::rows;
pub use memory::MemoryRecall;
pub use memory_settings::{MemorySettings, RecallKey, RecallTime};
pub use notes::NotesSettings;
pub use passage::{words, Moment, Passage, PassageSlot};

use crate::clustering::ObservationClusters;
use crate::error::RolloutError;
use crate::points::Pointer;
use arrow::array::RecordBatch;
use flow_credit::memory::Clusters;
use flow_model::PolicyError;
use flow_text::Tokenizer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One source of an agent's context.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SourceSettings {
    /// Entries of a memory, at the port that is named after it.
    Memory(Box<MemorySettings>),
    /// In a loop, and in a measurement of several attempts: the notes on the attempts before. They stand first unless
    /// listed elsewhere.
    Notes(NotesSettings),
}

impl SourceSettings {
    /// The source itself.
    pub fn declared(&self) -> &dyn Declared {
        match self {
            SourceSettings::Memory(memory) => memory.as_ref(),
            SourceSettings::Notes(notes) => notes,
        }
    }
}

/// A source's declaration: what is known of it before anything is played.
pub trait Declared {
    /// The ports that it reads, each with the columns that it needs there. The first one is what it is about: where
    /// that isn't connected it contributes nothing.
    fn ports(&self) -> Vec<(&str, &'static [&'static str])> {
        Vec::new()
    }

    /// The words of its headings, for a vocabulary.
    fn words(&self) -> Vec<String> {
        Vec::new()
    }

    /// Opens the source; none where its port isn't connected.
    fn open(&self, ports: &dyn MemoryPorts) -> Option<Box<dyn ContextSource>>;
}

/// Looks up the inputs of a node's ports.
pub trait MemoryPorts {
    /// The embedder of the keys of the memory at this port, and its clusters; none where the port isn't connected.
    fn memory(&self, port: &str) -> Option<(Pointer, Option<Clusters>)>;

    /// The clusters of observations at this port, none of them founded yet; none where the port isn't connected.
    fn clusters(&self, port: &str) -> Option<ObservationClusters>;
}

/// A source of context, queried while episodes are played.
pub trait ContextSource: Send + Sync {
    /// The ports that it reads.
    fn ports(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Begins an iteration: applies the rows of each of its ports, and makes by `seed` the draws that are made once an
    /// iteration.
    ///
    /// # Errors
    /// If the rows aren't those of its ports, or an encoder can't answer.
    fn begin(&mut self, _rows: &[Vec<RecordBatch>], _seed: u64) -> Result<(), RolloutError> {
        Ok(())
    }

    /// Whether it is queried in this iteration, for a source that is queried with some probability.
    fn queried(&self) -> Option<bool> {
        None
    }

    /// Whether its contribution to the first turn holds for the whole episode.
    fn once(&self) -> bool {
        false
    }

    /// The contribution to each of these turns.
    ///
    /// # Errors
    /// If an encoder can't answer.
    fn contribute(&self, moments: &[Moment], tokenizer: &Tokenizer) -> Result<Vec<Passage>, PolicyError>;
}

/// A node without a memory.
pub struct Alone;

impl MemoryPorts for Alone {
    fn memory(&self, _: &str) -> Option<(Pointer, Option<Clusters>)> {
        None
    }

    fn clusters(&self, _: &str) -> Option<ObservationClusters> {
        None
    }
}
