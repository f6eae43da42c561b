//! Who answers in live episodes: the policy, or the environment's expert as if it were the policy.

use super::action::{Decode, Encoder, Response};
use super::episode::{Episode, Given, Start};
use super::error::RolloutError;
use super::prompt::{Prompt, Situation};
use super::recall::{At, Place, Recall, Shown, Told};
use super::retry::RetryPolicy;
use super::settings::{Actor, PlaySettings};
use crate::env::{Cause, Fault, Task, View, Worlds};
use crate::policy::{Answers, Message, Policy, PolicyError, Reply, Request, RowFault, Sampling, Tally, Tokenizer, Unanswered};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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

impl Play {
    /// Whether somebody reads which actions are admissible: the policy where its choice is constrained, or the prompt.
    pub fn listed(&self, attempt: u32) -> bool {
        let chosen = self.settings.decode == Decode::Constrained && !self.actor.advises(attempt);
        chosen || self.settings.prompt == Prompt::Full
    }

    /// How often an episode is tried.
    pub fn retry(&self) -> RetryPolicy {
        RetryPolicy { tries: self.settings.tries, max_failed: self.max_failed }
    }
}

/// Bounds of the time for which further answers are waited for.
const LEAST_PACE: Duration = Duration::from_millis(2);
const MOST_PACE: Duration = Duration::from_secs(1);

/// An episode that waits for an answer.
pub struct Live<'a> {
    /// The sampler's number for it.
    pub number: usize,
    pub episode: &'a Episode,
    pub task: &'a Task,
    /// What it shows.
    pub view: &'a View,
}

/// Answers in live episodes.
pub struct Player {
    policy: Policy,
    how: Play,
    seed: u64,
    encoder: Encoder,
    pace: Duration,
    recall: Option<Recall>,
    /// What all turns of an episode are told from the memory, by the episode's number.
    told: BTreeMap<usize, Told>,
}

impl Player {
    /// Seeds follow from `seed`, the run's, and the episodes' names alone. An error if there is no such model.
    pub fn new(policy: Policy, how: Play, seed: u64) -> Result<Player, RolloutError> {
        let encoder = Encoder::new(policy.tokenizer(&how.model)?);
        Ok(Player { policy, how, seed, encoder, pace: LEAST_PACE, recall: None, told: BTreeMap::new() })
    }

    /// Plays with this memory.
    pub fn recalling(self, recall: Option<Recall>) -> Player {
        Player { recall, ..self }
    }

    /// The memory that is played with.
    pub fn recall(&mut self) -> Option<&mut Recall> {
        self.recall.as_mut()
    }

    /// Forgets what episodes were told.
    pub fn clear(&mut self) {
        self.told.clear();
    }

    /// How it plays.
    pub fn how(&self) -> &Play {
        &self.how
    }

    /// The tokenizer of the model.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.encoder.tokenizer()
    }

    /// How long further worlds are waited for once one has answered: as long as the policy needed last, so that waiting for company costs
    /// no more than it can save.
    pub fn pace(&self) -> Duration {
        self.pace
    }

    /// What the policy is asked in each of these episodes, and what of that comes from a memory. An error where a world, the memory or the
    /// tokenizer can't say.
    pub fn requests(&mut self, live: &[Live], worlds: &mut Worlds) -> Result<Vec<(Request, Given)>, RolloutError> {
        let told = self.told(live)?;
        let how = &self.how.settings;
        let system = self.recall.as_ref().is_some_and(|recall| recall.settings.place == Place::System);
        let asked = self.recall.as_ref().is_some_and(Recall::on);
        let mut requests = Vec::with_capacity(live.len());
        for (Live { number, episode, task, view }, Told { text: told, ids }) in live.iter().zip(told) {
            if !told.is_empty() && self.how.actor.advises(episode.start.attempt) {
                worlds.tell(*number, &told);
            }
            let full = how.prompt == Prompt::Full;
            let rules = if full { worlds.rules(&task.game)? } else { String::new() };
            let text = |memory: &str| {
                how.prompt.text(&Situation {
                    rules: &rules,
                    instruction: &episode.instruction,
                    memory,
                    history: &episode.past[episode.past.len().saturating_sub(how.history)..],
                    observation: &view.seen.observation,
                    admissible: &view.actions,
                })
            };
            let constrained = how.decode == Decode::Constrained;
            let choices = if constrained { view.actions.iter().map(|action| self.encoder.closed(action)).collect() } else { vec![] };
            let seed = episode.start.seed(self.seed, episode.turn());
            let (tokenizer, memory) = (self.encoder.tokenizer(), &episode.start.memory);
            let bare = tokenizer.ask(&text(memory))?;
            let (prompt, bare) = match told {
                none if none.is_empty() => (bare, vec![]),
                told if system => (tokenizer.chat(&[message("system", told), message("user", text(memory))])?, bare),
                told => (tokenizer.ask(&text(&format!("{memory}{told}")))?, bare),
            };
            requests.push((Request { prompt, seed, choices }, Given { asked, retrieved: ids, bare }));
        }
        Ok(requests)
    }

    /// What the policy is told from the memory, if there is one, in each of these episodes; all are looked up together.
    fn told(&mut self, live: &[Live]) -> Result<Vec<Told>, RolloutError> {
        let Some(recall) = &self.recall else { return Ok(vec![Told::default(); live.len()]) };
        // A try of an episode that is played again begins anew, and is told the same.
        let known = |live: &&Live| recall.settings.at == At::Turn || live.episode.turn() == 0;
        let asked: Vec<&Live> = live.iter().filter(known).collect();
        let mut turns: Vec<(&Start, Shown)> = Vec::with_capacity(asked.len());
        for Live { episode, view, .. } in &asked {
            turns.push((&episode.start, Shown { observation: &view.seen.observation, state: view.seen.state }));
        }
        let found = recall.tell(&turns, self.encoder.tokenizer())?;
        self.told.extend(asked.iter().map(|live| live.number).zip(found));
        Ok(live.iter().map(|live| self.told.get(&live.number).cloned().unwrap_or_default()).collect())
    }

    /// The responses, by the policy with the weights that each episode began with, or by the expert. An episode that can't be answered has a
    /// fault of its own; an error is one of the policy's. What was read joins `tokens`.
    pub fn responses(
        &mut self,
        live: &[Live],
        requests: &mut [Request],
        worlds: &mut Worlds,
        tokens: &mut Tally,
    ) -> Result<Vec<Result<Response, Fault>>, RolloutError> {
        let advises = |i: &usize| self.how.actor.advises(live[*i].episode.start.attempt);
        let (advised, own): (Vec<usize>, Vec<usize>) = (0..live.len()).partition(advises);
        let asked: Vec<usize> = advised.iter().map(|&i| live[i].number).collect();
        let advised = advised.into_iter().zip(worlds.expert(&asked)?);
        let mut said: BTreeMap<usize, Result<Response, Fault>> = BTreeMap::new();
        for (i, answer) in advised {
            let response = answer.and_then(|action| self.advised(action, &mut requests[i]));
            said.insert(i, response);
        }
        let mut by_version: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for i in own {
            by_version.entry(live[i].episode.start.version).or_default().push(i);
        }
        let start = Instant::now();
        for (version, mut which) in by_version {
            let replies = loop {
                if which.is_empty() {
                    break vec![];
                }
                let asked = which.iter().map(|&i| requests[i].clone()).collect();
                match self.policy.answer(&self.how.model, version, asked, self.how.sampling.clone()) {
                    // What one episode shows is too much to read: that costs this episode.
                    Err(PolicyError::Row { row, fault: fault @ RowFault::TooLong { .. } }) if row < which.len() => {
                        said.insert(which.remove(row), Err(unanswered(&fault)));
                    }
                    answers => {
                        let Answers { replies, tokens: read } = answers?;
                        tokens.add(&read);
                        break replies;
                    }
                }
            };
            let tokenizer = self.encoder.tokenizer();
            let told = |reply: Result<Reply, RowFault>| {
                reply.map(|reply| Response::replied(reply, &self.how.sampling, tokenizer)).map_err(|fault| unanswered(&fault))
            };
            said.extend(which.into_iter().zip(replies.into_iter().map(told)));
        }
        if !live.is_empty() {
            self.pace = start.elapsed().clamp(LEAST_PACE, MOST_PACE);
        }
        Ok(said.into_values().collect())
    }

    /// An expert's turn as if the policy had written it. An action that isn't among the choices joins them or costs the episode, as the
    /// settings say.
    fn advised(&mut self, action: Option<String>, request: &mut Request) -> Result<Response, Fault> {
        let settings = &self.how.settings;
        if settings.decode == Decode::Constrained {
            let Some(action) = &action else { return Err(Fault::new(Cause::Expert, "the expert knows no way on")) };
            let code = self.encoder.closed(action);
            if !request.choices.is_empty() && !request.choices.contains(&code) {
                if !settings.join {
                    let text = format!(
                        "the expert's action `{action}` is none of the {} admissible ones; `join: true` adds it to them",
                        request.choices.len()
                    );
                    return Err(Fault::new(Cause::Expert, text));
                }
                request.choices.push(code);
            }
        }
        Ok(settings.decode.response(action, &mut self.encoder))
    }
}

/// What it costs an episode, or a reflection, that nothing answers.
pub(super) fn unanswered(fault: &RowFault) -> Fault {
    let cause = match fault {
        RowFault::Unanswered { cause: Unanswered::Late, .. } => Cause::Timeout,
        RowFault::Unanswered { cause: Unanswered::Refused, .. } => Cause::Error,
        RowFault::Unanswered { cause: Unanswered::Malformed, .. } => Cause::Malformed,
        _ => Cause::Prompt,
    };
    Fault::new(cause, fault.to_string())
}

fn message(role: &str, content: String) -> Message {
    Message { role: role.into(), content }
}
