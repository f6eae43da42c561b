//! Differences between the servers that generate for a model: how weights are loaded, and how tokens are asked for and
//! answered. A serving API is a file, and a line in [`of`].

mod sglang;
mod vllm;

use super::server::ServerError;
use super::{ends_as_asked, logprob};
use flow_model::{Reply, Request, Sampling};
use serde_json::{json, Value};
use sglang::Sglang;
use std::path::Path;
use vllm::Vllm;

/// A request: the path below where the API begins, or from the server's root if it begins with `/`, and the body.
pub type Call = (&'static str, Value);

/// How such servers are spoken to. `adapter` names the adapter to compute with, none the server's own weights; an
/// answer ends with one of the tokens `ends`.
pub trait ServingApi: Send + Sync {
    /// Where the API begins, of a server at that address.
    fn base(&self, address: &str) -> String;
    /// Has the server load the adapter in `folder`.
    fn load(&self, adapter: &str, folder: &Path) -> Call {
        ("load_lora_adapter", json!({ "lora_name": adapter, "lora_path": folder }))
    }
    /// Has the server take the weights in `folder` in place of its own, by these requests in turn.
    fn replace(&self, folder: &Path) -> Vec<Call>;
    /// Has the server forget an adapter.
    fn unload(&self, adapter: &str) -> Call {
        ("unload_lora_adapter", json!({ "lora_name": adapter }))
    }
    /// Whether a refusal to load it says that it is loaded.
    fn loaded_already(&self, refusal: &str) -> bool {
        refusal.contains("already been loaded") || refusal.contains("already loaded")
    }
    /// Asks for a free answer.
    fn write(&self, adapter: Option<&str>, request: &Request, sampling: &Sampling, ends: &[u32]) -> Call;
    /// The free answer in a response.
    ///
    /// # Errors
    /// If it isn't valid.
    fn written(&self, response: &Value) -> Result<WrittenAnswer, ServerError>;
    /// Asks how likely each token of a prompt is.
    fn weigh(&self, adapter: Option<&str>, prompt: &[u32]) -> Call;
    /// The log-probabilities of the tokens of `prompt` from the place `from` on, at temperature 1.
    ///
    /// # Errors
    /// If the response has none.
    fn weighed(&self, response: &Value, prompt: &[u32], from: usize) -> Result<Vec<f32>, ServerError>;
}

/// The API of SGLang, or of vLLM.
pub fn of(sglang: bool) -> &'static dyn ServingApi {
    if sglang {
        &Sglang
    } else {
        &Vllm
    }
}

/// A free answer as a server gave it.
pub struct WrittenAnswer {
    pub tokens: Vec<u64>,
    pub logprobs: Vec<Option<f32>>,
    /// Whether the limit of tokens ended it.
    pub cut: bool,
    /// Whether a text that was asked for ended it.
    pub stopped: bool,
}

impl WrittenAnswer {
    /// The reply, whose tokens are among the `vocab` that the model has.
    ///
    /// # Errors
    /// If tokens or log-probabilities are missing, or it isn't closed.
    pub fn reply(self, vocab: usize, ends: &[u32]) -> Result<Reply, ServerError> {
        let known = |&id: &u64| u32::try_from(id).ok().filter(|&token| (token as usize) < vocab);
        let Some(tokens) = self.tokens.iter().map(known).collect::<Option<Vec<u32>>>() else {
            return Err(ServerError::malformed("a reply with tokens that the model doesn't have"));
        };
        let Some(logprobs) = self.logprobs.into_iter().collect::<Option<Vec<f32>>>().filter(|l| l.len() == tokens.len()) else {
            return Err(ServerError::malformed("a reply without a log-probability for each of its tokens"));
        };
        if !ends_as_asked(&tokens, ends, self.cut, self.stopped) {
            return Err(ServerError::malformed("a reply that ends without the token that closes it"));
        }
        Ok(Reply { tokens, logprobs })
    }
}

/// The log-probabilities of a list, one for each item.
pub fn logprobs<'v>(items: impl Iterator<Item = &'v Value>) -> Vec<Option<f32>> {
    items.map(logprob).collect()
}
