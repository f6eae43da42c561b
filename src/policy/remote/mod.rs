//! A model that a server runs: it is asked over HTTP in the form of OpenAI's API, as vLLM, SGLang and llama.cpp serve it. It answers, and
//! nothing else: its weights are the server's.
//!
//! What is free is asked as a conversation (`chat/completions`) that the server puts into its model's form. Choices are ranked: `completions`
//! with `echo` says how likely the text of each is behind that of the prompt, and one is drawn in proportion. What can't be answered is a
//! fault of its row; a server that is gone, or that can't do what is asked of it at all, is an error.

mod chat;
mod rank;
mod server;

use super::threads::spread;
use super::{Answers, ModelFault, PolicyError, RemoteModel, Reply, Request, RowFault, Sampling, Tally, Tokenizer};
use server::{Server, Trouble};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// A model that a server runs.
pub struct Remote {
    name: String,
    served: String,
    server: Server,
    parallel: usize,
    tokenizer: Arc<Tokenizer>,
    /// Whether the server has shown that it can rank choices.
    ranks: AtomicBool,
}

impl Remote {
    /// The model called `name` here. Nobody is asked yet.
    ///
    /// # Errors
    /// If the key that it is to be asked with isn't there.
    pub fn new(name: &str, settings: &RemoteModel) -> Result<Remote, PolicyError> {
        let wrong = |fault| PolicyError::model(name, fault);
        let key = settings.key.as_ref().map(|variable| {
            let found = std::env::var(variable).ok().filter(|key| !key.trim().is_empty());
            found.map(|key| key.trim().to_owned()).ok_or_else(|| wrong(ModelFault::NoKey { variable: variable.clone() }))
        });
        Ok(Remote {
            name: name.into(),
            served: settings.model.clone(),
            server: Server::new(settings, key.transpose()?),
            parallel: settings.parallel,
            tokenizer: Arc::new(Tokenizer::spoken()),
            ranks: AtomicBool::new(false),
        })
    }

    /// What its rows are written in.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Answers `requests`, so many at a time as the settings say: one reply a request, in order.
    ///
    /// # Errors
    /// If the server is gone, refuses everything, or can't rank choices though some are given.
    pub fn answer(&self, requests: &[Request], sampling: &Sampling) -> Result<Answers, PolicyError> {
        let ranked: Vec<usize> = (0..requests.len()).filter(|&i| !requests[i].choices.is_empty()).collect();
        let free: Vec<usize> = (0..requests.len()).filter(|&i| requests[i].choices.is_empty()).collect();
        let mut replies: Vec<Result<Reply, RowFault>> = requests.iter().map(|_| Ok(Reply::default())).collect();
        let mut told = |which: Vec<usize>, said: Vec<Result<Reply, RowFault>>| {
            which.into_iter().zip(said).for_each(|(i, reply)| replies[i] = reply);
        };
        if !ranked.is_empty() {
            self.can_rank()?;
            let asked: Vec<&Request> = ranked.iter().map(|&i| &requests[i]).collect();
            told(ranked, rank::answer(self, &asked, sampling)?);
        }
        let said = self.each(&free, |&i| chat::answer(self, &requests[i], sampling))?;
        told(free, said);
        Ok(Answers { replies, tokens: Tally::default() })
    }

    /// Asks each of `jobs`, several at a time; the results are in their order.
    fn each<J: Sync, T: Send>(
        &self,
        jobs: &[J],
        ask: impl Fn(&J) -> Result<T, Trouble> + Sync,
    ) -> Result<Vec<Result<T, RowFault>>, PolicyError> {
        let gone = AtomicBool::new(false);
        spread(
            self.parallel,
            || (),
            jobs,
            |(), job| {
                // The error of whoever noticed it first is told.
                if gone.load(Relaxed) {
                    return Ok(Err(RowFault::EmptyResponse));
                }
                match ask(job) {
                    Ok(answer) => Ok(Ok(answer)),
                    Err(Trouble::Row(fault)) => Ok(Err(fault)),
                    Err(Trouble::Server(what)) => {
                        gone.store(true, Relaxed);
                        Err(self.fault(ModelFault::Server { what }))
                    }
                }
            },
        )
    }

    fn fault(&self, fault: ModelFault) -> PolicyError {
        PolicyError::model(&self.name, fault)
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
            Err(Trouble::Server(what)) => Err(self.fault(ModelFault::Server { what })),
            Err(Trouble::Row(fault)) => Err(self.fault(ModelFault::CantRank { what: fault.to_string() })),
        }
    }
}
