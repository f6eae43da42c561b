//! The policy: a small decoder-only transformer that writes actions and learns from what came of them. The only code that knows libtorch.
//!
//! [`Policy`] is a handle on one thread that owns every tensor: [`Policy::generate`] answers prompts, [`Policy::update`] makes the next
//! version of the weights. Both compute a token's log-probability in the same way:
//! `log_softmax(logits / temperature)` over the whole vocabulary, or over the tokens that the row's choices allow at that place.
//! Truncation by `top_p` takes part in the drawing only, never in the recorded value, and greedy decoding (temperature 0) records the
//! value at temperature 1. Where the choices leave exactly one token its log-probability is 0 and no forward pass is spent on it.
//!
//! What a row gets depends on the row alone: sequences are padded on the right to a multiple of [`PAD_TO`] tokens, so that causal
//! attention never sees the padding and positions count from 0; a batch holds sequences of one padded length and is padded to a
//! multiple of [`PAD_TO`] rows; a token is drawn from a hash of the row's seed and the token's index. Threads share the work by whole
//! batches, each computed on one thread, and gradients are summed in a fixed order, so the number of threads changes no bit.
mod adamw;
mod choices;
mod generate;
#[cfg(test)]
mod learning;
mod loss;
mod model;
mod objective;
mod passes;
mod rope;
mod sample;
mod settings;
mod shape;
mod spread;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod thread;
mod tokenizer;
mod update;

pub use objective::{Aggregation, KlKind, Objective, UpdateSettings};
pub use settings::{LoadModel, ModelSettings, NewKind, NewModel, Sampling, TokenKind};
pub use thread::Policy;
pub use tokenizer::{Tokenizer, END, PAD};

/// Sequences and batches are padded to a multiple of this.
pub const PAD_TO: usize = 16;

/// One prompt to answer.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What the policy reads; never empty.
    pub prompt: Vec<u32>,
    /// Decides every draw of this row.
    pub seed: u64,
    /// The answers allowed, each closed by [`END`]; empty leaves decoding free.
    pub choices: Vec<Vec<u32>>,
}

/// What the policy wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The tokens, [`END`] with them unless the limit cut it off.
    pub tokens: Vec<u32>,
    /// The log-probability of each.
    pub logprobs: Vec<f32>,
}

/// One row to learn from.
#[derive(Clone, Debug, Default)]
pub struct Example {
    pub prompt: Vec<u32>,
    pub response: Vec<u32>,
    /// Log-probability of each response token under the policy that acted; `sft` doesn't read it.
    pub logprobs: Vec<f32>,
    /// As in [`Request`].
    pub choices: Vec<Vec<u32>>,
    pub advantage: f32,
}

/// What an update did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdateReport {
    /// The version of the weights that it made.
    pub version: u64,
    /// The objective, the KL term with it: the mean over the optimiser steps, each before its step.
    pub loss: f64,
    /// Mean over tokens of the divergence from the reference when there is a KL term, else (by k3) from the policy that acted.
    pub kl: f64,
    /// Mean over response tokens of the entropy of the distribution they were drawn from, in nats.
    pub entropy: f64,
    /// The share of response tokens for which the clipped branch decided.
    pub clip_fraction: f64,
    /// Norm of the gradient before clipping: the mean over the optimiser steps.
    pub grad_norm: f64,
    /// Response tokens in the rows.
    pub tokens: usize,
    /// One a row, in the rows' order.
    pub rows: Vec<RowReport>,
}

/// What an update saw of one row, in its last pass over it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowReport {
    /// Mean over the response's tokens of the probability under the weights being trained over that under the policy that acted.
    pub ratio: f32,
}

/// What can go wrong with a policy.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("there is no model called `{0}`")]
    NoModel(String),
    #[error("model `{model}`: version {version} of the weights is no longer kept; kept: {kept:?}")]
    NoVersion { model: String, version: u64, kept: Vec<u64> },
    #[error("{0}")]
    Settings(String),
    #[error("row {row}: {what}")]
    Row { row: usize, what: String },
    #[error("the update of `{model}` isn't a number ({what}); rows {rows:?}; the weights are untouched")]
    NotFinite { model: String, what: &'static str, rows: Vec<usize> },
    #[error("{path}: {what}")]
    File { path: String, what: String },
    #[error("libtorch: {0}")]
    Torch(String),
    #[error("the policy thread has ended")]
    Gone,
}

impl From<tch::TchError> for PolicyError {
    fn from(error: tch::TchError) -> Self {
        PolicyError::Torch(first_line(&error.to_string()))
    }
}

/// An error of libtorch carries a C++ stack trace after its first line.
fn first_line(text: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim().to_string()
}
