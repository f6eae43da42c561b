//! What a person wants to know of a model before it is loaded: what it is, and whether it fits.

use super::checkpoint::open;
use crate::policy::PolicyError;
use std::path::Path;

/// Bytes of an f32 number, which is what weights are computed in.
const F32: u64 = 4;

/// A model as it lies on disk; nothing of it was read but headers and its tokenizer.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its architecture.
    pub architecture: &'static str,
    /// How many parameters it has.
    pub parameters: u64,
    /// The most tokens of a prompt and its answer.
    pub context: usize,
    /// How many tokens it knows.
    pub vocab: usize,
    /// Whether it has a chat template.
    pub template: bool,
    /// The texts of the tokens that end an answer.
    pub ends: Vec<String>,
    /// Whether it gives values and writes nothing.
    pub value: bool,
    /// Numbers of the keys and values that are kept a token.
    pub cached: u64,
}

impl Description {
    /// Describes the model at `path`: a saved version, a Hugging Face folder or a GGUF file.
    ///
    /// # Errors
    /// As when it is loaded: what is missing, damaged or unknown is named.
    pub fn of(path: &Path) -> Result<Description, PolicyError> {
        let stored = open(path)?;
        let sizes = stored.architecture.sizes();
        let ends = stored.tokenizer.ends().iter().map(|&end| stored.tokenizer.name(end)).collect();
        Ok(Description {
            architecture: stored.architecture.name(),
            parameters: stored.architecture.layout().len() as u64,
            context: sizes.context,
            vocab: sizes.vocab,
            template: stored.tokenizer.has_template(),
            ends,
            value: sizes.value,
            cached: sizes.cached as u64,
        })
    }

    /// Bytes of the weights.
    pub fn weights(&self) -> u64 {
        F32 * self.parameters
    }

    /// Bytes of the keys and values of one sequence of `tokens`.
    pub fn cache(&self, tokens: usize) -> u64 {
        F32 * self.cached * tokens as u64
    }

    /// Bytes that learning holds beside activations: the weights before and after a step, AdamW's two moments before and after, and the
    /// gradient in `sums` partial sums.
    pub fn learning(&self, sums: u64) -> u64 {
        self.weights() * (2 + 4 + sums)
    }
}
