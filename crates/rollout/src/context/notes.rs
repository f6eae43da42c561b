//! Notes as a source of context: an attempt reads notes on earlier ones (LaMer, sections 4 and 6.2: the inter-episode
//! memory).

use super::{ContextSource, Declared, MemoryPorts, Moment, Passage, PassageSlot};
use crate::exchange::NotesOwner;
use crate::notes::Unwritten;
use flow_core::defaults::number;
use flow_model::PolicyError;
use flow_text::Tokenizer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an agent's prompt shows the attempts before.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotesSettings {
    /// The notes' task: its own, or, as a control, the notes of another task's trial that also goes on. Then attempts
    /// wait for one another, and one process plays them all.
    pub notes: NotesOwner,
    /// The parts of an attempt without a reflection in the prompts of later ones.
    #[serde(default)]
    pub keep: Unwritten,
    /// The most tokens of all notes together, where there is no reflection; the oldest note is dropped first.
    #[serde(default = "number::<usize, 256>")]
    #[schemars(range(min = 0, max = 100_000))]
    pub budget: usize,
}

impl Default for NotesSettings {
    fn default() -> Self {
        NotesSettings { notes: NotesOwner::Own, keep: Unwritten::None, budget: 256 }
    }
}

impl Declared for NotesSettings {
    fn open(&self, _: &dyn MemoryPorts) -> Option<Box<dyn ContextSource>> {
        Some(Box::new(Notes))
    }
}

/// The notes of an attempt's start.
struct Notes;

impl ContextSource for Notes {
    fn contribute(&self, moments: &[Moment], _: &Tokenizer) -> Result<Vec<Passage>, PolicyError> {
        let passage =
            |moment: &Moment| Passage { slot: PassageSlot::Context, text: moment.start.memory.clone(), entries: vec![], once: true };
        Ok(moments.iter().map(passage).collect())
    }
}
