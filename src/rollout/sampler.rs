//! Plays episodes: a batch of the policy for all whose worlds have answered, while slow worlds still work. An episode that ends leaves,
//! another may join; one that fails is started again beside the others or given up, and leaves no turn behind that isn't of a whole
//! episode.

use super::action::Decode;
use super::context::Source;
use super::episode::{Episode, Finished, Move, Start};
use super::error::{RolloutError, TooManyFailed};
use super::exchange::Whose;
use super::notes;
use super::player::{Live, Play, Player};
use super::retry::{FailedEpisode, Retries, RetryPolicy};
use super::summary::Summary;
use crate::env::{Beginning, Cause, Fault, Task, View, Worlds};
use crate::policy::{Policy, Tokenizer};
use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::BTreeSet;

/// Plays the episodes that it is given.
pub struct Sampler {
    player: Player,
    worlds: Worlds,
    tasks: BTreeMap<String, Task>,
    episodes: BTreeMap<usize, Episode>,
    /// Those that wait for room in their world.
    queued: Vec<usize>,
    /// Those that were begun and have shown nothing yet.
    started: BTreeSet<usize>,
    /// What was done in those whose world hasn't answered yet.
    moved: BTreeMap<usize, Move>,
    retries: Retries,
    summary: Summary,
    failed: Vec<FailedEpisode>,
}

impl Sampler {
    /// Nothing is played yet. Seeds follow from `seed`, the run's, and the episodes' names alone. An error if there is no such model.
    pub fn new(policy: Policy, how: Play, worlds: Worlds, seed: u64) -> Result<Sampler, RolloutError> {
        let player = Player::new(policy, how, seed)?;
        let retries = Retries::new(player.how().retry, &Summary::default());
        let (tasks, episodes, queued, started, moved, summary, failed) = Default::default();
        Ok(Sampler { player, worlds, tasks, episodes, queued, started, moved, retries, summary, failed })
    }

    /// Plays with these sources of context.
    pub fn reading(self, sources: Vec<Box<dyn Source>>) -> Sampler {
        Sampler { player: self.player.reading(sources), ..self }
    }

    /// The sources of context that it plays with.
    pub fn sources(&mut self) -> &mut [Box<dyn Source>] {
        self.player.sources()
    }

    /// The columns of its answers' tagged parts.
    pub fn parts(&self) -> Vec<String> {
        self.player.how().agent.columns()
    }

    /// The tokenizer of the model.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.player.tokenizer()
    }

    /// Forgets all episodes; what they came to is counted anew. `before` is what the iteration's earlier episodes came to: how many may
    /// fail is a share of them all.
    pub fn clear(&mut self, before: &Summary) {
        self.worlds.clear();
        self.player.clear();
        self.retries = Retries::new(self.player.how().retry, before);
        (self.tasks, self.episodes, self.queued, self.started, self.moved) = Default::default();
        (self.summary, self.failed) = Default::default();
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

    /// The episodes given up since the last call, in the order of their names.
    pub fn failed(&mut self) -> Vec<FailedEpisode> {
        let mut failed = std::mem::take(&mut self.failed);
        failed.sort();
        failed
    }

    /// Plays one turn of every episode whose world has answered, and returns the episodes that ended, in the order in which they began.
    /// Waits until at least one world has answered.
    ///
    /// # Errors
    /// If the policy can't answer, or more episodes have failed than may.
    pub fn step(&mut self) -> Result<Vec<Finished>, RolloutError> {
        self.start()?;
        let views = if live(&self.episodes, &self.tasks, &self.moved).is_empty() {
            self.worlds.views(self.player.pace())
        } else {
            self.worlds.shown()
        };
        let mut over = self.take(views);
        let all = live(&self.episodes, &self.tasks, &self.moved);
        let asked = self.player.requests(&all, &mut self.worlds)?;
        let (mut live, mut requests, mut given, mut unasked) = (Vec::with_capacity(all.len()), Vec::new(), Vec::new(), Vec::new());
        for (episode, asked) in all.into_iter().zip(asked) {
            match asked {
                Ok((request, told)) => {
                    live.push(episode);
                    requests.push(request);
                    given.push(told);
                }
                Err(fault) => unasked.push((episode.number, fault)),
            }
        }
        let numbers: Vec<usize> = live.iter().map(|live| live.number).collect();
        let responses = self.player.responses(&live, &mut requests, &mut self.worlds, &mut self.summary.tokens)?;
        unasked.into_iter().for_each(|(e, fault)| self.fail(e, fault));
        let mut moves = Vec::with_capacity(numbers.len());
        for ((e, (request, given)), response) in numbers.into_iter().zip(requests.into_iter().zip(given)).zip(responses) {
            match response {
                Ok(response) => {
                    let agent = &self.player.how().agent;
                    let (action, parts) = (agent.action(&response.text), agent.read(&response.text));
                    moves.push((e, Move { request, given, action, parts, response }))
                }
                Err(fault) => self.fail(e, fault),
            }
        }
        let actions: Vec<(usize, &str)> = moves.iter().map(|(e, made)| (*e, made.action.as_str())).collect();
        self.worlds.act(&actions)?;
        self.moved.extend(moves);
        let views = self.worlds.views(self.player.pace());
        over.extend(self.take(views));
        over.extend(self.give_up()?);
        over.sort_by_key(|finished| finished.number);
        Ok(over)
    }

    /// Starts the episodes that are due, as far as their worlds have room. What they show first comes later.
    fn start(&mut self) -> Result<(), RolloutError> {
        let idle = self.started.is_empty() && self.queued.is_empty() && self.episodes.values().all(|episode| episode.view.is_none());
        self.queued.extend(self.retries.start(idle));
        let mut room: BTreeMap<String, Option<usize>> = BTreeMap::new();
        let mut now = Vec::new();
        let mut unlimited = None;
        for e in std::mem::take(&mut self.queued) {
            let Some(task) = self.episodes.get(&e).and_then(|episode| self.tasks.get(&episode.start.task)) else { continue };
            let left = match task.game.program() {
                None => &mut unlimited,
                Some(program) => match room.entry(program.name.clone()) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => unknown.insert(self.worlds.room(&task.game)?),
                },
            };
            match left {
                Some(0) => self.queued.push(e),
                left => {
                    *left = left.map(|left| left - 1);
                    now.push(e);
                }
            }
        }
        let known = now.iter().filter_map(|e| {
            let start = &self.episodes.get(e)?.start;
            Some((*e, self.tasks.get(&start.task)?, self.player.listed(start.attempt)))
        });
        let starts: Vec<Beginning> = known.collect();
        self.worlds.begin(&starts)?;
        self.started.extend(now);
        Ok(())
    }

    /// Records what the worlds answered, and returns the episodes that ended with it.
    fn take(&mut self, mut views: Vec<(usize, Result<View, Fault>)>) -> Vec<Finished> {
        views.sort_by_key(|(e, _)| *e);
        let mut over = Vec::new();
        for (e, view) in views {
            let made = self.moved.remove(&e);
            let first = self.started.remove(&e);
            let Some(episode) = self.episodes.get_mut(&e) else { continue };
            let last = made.is_some() && episode.turn() + 1 == self.player.how().agent.turns();
            let listed = self.player.listed(episode.start.attempt);
            match view.and_then(|view| if last || !listed { Ok(view) } else { playable(view, self.player.how().agent.decode) }) {
                Err(fault) => self.fail(e, fault),
                Ok(view) => match made {
                    Some(made) => {
                        let extras = view.extras.clone();
                        if let Some(outcome) = episode.took(made, view, last) {
                            self.summary.tell(&extras);
                            over.extend(self.end(e, outcome));
                        }
                    }
                    None if first => {
                        episode.begin(Some(view));
                        let how = self.player.how();
                        // It would take another task's notes for true.
                        if how.actor.advises(episode.start.attempt) && how.agent.notes().notes == Whose::Own {
                            notes::remarks(&episode.start.memory).for_each(|note| self.worlds.tell(e, note));
                        }
                    }
                    None => {}
                },
            }
        }
        over
    }

    /// Leaves it to the retries what becomes of an episode that failed.
    fn fail(&mut self, e: usize, fault: Fault) {
        if let Some(episode) = self.episodes.get_mut(&e) {
            self.retries.failed(e, episode.turn(), fault);
            episode.begin(None);
            self.worlds.close(&[e]);
        }
    }

    /// Removes an episode that has ended by itself, and counts it.
    fn end(&mut self, number: usize, outcome: String) -> Option<Finished> {
        let Episode { start, instruction, kind, turns, score, .. } = self.episodes.remove(&number)?;
        self.worlds.close(&[number]);
        self.summary.turns += turns.len();
        self.summary.won += turns.iter().filter(|t| t.won).count();
        self.summary.invalid += turns.iter().filter(|t| !t.valid).count();
        self.summary.score += f64::from(score);
        Some(Finished { number, start, instruction, kind, turns, outcome })
    }

    /// Removes the episodes that failed in their last try.
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
            over.push(Finished { number: gone.episode, start, instruction: String::new(), kind: String::new(), turns: vec![], outcome: String::new() });
        }
        self.summary.failed += over.len();
        self.summary.retried = self.retries.retried;
        if self.retries.too_many() {
            let RetryPolicy { tries, max_failed } = self.player.how().retry;
            let error = TooManyFailed { failed: self.failed(), episodes: self.summary.episodes, tries, max_failed };
            return Err(RolloutError::TooManyFailed(Box::new(error)));
        }
        Ok(over)
    }
}

/// The episodes whose turn it is to be answered, in the order in which they were begun.
fn live<'a>(episodes: &'a BTreeMap<usize, Episode>, tasks: &'a BTreeMap<String, Task>, moved: &BTreeMap<usize, Move>) -> Vec<Live<'a>> {
    let waiting = episodes.iter().filter(|(number, _)| !moved.contains_key(number));
    let live = waiting.filter_map(|(number, episode)| {
        Some(Live { number: *number, episode, task: tasks.get(&episode.start.task)?, view: episode.view.as_ref()? })
    });
    live.collect()
}

/// A view that a turn can follow on, if the episode isn't over.
fn playable(view: View, decode: Decode) -> Result<View, Fault> {
    if decode == Decode::Constrained && !view.seen.done && view.actions.is_empty() {
        return Err(Fault::new(Cause::Malformed, "it names no admissible action though the episode isn't over; `decode: free` needs none"));
    }
    Ok(view)
}
