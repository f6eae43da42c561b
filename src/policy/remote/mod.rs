//! A model that a server runs, called over HTTP with OpenAI's API, as vLLM, SGLang and llama.cpp serve it. It answers, and
//! nothing else: its weights are the server's.
//!
//! A free answer is requested as a conversation (`chat/completions`) that the server renders with its model's chat template. Choices are ranked: `completions`
//! with `echo` says how likely the text of each is behind that of the prompt, and one is drawn in proportion. What can't be answered is a
//! fault of its row; a server that is gone, or that doesn't support a request at all, is an error.
//!
//! A model that learns here may let a server generate for it ([`GenerationServer`]): then requests and answers are tokens, and the server loads its adapters.

mod chat;
mod rank;
mod served;
mod server;
mod tokens;

pub use served::{ExportedAdapter, GenerationServer};

use super::{GenerationOutput, ModelFault, PolicyError, RemoteModel, Reply, Request, RowFault, Sampling, Tally, Tokenizer};
use serde_json::Value;
use server::{Server, ServerError};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// A model that a server runs.
pub struct Remote {
    served: String,
    server: Server,
    tokenizer: Arc<Tokenizer>,
    /// Whether the server has shown that it can rank choices.
    ranks: AtomicBool,
}

impl Remote {
    /// The model called `name` here. No request is sent yet.
    ///
    /// # Errors
    /// If the key that it is to be asked with isn't there.
    pub fn new(name: &str, settings: &RemoteModel) -> Result<Remote, PolicyError> {
        let server = Server::new(name, &settings.server)?;
        let tokenizer = Arc::new(Tokenizer::chat_bytes());
        Ok(Remote { served: settings.model.clone(), server, tokenizer, ranks: AtomicBool::new(false) })
    }

    /// What its rows are written in.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Answers `requests`, as many in parallel as the settings say: one reply a request, in order.
    ///
    /// # Errors
    /// If the server is gone, refuses everything, or can't rank choices though some are given.
    pub fn answer(&self, requests: &[Request], sampling: &Sampling) -> Result<GenerationOutput, PolicyError> {
        let ranked: Vec<usize> = (0..requests.len()).filter(|&i| !requests[i].choices.is_empty()).collect();
        let free: Vec<usize> = (0..requests.len()).filter(|&i| requests[i].choices.is_empty()).collect();
        let mut replies: Vec<Result<Reply, RowFault>> = requests.iter().map(|_| Ok(Reply::default())).collect();
        let mut fill = |which: Vec<usize>, results: Vec<Result<Reply, RowFault>>| {
            which.into_iter().zip(results).for_each(|(i, reply)| replies[i] = reply);
        };
        if !ranked.is_empty() {
            self.can_rank()?;
            let batch: Vec<&Request> = ranked.iter().map(|&i| &requests[i]).collect();
            fill(ranked, rank::answer(self, &batch, sampling)?);
        }
        let results = self.server.each(&free, |&i| chat::answer(self, &requests[i], sampling))?;
        fill(free, results);
        Ok(GenerationOutput { replies, tokens: Tally::default() })
    }

    /// Before choices are ranked for the first time: whether the server can.
    fn can_rank(&self) -> Result<(), PolicyError> {
        if self.ranks.load(Relaxed) {
            return Ok(());
        }
        match rank::score(self, "1 2 3", " 4") {
            Ok(_) => {
                self.ranks.store(true, Relaxed);
                Ok(())
            }
            Err(ServerError::Refused(what) | ServerError::Gone(what)) => Err(self.server.fault(ModelFault::Server { what })),
            Err(ServerError::Row(fault)) => Err(self.server.fault(ModelFault::CantRank { what: fault.to_string() })),
        }
    }
}

/// What is below this no model gives to a token: a server writes such a number for one that it knows nothing of, and divided by a temperature it
/// may be infinite.
const LEAST: f64 = -1e9;

/// A log-probability: a number above [`LEAST`], and none above 0 but for rounding.
fn logprob(value: &Value) -> Option<f32> {
    value.as_f64().filter(|logprob| (LEAST..1e-3).contains(logprob)).map(|logprob| (logprob as f32).min(0.0))
}

#[cfg(test)]
mod tests {
    use super::logprob;
    use serde_json::json;

    #[test]
    fn what_no_model_gives_is_no_log_probability() {
        assert_eq!([json!(-1.5), json!(0), json!(1e-4), json!(-9999)].map(|value| logprob(&value)), [Some(-1.5), Some(0.0), Some(0.0), Some(-9999.0)]);
        assert!([json!(-1e308), json!(-3e38), json!(0.5), json!("-1"), json!(null)].iter().all(|value| logprob(value).is_none()));
    }
}
