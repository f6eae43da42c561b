//! Clients of servers that generate. A model that a server runs is called over HTTP with OpenAI's API, as vLLM, SGLang and llama.cpp serve it. It answers,
//! and nothing else: its weights are the server's.
//!
//! A free answer is requested as a conversation (`chat/completions`) that the server renders with its model's chat
//! template. Choices are ranked: `completions` with `echo` says how likely the text of each is behind that of the
//! prompt, and one is drawn in proportion. What can't be answered is a fault of its row; a server that is gone, or that
//! doesn't support a request at all, is an error.
//!
//! A model that learns here may let a server generate for it ([`GenerationServer`]): then requests and answers are
//! tokens, and the server loads its weights.

mod api;
mod chat;
mod exported;
mod fleet;
mod generator;
mod job;
mod look;
mod pool;
mod rank;
mod ranked;
mod receiver;
mod remote;
mod remote_answers;
mod replica;
mod rest;
mod served;
mod server;
mod start;
mod ticket;
mod wait;

pub use exported::{Exported, ExportedWeights, Weights};
pub use generator::{Export, Generator};
pub use look::{look, ServerStatus};
pub use remote::Remote;
pub use rest::Asleep;
pub use served::GenerationServer;
pub use start::StartedServers;
pub use ticket::{Answered, Ticket};

use serde_json::Value;

/// Whether an answer ends as asked: cut off, with one of the tokens `ends`, or by a text that ends it.
fn ends_as_asked(tokens: &[u32], ends: &[u32], cut: bool, stopped: bool) -> bool {
    tokens.last().is_some_and(|last| cut || stopped || ends.contains(last))
}

/// What is below this no model gives to a token: a server writes such a number for one that it knows nothing of, and
/// divided by a temperature it may be infinite.
const LEAST: f64 = -1e9;

/// A log-probability: a number above [`LEAST`], and at most 0 up to rounding.
fn logprob(value: &Value) -> Option<f32> {
    value.as_f64().filter(|logprob| (LEAST..1e-3).contains(logprob)).map(|logprob| (logprob as f32).min(0.0))
}

#[cfg(test)]
mod tests {
    use super::logprob;
    use serde_json::json;

    #[test]
    fn what_no_model_gives_is_no_log_probability() {
        assert_eq!(
            [json!(-1.5), json!(0), json!(1e-4), json!(-9999)].map(|value| logprob(&value)),
            [Some(-1.5), Some(0.0), Some(0.0), Some(-9999.0)]
        );
        assert!([json!(-1e308), json!(-3e38), json!(0.5), json!("-1"), json!(null)].iter().all(|value| logprob(value).is_none()));
    }
}
