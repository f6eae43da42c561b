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
mod job;
mod look;
mod pool;
mod rank;
mod ranked;
mod receiver;
mod replica;
mod rest;
mod served;
mod server;
mod start;
mod ticket;
mod wait;

pub use exported::{Exported, ExportedWeights, Weights};
pub use look::{look, ServerStatus};
pub use rest::Asleep;
pub use served::GenerationServer;
pub use start::StartedServers;
pub use ticket::Answered;

use crossbeam_channel::{unbounded, Sender};
use flow_model::{
    GenerationOutput, ModelFault, PolicyError, RemoteModel, Reply, Request, Result, RowFault, Sampling, Tally, TemplateVariables,
};
use flow_text::Tokenizer;
use pool::Pool;
use serde_json::Value;
use server::{Server, ServerError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use ticket::Ticket;

/// A model that a server runs.
pub struct Remote {
    running: Arc<RunningModel>,
    pool: Pool,
}

/// The model on its server.
struct RunningModel {
    /// What the server calls it.
    served: String,
    server: Server,
    tokenizer: Arc<Tokenizer>,
    /// Variables of its chat template.
    template: TemplateVariables,
    /// Whether the server refuses settings that OpenAI's own API doesn't have.
    strict: AtomicBool,
    /// Whether the server has shown that it can rank choices.
    ranks: AtomicBool,
}

impl Remote {
    /// The model called `name` here. No request is sent yet.
    ///
    /// # Errors
    /// If the environment has no variable with the server's key.
    pub fn new(name: &str, settings: &RemoteModel) -> Result<Remote> {
        let running = RunningModel {
            served: settings.model.clone(),
            server: Server::new(name, &settings.openai, &settings.server)?,
            tokenizer: Arc::new(Tokenizer::chat_bytes()),
            template: settings.template.clone(),
            strict: AtomicBool::new(false),
            ranks: AtomicBool::new(false),
        };
        Ok(Remote { running: Arc::new(running), pool: Pool::new(1, settings.server.parallel) })
    }

    /// What its rows are written in.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.running.tokenizer
    }

    /// Answers `requests`, as many in parallel as the settings say: one reply a request, in order.
    ///
    /// # Errors
    /// If the server is gone, refuses everything, or can't rank choices though some are given.
    pub fn answer(&self, requests: &[Request], sampling: &Sampling) -> Result<GenerationOutput> {
        let (free, ranked): (Vec<usize>, Vec<usize>) = (0..requests.len()).partition(|&i| requests[i].choices.is_empty());
        let mut replies: Vec<Result<Reply, RowFault>> = requests.iter().map(|_| Ok(Reply::default())).collect();
        if !ranked.is_empty() {
            self.can_rank()?;
            let batch: Vec<&Request> = ranked.iter().map(|&i| &requests[i]).collect();
            ranked.iter().zip(rank::answer(self, &batch, sampling)?).for_each(|(&i, reply)| replies[i] = reply);
        }
        let batch: Vec<Request> = free.iter().map(|&i| requests[i].clone()).collect();
        let sampling = sampling.clone();
        let written = self.each(batch, move |running, request| chat::answer(running, request, &sampling))?;
        free.into_iter().zip(written).for_each(|(i, reply)| replies[i] = reply);
        Ok(GenerationOutput { replies, tokens: Tally::default() })
    }

    /// Begins a free answer, which `to` will be given with `number`.
    pub fn begin(&self, request: &Request, sampling: &Sampling, (number, to): (usize, &Sender<Answered>)) {
        let (running, request, sampling, ticket) = (self.running.clone(), request.clone(), sampling.clone(), Ticket::new(number, to));
        self.pool.push(0, &[], move |_| {
            let answer = match chat::answer(&running, &request, &sampling) {
                Ok(reply) => Ok(Ok(reply)),
                Err(ServerError::Row(fault)) => Ok(Err(fault)),
                Err(error) => Err(running.server.fault(ModelFault::Server { what: error.text() })),
            };
            ticket.answer(answer);
            true
        });
    }

    /// Runs `ask` for each of `jobs`, as many in parallel as the settings say; the results are in their order.
    ///
    /// # Errors
    /// If no request will succeed.
    fn each<J: Send + Sync + 'static, T: Send + 'static>(
        &self,
        jobs: Vec<J>,
        ask: impl Fn(&RunningModel, &J) -> Result<T, ServerError> + Send + Sync + 'static,
    ) -> Result<Vec<Result<T, RowFault>>> {
        let (count, shared, (to, answers)) = (jobs.len(), Arc::new((jobs, ask, AtomicBool::new(false))), unbounded());
        for number in 0..count {
            let (running, shared, to) = (self.running.clone(), shared.clone(), to.clone());
            self.pool.push(0, &[], move |_| {
                let (jobs, ask, gone) = &*shared;
                // The first error is the one that is reported.
                if !gone.load(Relaxed) {
                    let answer = ask(&running, &jobs[number]);
                    gone.fetch_or(matches!(answer, Err(ServerError::Refused(_) | ServerError::Gone(_))), Relaxed);
                    drop(to.send((number, answer)));
                }
                true
            });
        }
        drop(to);
        let mut results = BTreeMap::new();
        for (number, answer) in answers {
            let result = match answer {
                Ok(answer) => Ok(answer),
                Err(ServerError::Row(fault)) => Err(fault),
                Err(error) => return Err(self.running.server.fault(ModelFault::Server { what: error.text() })),
            };
            results.insert(number, result);
        }
        if results.len() < count {
            return Err(PolicyError::Torch("a request to a server was lost".into()));
        }
        Ok(results.into_values().collect())
    }

    /// Before choices are ranked for the first time: whether the server can.
    fn can_rank(&self) -> Result<()> {
        let running = &*self.running;
        if running.ranks.load(Relaxed) {
            return Ok(());
        }
        match rank::score(running, "1 2 3", " 4") {
            Ok(_) => {
                running.ranks.store(true, Relaxed);
                Ok(())
            }
            Err(ServerError::Refused(what) | ServerError::Gone(what)) => Err(running.server.fault(ModelFault::Server { what })),
            Err(ServerError::Row(fault)) => Err(running.server.fault(ModelFault::CantRank { what: fault.to_string() })),
        }
    }
}

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
