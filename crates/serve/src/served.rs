//! Servers that generate for a model which learns here: they hold the same base, and load the weights of each version
//! that is asked for. Each adapter has a name of its own, which the requests then give; whole weights take the place of
//! a server's own, which holds one version at a time. How servers are chosen, left out and asked back is the
//! [`Fleet`]'s.

use super::fleet::{Adapters, Fleet};
use super::generator::{Export, Generator};
use super::job::{Job, Question};
use super::ranked::{choose, pairs, Pair};
use super::replica::{Adapter, Replica};
use super::rest::Asleep;
use super::ticket::Ticket;
use crossbeam_channel::unbounded;
use flow_core::pulse::Pulse;
use flow_model::{GenerationOutput, PolicyError, Reply, Request, Result, RowFault, Sampling, ServeSettings, Tally};
use flow_model::{Session, Sizes};
use flow_text::Tokenizer;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The servers of a model.
pub struct GenerationServer {
    fleet: Arc<Fleet>,
    /// Whether they give their memory to updates.
    sleeps: bool,
}

impl GenerationServer {
    /// The servers of the model called `name`, which reads these tokens and has those sizes. No request is sent yet.
    ///
    /// # Errors
    /// If no servers are named, or the environment has no key for them.
    pub fn new(
        name: &str,
        settings: &ServeSettings,
        tokenizer: Arc<Tokenizer>,
        sizes: Sizes,
        pulse: Arc<Pulse>,
    ) -> Result<GenerationServer> {
        Ok(GenerationServer { fleet: Arc::new(Fleet::new(name, settings, tokenizer, sizes, pulse)?), sleeps: false })
    }

    /// The same servers, which give their memory to updates or don't.
    pub fn sleeping(mut self, sleeps: bool) -> GenerationServer {
        self.sleeps = sleeps;
        self
    }

    /// The host and port of each.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.fleet.replicas.iter().map(|replica| replica.server.host())
    }

    /// Writes on where a reply is an open choice so far.
    fn go_on(
        &self,
        requests: &[Request],
        sampling: &Sampling,
        adapter: &Arc<Adapter>,
        replies: &mut [Result<Reply, RowFault>],
        tokens: &mut Tally,
    ) -> Result<()> {
        let ends = self.fleet.tokenizer.ends();
        let (to, answers) = unbounded();
        for (number, (request, reply)) in requests.iter().zip(&*replies).enumerate() {
            let Ok(begun) = reply else { continue };
            if request.choices.is_empty() || begun.tokens.last().is_some_and(|last| ends.contains(last)) {
                continue;
            }
            let most = request.longest(sampling).saturating_sub(begun.tokens.len());
            let prompt = [&request.prompt[..], &begun.tokens].concat();
            let rest = Request { prompt, choices: vec![], most: Some(most), ..request.clone() };
            self.fleet.send(Job::new(Question::Write(rest, sampling.clone()), request.session, adapter, Ticket::new(number, &to)));
        }
        drop(to);
        for (number, rest) in answers {
            let rest = rest?;
            let mut both = |mut begun: Reply, rest: Reply| {
                tokens.served(requests[number].prompt.len() + begun.tokens.len(), rest.tokens.len());
                begun.tokens.extend(rest.tokens);
                begun.logprobs.extend(rest.logprobs);
                begun
            };
            let begun = std::mem::replace(&mut replies[number], Ok(Reply::default()));
            replies[number] = begun.and_then(|begun| rest.map(|rest| both(begun, rest)));
        }
        Ok(())
    }
}

impl Generator for GenerationServer {
    fn answer(&self, version: u64, requests: &[Request], sampling: &Sampling, export: Export) -> Result<GenerationOutput> {
        let fleet = &self.fleet;
        for (row, request) in requests.iter().enumerate() {
            fleet.check(request, sampling).map_err(|fault| PolicyError::Row { row, fault })?;
        }
        let adapter = fleet.ready(version, export)?;
        let (to, answers) = unbounded();
        // Equal pairs of a prompt and a choice are weighed once.
        let mut weighed: BTreeMap<Pair, Session> = BTreeMap::new();
        for request in requests.iter().filter(|request| !request.choices.is_empty()) {
            weighed.extend(pairs(request).into_iter().map(|pair| (pair, request.session)));
        }
        let (pairs, sessions): (Vec<Pair>, Vec<Session>) = weighed.into_iter().unzip();
        let free: Vec<usize> = (0..requests.len()).filter(|&i| requests[i].choices.is_empty()).collect();
        for (number, (pair, session)) in pairs.iter().zip(sessions).enumerate() {
            let (prompt, choice) = *pair;
            let question = Question::Weigh([prompt, choice].concat(), prompt.len());
            fleet.send(Job::new(question, session, &adapter, Ticket::new(number, &to)));
        }
        for (number, &i) in free.iter().enumerate() {
            let question = Question::Write(requests[i].clone(), sampling.clone());
            fleet.send(Job::new(question, requests[i].session, &adapter, Ticket::new(pairs.len() + number, &to)));
        }
        drop(to);
        let mut outcomes: BTreeMap<usize, Result<Reply, RowFault>> = BTreeMap::new();
        for (number, outcome) in answers {
            outcomes.insert(number, outcome?);
        }
        let mut outcome = |number: usize| outcomes.remove(&number).ok_or_else(|| PolicyError::Torch("a request was lost".into()));
        let logprobs = |reply: Result<Reply, RowFault>| reply.map(|reply| reply.logprobs);
        let known = (0..pairs.len()).map(|number| Ok((pairs[number], logprobs(outcome(number)?)))).collect::<Result<_>>()?;
        let mut replies: Vec<Result<Reply, RowFault>> = Vec::with_capacity(requests.len());
        let mut tokens = Tally::default();
        pairs.iter().for_each(|(prompt, choice)| tokens.served(prompt.len() + choice.len(), 0));
        let mut free = pairs.len()..;
        for request in requests {
            replies.push(match request.choices.is_empty() {
                true => {
                    let reply = outcome(free.next().unwrap_or_default())?;
                    reply.iter().for_each(|reply| tokens.served(request.prompt.len(), reply.tokens.len()));
                    reply
                }
                false => choose(request, &known, sampling, fleet.tokenizer.ends()),
            });
        }
        self.go_on(requests, sampling, &adapter, &mut replies, &mut tokens)?;
        Ok(GenerationOutput { replies, tokens })
    }

    fn begin(&self, version: u64, request: &Request, sampling: &Sampling, ticket: Ticket, export: Export) -> Result<()> {
        let fleet = &self.fleet;
        if let Err(fault) = fleet.check(request, sampling) {
            ticket.answer(Ok(Err(fault)));
            return Ok(());
        }
        let adapter = fleet.ready(version, export)?;
        fleet.send(Job::new(Question::Write(request.clone(), sampling.clone()), request.session, &adapter, ticket));
        Ok(())
    }

    fn own_tokens(&self) -> bool {
        true
    }

    fn sleep(&self) -> Option<Asleep<'_>> {
        self.sleeps.then(|| self.fleet.rest.sleep(&self.fleet.replicas))
    }

    fn export_into(&self, root: &Path) {
        *self.fleet.adapters.lock() = Adapters::new(root.into(), false);
    }

    fn forget(&self) {
        self.fleet.adapters.lock().known.clear();
        self.fleet.replicas.iter().for_each(Replica::forget);
    }

    /// Figures of the servers that take part: how far each is from the learner, as the mean difference of
    /// log-probabilities in nats (`gap_HOST:PORT`), and the seconds that it took until all had the newest adapter, or
    /// the newest whole weights (`adapter_seconds`).
    fn figures(&self) -> Vec<(String, f64)> {
        let replicas = self.fleet.replicas.iter().filter(|replica| replica.present());
        let gaps = replicas.filter_map(|replica| Some((format!("gap_{}", replica.server.host()), replica.gap()?)));
        gaps.chain(self.fleet.adapters.lock().seconds.map(|seconds| ("adapter_seconds".into(), seconds))).collect()
    }
}

impl Drop for GenerationServer {
    fn drop(&mut self) {
        let adapters = self.fleet.adapters.lock();
        if adapters.passing {
            drop(std::fs::remove_dir_all(&adapters.root));
        }
    }
}
