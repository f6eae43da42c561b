//! The policy thread: one thread owns the tensors of a process, and everyone else holds a handle.

use super::{Example, ModelSettings, PolicyError, Reply, Request, Sampling, Tokenizer, UpdateReport, UpdateSettings};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A handle on the policy thread. Its calls block until the answer is there, so they belong on threads that may wait.
#[derive(Clone)]
pub struct Policy {
    tokenizers: Arc<BTreeMap<String, Arc<Tokenizer>>>,
}

impl Policy {
    /// Starts the thread and makes the models, on a GPU where there is one. `threads` is how many threads share the work on a CPU.
    pub fn start(_models: &BTreeMap<String, ModelSettings>, _words: &[String], _seed: u64, _threads: usize) -> Result<Policy, PolicyError> {
        Err(PolicyError::Gone)
    }
    /// The vocabulary of `model`.
    pub fn tokenizer(&self, model: &str) -> Result<Arc<Tokenizer>, PolicyError> {
        self.tokenizers.get(model).cloned().ok_or_else(|| PolicyError::NoModel(model.into()))
    }
    /// Answers `requests` with version `version` of the weights, one reply a request, in order.
    pub fn generate(&self, _model: &str, _version: u64, _requests: Vec<Request>, _sampling: Sampling) -> Result<Vec<Reply>, PolicyError> {
        Err(PolicyError::Gone)
    }
    /// Makes the next version of the weights from `rows`, whose order is part of the input: sort them.
    pub fn update(&self, _model: &str, _rows: Vec<Example>, _settings: &UpdateSettings) -> Result<UpdateReport, PolicyError> {
        Err(PolicyError::Gone)
    }
    /// The log-probability of each response token under the newest weights, as an update computes it.
    pub fn logprobs(&self, _model: &str, _rows: &[Example], _temperature: f64) -> Result<Vec<Vec<f32>>, PolicyError> {
        Err(PolicyError::Gone)
    }
    /// Writes the newest weights and the optimiser's moments into `folder`, which appears complete or not at all.
    pub fn save(&self, _model: &str, _folder: &Path) -> Result<(), PolicyError> {
        Err(PolicyError::Gone)
    }
    /// Takes weights, moments and version from `folder`, bit for bit; older versions are dropped, the reference of the start stays.
    pub fn load(&self, _model: &str, _folder: &Path) -> Result<u64, PolicyError> {
        Err(PolicyError::Gone)
    }
    /// The versions that `generate` can use, oldest first.
    pub fn versions(&self, _model: &str) -> Result<Vec<u64>, PolicyError> {
        Err(PolicyError::Gone)
    }
    /// How many parameters `model` has.
    pub fn parameters(&self, _model: &str) -> Result<usize, PolicyError> {
        Err(PolicyError::Gone)
    }
}
