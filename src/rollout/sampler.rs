//! Plays episodes: all live ones in step, one batch of the policy a turn. An episode that ends leaves the batch, another may join;
//! one that fails is started again beside the others or given up, and leaves no turn behind that isn't of a whole episode.

use super::action::{Decode, Encoder, Response};
use super::episode::{Episode, Finished, Start};
use super::error::{RolloutError, TooManyFailed};
use super::notes;
use super::prompt::{Prompt, Situation};
use super::retry::{FailedEpisode, Retries, RetryPolicy};
use super::settings::{Actor, PlaySettings};
use super::summary::Summary;
use crate::env::{Cause, Fault, Task, View, Worlds};
use crate::policy::{Policy, Reply, Request, Sampling, Tokenizer};
use std::collections::BTreeMap;

/// Who plays, and how.
#[derive(Clone, Debug)]
pub struct Play {
    /// The model that acts, or whose tokens an expert's actions are written in.
    pub model: String,
    /// Who chooses the actions.
    pub actor: Actor,
    /// How responses are sampled.
    pub sampling: Sampling,
    /// How episodes are played.
    pub settings: PlaySettings,
    /// The share of an iteration's episodes that may fail, from 0 to 1.
    pub max_failed: f64,
}

/// Plays the episodes that it is given.
pub struct Sampler {
    policy: Policy,
    how: Play,
    worlds: Worlds,
    seed: u64,
    tasks: BTreeMap<String, Task>,
    episodes: BTreeMap<usize, Episode>,
    live: Vec<usize>,
    retries: Retries,
    encoder: Encoder,
    summary: Summary,
    failed: Vec<FailedEpisode>,
}

impl Sampler {
    /// Nothing is played yet. Seeds follow from `seed`, the run's, and the episodes' names alone. An error if there is no such model.
    pub fn new(policy: Policy, how: Play, worlds: Worlds, seed: u64) -> Result<Sampler, RolloutError> {
        let encoder = Encoder::new(policy.tokenizer(&how.model)?);
        let retries = Retries::new(retry_policy(&how), &Summary::default());
        let (tasks, episodes, live, summary, failed) = Default::default();
        Ok(Sampler { policy, how, worlds, seed, tasks, episodes, live, retries, encoder, summary, failed })
    }

    /// The tokenizer of the model.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.encoder.tokenizer()
    }

    /// Forgets all episodes; what they came to is counted anew. `before` is what the iteration's earlier episodes came to: how many may
    /// fail is a share of them all.
    pub fn clear(&mut self, before: &Summary) {
        self.worlds.clear();
        self.retries = Retries::new(retry_policy(&self.how), before);
        (self.tasks, self.episodes, self.live, self.summary, self.failed) = Default::default();
    }

    /// Takes on further episodes, which join with the next step. An error if a task's name means nothing.
    pub fn begin(&mut self, starts: impl IntoIterator<Item = Start>) -> Result<(), RolloutError> {
        for start in starts {
            if !self.tasks.contains_key(&start.task) {
                self.tasks.insert(start.task.clone(), Task::parse(&start.task)?);
            }
            self.episodes.insert(self.retries.more(), Episode::new(start));
            self.summary.episodes += 1;
        }
        Ok(())
    }

    /// How many episodes were begun since [`Sampler::clear`].
    pub fn begun(&self) -> usize {
        self.summary.episodes
    }

    /// Whether every episode is over.
    pub fn idle(&self) -> bool {
        self.episodes.is_empty()
    }

    /// What the episodes that are over came to.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The episodes that were given up since this was asked last, in the order of their names.
    pub fn failed(&mut self) -> Vec<FailedEpisode> {
        let mut failed = std::mem::take(&mut self.failed);
        failed.sort();
        failed
    }

    /// Plays a turn of every live episode, and gives those that are over with it, in the order in which they were begun. An error
    /// if the policy can't answer, or more episodes have failed than may.
    pub fn step(&mut self) -> Result<Vec<Finished>, RolloutError> {
        self.start()?;
        let requests = self.requests()?;
        let live = std::mem::take(&mut self.live);
        let responses = self.responses(&live, &requests)?;
        let mut moves = Vec::with_capacity(live.len());
        for ((e, request), response) in live.into_iter().zip(requests).zip(responses) {
            match response {
                Ok(response) => moves.push((e, request, self.how.settings.decode.action(&response.text), response)),
                Err(fault) => self.fail(e, fault),
            }
        }
        let actions: Vec<(usize, &str)> = moves.iter().map(|m| (m.0, m.2.as_str())).collect();
        let views = self.worlds.step(&actions)?;
        let mut ended = Vec::new();
        for ((e, request, action, response), view) in moves.into_iter().zip(views) {
            let Some(episode) = self.episodes.get_mut(&e) else { continue };
            let last = episode.turn() + 1 == self.how.settings.max_turns;
            match view.and_then(|view| if last { Ok(view) } else { playable(view, self.how.settings.decode) }) {
                Ok(view) => {
                    if let Some(outcome) = episode.took(request, action, response, view, last) {
                        ended.push((e, outcome));
                    }
                }
                Err(fault) => self.fail(e, fault),
            }
        }
        self.live = self.episodes.iter().filter(|(_, episode)| episode.view.is_some()).map(|(e, _)| *e).collect();
        let mut over: Vec<Finished> = ended.into_iter().filter_map(|(e, outcome)| self.end(e, outcome)).collect();
        let given_up = self.give_up()?;
        over.extend(given_up);
        over.sort_by_key(|finished| finished.number);
        Ok(over)
    }

    /// Starts what is due.
    fn start(&mut self) -> Result<(), RolloutError> {
        let due = self.retries.start(self.live.is_empty());
        let known = due.iter().filter_map(|e| Some((*e, self.tasks.get(&self.episodes.get(e)?.start.task)?)));
        let starts: Vec<(usize, &Task)> = known.collect();
        let views = self.worlds.reset(&starts)?;
        for (e, view) in due.into_iter().zip(views) {
            match view.and_then(|view| playable(view, self.how.settings.decode)) {
                Ok(view) => {
                    if let Some(episode) = self.episodes.get_mut(&e) {
                        episode.begin(Some(view));
                        self.live.push(e);
                        if self.how.actor.advises(episode.start.attempt) {
                            notes::remarks(&episode.start.memory).for_each(|note| self.worlds.tell(e, note));
                        }
                    }
                }
                Err(fault) => self.retries.failed(e, 0, fault),
            }
        }
        self.live.sort_unstable();
        Ok(())
    }

    /// What the policy is asked in each live episode.
    fn requests(&mut self) -> Result<Vec<Request>, RolloutError> {
        let how = &self.how.settings;
        let mut requests = Vec::with_capacity(self.live.len());
        for e in &self.live {
            let Some(episode) = self.episodes.get(e) else { continue };
            let (Some(view), Some(task)) = (&episode.view, self.tasks.get(&episode.start.task)) else { continue };
            let full = how.prompt == Prompt::Full;
            let rules = if full { self.worlds.rules(&task.game)? } else { String::new() };
            let text = how.prompt.text(&Situation {
                rules: &rules,
                memory: &episode.start.memory,
                history: &episode.past[episode.past.len().saturating_sub(how.history)..],
                observation: &view.seen.observation,
                admissible: &view.actions,
            });
            let constrained = how.decode == Decode::Constrained;
            let choices = if constrained { view.actions.iter().map(|action| self.encoder.closed(action)).collect() } else { vec![] };
            let seed = episode.start.seed(self.seed, episode.turn());
            requests.push(Request { prompt: self.encoder.tokenizer().ask(&text)?, seed, choices });
        }
        Ok(requests)
    }

    /// What is said in each live episode: by the policy, with the weights that each began with, or by the expert.
    fn responses(&mut self, live: &[usize], requests: &[Request]) -> Result<Vec<Result<Response, Fault>>, RolloutError> {
        let attempt = |e: &usize| self.episodes.get(e).map_or(0, |episode| episode.start.attempt);
        let (advised, own): (Vec<usize>, Vec<usize>) = (0..live.len()).partition(|&i| self.how.actor.advises(attempt(&live[i])));
        let asked: Vec<usize> = advised.iter().map(|&i| live[i]).collect();
        let advised = advised.into_iter().zip(self.worlds.expert(&asked)?);
        let mut said: BTreeMap<usize, Result<Response, Fault>> = BTreeMap::new();
        for (i, answer) in advised {
            said.insert(i, answer.map(|action| self.how.settings.decode.response(action, &mut self.encoder)));
        }
        let mut by_version: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (i, e) in own.into_iter().map(|i| (i, &live[i])) {
            by_version.entry(self.episodes.get(e).map_or(0, |episode| episode.start.version)).or_default().push(i);
        }
        for (version, which) in by_version {
            let asked = which.iter().map(|&i| requests[i].clone()).collect();
            let replies = self.policy.generate(&self.how.model, version, asked, self.how.sampling.clone())?;
            let tokenizer = self.encoder.tokenizer();
            let told = |r: Reply| Ok(Response { text: tokenizer.decode(&r.tokens), tokens: r.tokens, logprobs: r.logprobs });
            said.extend(which.into_iter().zip(replies.into_iter().map(told)));
        }
        Ok(said.into_values().collect())
    }

    fn fail(&mut self, e: usize, fault: Fault) {
        if let Some(episode) = self.episodes.get_mut(&e) {
            self.retries.failed(e, episode.turn(), fault);
            episode.begin(None);
        }
    }

    /// Takes an episode out that has ended by itself.
    fn end(&mut self, number: usize, outcome: String) -> Option<Finished> {
        let Episode { start, turns, score, .. } = self.episodes.remove(&number)?;
        self.summary.turns += turns.len();
        self.summary.won += turns.iter().filter(|t| t.won).count();
        self.summary.invalid += turns.iter().filter(|t| !t.valid).count();
        self.summary.score += f64::from(score);
        Some(Finished { number, start, turns, outcome })
    }

    /// Takes out what has failed in its last try.
    fn give_up(&mut self) -> Result<Vec<Finished>, RolloutError> {
        let mut over = Vec::new();
        for gone in self.retries.given_up() {
            let Some(Episode { start, .. }) = self.episodes.remove(&gone.episode) else { continue };
            self.failed.push(FailedEpisode {
                task: start.task.clone(),
                sample: start.sample,
                attempt: start.attempt,
                turn: gone.turn,
                cause: gone.fault.cause.name(),
                error: gone.fault.text,
                tries: gone.tries,
            });
            over.push(Finished { number: gone.episode, start, turns: vec![], outcome: String::new() });
        }
        self.summary.failed += over.len();
        self.summary.retried = self.retries.retried;
        if self.retries.too_many() {
            let RetryPolicy { tries, max_failed } = retry_policy(&self.how);
            let error = TooManyFailed { failed: self.failed(), episodes: self.summary.episodes, tries, max_failed };
            return Err(RolloutError::TooManyFailed(Box::new(error)));
        }
        Ok(over)
    }
}

fn retry_policy(how: &Play) -> RetryPolicy {
    RetryPolicy { tries: how.settings.tries, max_failed: how.max_failed }
}

/// A view that a turn can follow on, if the episode isn't over.
fn playable(view: View, decode: Decode) -> Result<View, Fault> {
    if decode == Decode::Constrained && !view.seen.done && view.actions.is_empty() {
        return Err(Fault::new(Cause::Malformed, "it names no admissible action though the episode isn't over; `decode: free` needs none"));
    }
    Ok(view)
}
