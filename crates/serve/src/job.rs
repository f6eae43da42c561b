//! A request on its way to a server.

use super::api::Call;
use super::fleet::Fleet;
use super::replica::Adapter;
use super::server::ServerError;
use super::ticket::Ticket;
use flow_model::{Reply, Request, Sampling};
use serde_json::Value;
use std::sync::Arc;

/// A request on its way to a server.
pub struct Job {
    pub session: u64,
    pub adapter: Arc<Adapter>,
    pub question: Question,
    pub ticket: Ticket,
    /// Attempts so far.
    pub attempt: u32,
    /// The server that had no answer in time.
    pub late: Option<usize>,
}

/// What a server is asked.
pub enum Question {
    /// A free answer.
    Write(Request, Sampling),
    /// How likely each of these tokens is from a place on.
    Weigh(Vec<u32>, usize),
}

impl Question {
    pub fn call(&self, fleet: &Fleet, adapter: Option<&str>) -> Call {
        match self {
            Question::Write(request, sampling) => fleet.api.write(adapter, request, sampling, fleet.tokenizer.ends()),
            Question::Weigh(prompt, _) => fleet.api.weigh(adapter, prompt),
        }
    }

    /// The answer in a response; of tokens that were weighed the log-probabilities alone.
    pub fn read(&self, fleet: &Fleet, response: &Value) -> Result<Reply, ServerError> {
        match self {
            Question::Write(..) => fleet.api.written(response)?.reply(fleet.sizes.vocab, fleet.tokenizer.ends()),
            Question::Weigh(prompt, from) => Ok(Reply { tokens: vec![], logprobs: fleet.api.weighed(response, prompt, *from)? }),
        }
    }
}

impl Job {
    pub fn new(question: Question, session: u64, adapter: &Arc<Adapter>, ticket: Ticket) -> Job {
        Job { session, adapter: adapter.clone(), question, ticket, attempt: 0, late: None }
    }
}
