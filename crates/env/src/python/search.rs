//! The settings of `search`: questions that need two documents of a searchable corpus.

use super::{board, PythonGame, WORDS};
use crate::error::within;
use crate::{Deal, EnvError, Environment, GameSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of the search for answers.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct SearchSettings {
    /// Documents of the corpus.
    #[schemars(range(min = 100, max = 100_000))]
    pub documents: usize,
    /// Documents that a search finds.
    #[schemars(range(min = 1, max = 20))]
    pub found: usize,
}

impl Default for SearchSettings {
    fn default() -> Self {
        SearchSettings { documents: 2_000, found: 3 }
    }
}

impl GameSettings for SearchSettings {
    const NAME: &'static str = "search";
    const ABOUT: &'static str = "Answer questions that need two documents of a searchable corpus, made from a seed.";
    const COSTS: Option<bool> = Some(false);

    fn check(&self) -> Result<(), EnvError> {
        within("documents", self.documents, 100, 100_000)?;
        within("found", self.found, 1, 20)
    }

    fn label(&self) -> String {
        format!("d{}-f{}", self.documents, self.found)
    }

    fn parse(label: &str) -> Option<Self> {
        let (documents, found) = label.strip_prefix('d')?.split_once("-f")?;
        Some(SearchSettings { documents: documents.parse().ok()?, found: found.parse().ok()? })
    }

    fn rules(&self) -> String {
        "Answer the question. It needs two documents: search for them with search[words], and answer with answer[text], which ends the task.\n\
         Answer with one action between <action> and </action>, such as <action>search[a name]</action>."
            .into()
    }

    fn words(&self) -> Vec<String> {
        WORDS.get(Self::NAME).cloned().unwrap_or_default()
    }

    fn make(&self, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError> {
        PythonGame::boxed(self, seed, deal)
    }

    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError> {
        board(self, seed, deal)
    }
}
