//! A model that a server runs, and how it is asked several things in parallel.

use crate::pool::Pool;
use crate::server::{Server, ServerError};
use crossbeam_channel::unbounded;
use flow_model::{ModelFault, PolicyError, RemoteModel, Result, RowFault, TemplateVariables};
use flow_text::Tokenizer;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// A model that a server runs.
pub struct Remote {
    pub running: Arc<RunningModel>,
    pub pool: Pool,
}

/// The model on its server.
pub struct RunningModel {
    /// What the server calls it.
    pub served: String,
    pub server: Server,
    pub tokenizer: Arc<Tokenizer>,
    /// Variables of its chat template.
    pub template: TemplateVariables,
    /// Whether the server refuses settings that OpenAI's own API doesn't have.
    pub strict: AtomicBool,
    /// Whether the server has shown that it can rank choices.
    pub ranks: AtomicBool,
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

    /// Runs `ask` for each of `jobs`, as many in parallel as the settings say; the results are in their order.
    ///
    /// # Errors
    /// If no request will succeed.
    pub fn each<J: Send + Sync + 'static, T: Send + 'static>(
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
}
