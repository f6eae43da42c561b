//! What stands in an agent's prompt beside what it observes: sources, each a file here and a line in [`SourceSettings`].
//!
//! A source says what it needs of the graph (a port, and columns there), which words it brings, and what it contributes to a prompt in a
//! turn. Its settings are a [`Declared`] source; [`Declared::open`] makes the [`Source`] that is asked while episodes are played.

mod carried;
mod memory;
mod notes;
mod passage;

pub use carried::Carried;
pub use memory::{At, Key, MemorySettings, Remembered};
pub use notes::NotesSettings;
pub use passage::{words, Moment, Passage, Slot};

use super::agent::Agent;
use super::prompt::Prompt;
use crate::memory::{Change, Clusters};
use crate::policy::{PolicyError, Tokenizer};
use crate::rollout::points::Pointer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One source of an agent's context.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SourceSettings {
    /// Entries of a memory, at the port that is named after it.
    Memory(Box<MemorySettings>),
    /// In a loop, and in a measurement of several attempts: what is told of the attempts before. It stands first unless it is named.
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

/// A source as it is declared: what follows from it before anything is played.
pub trait Declared {
    /// The port that it reads, and the columns that it needs there.
    fn port(&self) -> Option<(&str, &'static [&'static str])> {
        None
    }

    /// The words that introduce what it contributes, for a vocabulary.
    fn words(&self) -> Vec<String> {
        Vec::new()
    }

    /// Where in the prompt it stands.
    fn slot(&self) -> Slot {
        Slot::Context
    }

    /// The source as it is asked; nothing where its port isn't connected.
    fn open(&self, ports: &dyn Ports) -> Option<Box<dyn Source>>;
}

/// What a graph says of the memories at a node's ports.
pub trait Ports {
    /// What makes points of the keys of the memory at this port, and the clusters that its entries live in; nothing where none is connected.
    fn memory(&self, port: &str) -> Option<(Pointer, Option<Clusters>)>;
}

/// A source of context as it is asked while episodes are played.
pub trait Source: Send + Sync {
    /// The port that it reads.
    fn port(&self) -> Option<&str> {
        None
    }

    /// An iteration begins: takes in what came by its port, and draws by `seed` what is drawn once an iteration.
    fn begin(&mut self, _changes: Vec<Change>, _seed: u64) {}

    /// Whether it is asked in this iteration, of a source that may not be.
    fn asked(&self) -> Option<bool> {
        None
    }

    /// Whether what it contributes to a first turn stands for the whole episode.
    fn once(&self) -> bool {
        false
    }

    /// What it contributes in each of these turns.
    ///
    /// # Errors
    /// If an encoder can't answer.
    fn contribute(&self, moments: &[Moment], tokenizer: &Tokenizer) -> Result<Vec<Passage>, PolicyError>;
}

/// The sources of an agent, in the order of its prompt, as far as they are connected: what it carries itself comes last.
pub fn open(agent: &Agent, ports: &dyn Ports) -> Vec<Box<dyn Source>> {
    let notes = agent.context.iter().any(|source| matches!(source, SourceSettings::Notes(_)));
    let first = (!notes).then(NotesSettings::default).and_then(|notes| notes.open(ports));
    let declared = agent.context.iter().filter_map(|source| source.declared().open(ports));
    // A template may have places of its own for it.
    let placed = Prompt::new(agent).is_ok_and(|prompt| prompt.asks("carried"));
    let carried = Carried::of(agent).filter(|_| !placed).map(|carried| Box::new(carried) as Box<dyn Source>);
    first.into_iter().chain(declared).chain(carried).collect()
}

/// A node without a memory.
pub struct Alone;

impl Ports for Alone {
    fn memory(&self, _: &str) -> Option<(Pointer, Option<Clusters>)> {
        None
    }
}

impl Agent {
    /// How it is told of earlier attempts.
    pub fn notes(&self) -> NotesSettings {
        let named = self.context.iter().find_map(|source| match source {
            SourceSettings::Notes(notes) => Some(notes.clone()),
            SourceSettings::Memory(_) => None,
        });
        named.unwrap_or_default()
    }

    /// The memories that it reads.
    pub fn memories(&self) -> impl Iterator<Item = &MemorySettings> {
        self.context.iter().filter_map(|source| match source {
            SourceSettings::Memory(memory) => Some(memory.as_ref()),
            SourceSettings::Notes(_) => None,
        })
    }
}
