//! What a model is, without libtorch: its settings, what it is asked and answers, its errors, and its architecture: sizes,
//! parameters by name, adapters.
//!
//! Adding an architecture is a file here that reads its `config.json`, and a line in [`ARCHITECTURES`].

pub mod choices;
pub mod config;
mod decoder;
pub mod draw;
mod error;
mod fields;
pub mod folder;
mod function;
pub mod harmless;
mod llama;
pub mod lora;
pub mod on_disk;
pub mod parameters;
mod peers;
pub mod peft_config;
mod qwen2;
mod qwen3;
mod remote_settings;
mod report;
mod request;
pub mod rope;
mod sampling;
pub mod sequence;
mod settings;
mod tally;
pub mod tiny;
mod token_loss;
mod update;
mod variants;

pub use choices::OPEN;
pub use error::{first_line, FileFault, ModelFault, PolicyError, Result, RowFault, Unanswered, UpdateFault};
pub use function::{CodeFile, FunctionSettings, Place};
pub use peers::Peers;
pub use remote_settings::{RemoteModel, ServeSettings, ServerSettings, StartSettings, TemplateVariables, TrainSettings, VllmServers};
pub use report::{RowReport, RowUse, TokenFigures, UpdateReport};
pub use request::{ChoiceScores, Example, GenerationOutput, Reply, Request, Session};
pub use sampling::Sampling;
pub use settings::{
    Act, Base, Dtype, EncoderModel, Head, LoadModel, LoraSettings, ModelSettings, NewKind, NewModel, SharedModel, TokenKind,
};
pub use tally::Tally;
pub use token_loss::{LossFunction, LossTokens, LossValues, TokenLoss};
pub use update::*;

use config::DecoderConfig;
use parameters::Layout;
use serde_json::Value;
use std::sync::Arc;

/// Fills up short sequences; never read.
pub const PAD: u32 = 0;
/// Closes an answer, in a vocabulary of flow's own.
pub const END: u32 = 1;

/// Sequences and batches are padded to a multiple of this.
pub const PAD_TO: usize = 16;

/// Stands for minus infinity in masks: its exponential is 0, and 0 times it is still a number.
pub const NEVER: f64 = -1e30;

/// Reads an architecture from its configuration.
pub type ReadArchitecture = fn(&Value) -> Result<Arc<dyn Architecture>, FileFault>;

/// Every architecture: the name in its configuration, and the reader of it.
pub const ARCHITECTURES: &[(&str, ReadArchitecture)] =
    &[(tiny::NAME, tiny::read), (llama::NAME, llama::read), (qwen2::NAME, qwen2::read), (qwen3::NAME, qwen3::read)];

/// The reader of configurations with this `name`.
pub fn find(name: &str) -> Option<ReadArchitecture> {
    ARCHITECTURES.iter().find(|(known, _)| *known == name).map(|(_, read)| *read)
}

/// A model's sizes, as far as generation and updates need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Tokens that it knows.
    pub vocab: usize,
    /// Rows of its output matrix, which may be more than its tokenizer has tokens.
    pub rows: usize,
    /// The most tokens of a sequence.
    pub context: usize,
    /// Numbers of a final state.
    pub width: usize,
    /// Whether its head gives one value in place of a logit a token.
    pub value: bool,
    /// Numbers that are kept of a token while a sequence is read on: its keys and values in all blocks.
    pub cached: usize,
}

/// A model without its weights.
pub trait Architecture: Send + Sync {
    /// Its sizes.
    fn sizes(&self) -> Sizes;
    /// Its parameters, in the order of drawing and stepping.
    fn layout(&self) -> Layout;
    /// The same with `head` in place of the head it has.
    fn with_head(&self, head: Head) -> Result<Arc<dyn Architecture>, ModelFault>;
    /// The same for a tokenizer of so many tokens, which may be fewer than the rows of its embedding.
    fn with_tokens(&self, tokens: usize) -> Arc<dyn Architecture>;
    /// Its name in [`ARCHITECTURES`].
    fn name(&self) -> &'static str;
    /// Its configuration, as it is read back.
    fn config(&self) -> Value;
    /// The sizes and constants of its decoder.
    fn sized(&self) -> DecoderConfig;
    /// Whether the engine computes it (`base: int8`, `act: int8`): it knows decoders that their
    /// [`DecoderConfig`] says everything of.
    fn in_engine(&self) -> bool;
}
