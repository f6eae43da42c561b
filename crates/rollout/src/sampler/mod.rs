//! Plays episodes with continuous batching: one batch of the policy for all episodes whose environments have answered,
//! while slow environments still work. An episode that ends leaves the batch and another may join; one that fails is
//! restarted or given up, and leaves no turn of an incomplete episode behind.

mod ends;

use super::action::{Invalid, Response};
use super::context::ContextSource;
use super::episode::{Episode, EpisodeStart, Finished, Move};
use super::error::RolloutError;
use super::past_turns::Past;
use super::pending::{AskedTurn, PendingTurns};
use super::player::{LiveEpisode, Play, Player};
use super::retry::{FailedEpisode, Retries};
use super::summary::Summary;
use flow_env::{Act, Call, Environments, EpisodeView, Fault, ResetRequest, Task};
use flow_model::Reply;
use flow_policy::Policy;
use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long an answer of a server is waited for before environments that work meanwhile are looked at.
const BETWEEN: Duration = Duration::from_millis(2);
/// The same where none works.
const LONG: Duration = Duration::from_secs(1);

/// Plays episodes.
pub struct Sampler {
    pub player: Player,
    envs: Environments,
    tasks: BTreeMap<String, Task>,
    episodes: BTreeMap<usize, Episode>,
    /// Episodes that wait for a free slot in their environment.
    queued: Vec<usize>,
    /// Episodes that were begun and have no first observation yet.
    started: BTreeSet<usize>,
    /// The actions of episodes whose environment hasn't answered yet.
    moved: BTreeMap<usize, Move>,
    /// The turns that servers have been asked for.
    pending: PendingTurns,
    /// Episodes whose program got the error that its call is too long, and hasn't answered yet.
    refused: BTreeSet<usize>,
    /// By the number of an episode, its first turns, where they are played again and not sampled.
    given: BTreeMap<usize, Past>,
    retries: Retries,
    summary: Summary,
    failed: Vec<FailedEpisode>,
}

impl Sampler {
    /// Nothing is played yet. Seeds follow from `seed`, the run's, and the episodes' names alone. An error if there is
    /// no such model.
    pub fn new(policy: Policy, play: Play, envs: Environments, seed: u64) -> Result<Sampler, RolloutError> {
        let player = Player::new(policy, play, seed)?;
        let retries = Retries::new(player.play.retry, &Summary::default());
        let (tasks, episodes, queued, started, moved, pending, refused, given, summary, failed) = Default::default();
        Ok(Sampler { player, envs, tasks, episodes, queued, started, moved, pending, refused, given, retries, summary, failed })
    }

    /// The same with these sources of context.
    pub fn reading(mut self, sources: Vec<Box<dyn ContextSource>>) -> Sampler {
        self.player.sources = sources;
        self
    }

    /// The agent's own columns.
    pub fn parts(&self) -> Vec<String> {
        self.player.play.agent.columns()
    }

    /// Drops all episodes and resets the summary. `before` is the summary of the iteration's earlier episodes: the
    /// share that may fail counts them too.
    pub fn clear(&mut self, before: &Summary) {
        self.envs.clear();
        self.player.clear();
        self.retries = Retries::new(self.player.play.retry, before);
        (self.tasks, self.episodes, self.queued, self.started, self.moved) = Default::default();
        (self.pending, self.refused, self.given, self.summary, self.failed) = Default::default();
    }

    /// Adds episodes, which join at the next step. An error if a task's name can't be parsed.
    pub fn begin(&mut self, starts: impl IntoIterator<Item = EpisodeStart>) -> Result<(), RolloutError> {
        for start in starts {
            if !self.tasks.contains_key(&start.task) {
                self.tasks.insert(start.task.clone(), Task::parse(&start.task)?);
            }
            self.episodes.insert(self.retries.more(), Episode::new(start));
            self.summary.episodes += 1;
        }
        Ok(())
    }

    /// Adds an episode whose first turns are played again, token by token; the policy goes on from there. It fails
    /// where a turn isn't what it was. Its number.
    ///
    /// # Errors
    /// If the task's name can't be parsed.
    pub fn begin_from(&mut self, start: EpisodeStart, past: Past) -> Result<usize, RolloutError> {
        let number = self.begun();
        self.begin([start])?;
        self.given.insert(number, past);
        Ok(number)
    }

    /// Plays all episodes to their end; in the order of their beginning.
    ///
    /// # Errors
    /// As of [`Sampler::step`].
    pub fn finish(&mut self) -> Result<Vec<Finished>, RolloutError> {
        let mut over = Vec::with_capacity(self.episodes.len());
        while !self.idle() {
            over.extend(self.step()?);
        }
        over.sort_by_key(|finished| finished.number);
        Ok(over)
    }

    /// How many episodes were begun since [`Sampler::clear`].
    pub fn begun(&self) -> usize {
        self.summary.episodes
    }

    /// Whether every episode is over.
    pub fn idle(&self) -> bool {
        self.episodes.is_empty()
    }

    /// The summary of the finished episodes.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The episodes given up since the last call, in the order of their names.
    pub fn failed(&mut self) -> Vec<FailedEpisode> {
        let mut failed = std::mem::take(&mut self.failed);
        failed.sort();
        failed
    }

    /// Plays one turn of every episode whose environment has answered, and returns the episodes that ended, in order of
    /// their beginnings. Waits until at least one environment, or a server, has answered.
    ///
    /// # Errors
    /// If the policy can't answer, or more episodes have failed than may.
    pub fn step(&mut self) -> Result<Vec<Finished>, RolloutError> {
        self.start()?;
        let views = self.views();
        let mut over = self.take(views);
        let all = live(&self.episodes, &self.tasks, |number| self.moved.contains_key(number) || self.pending.contains(number));
        let requested = self.player.requests(&all, &mut self.envs)?;
        let (mut live, mut requests, mut asked, mut sent, mut unasked) =
            (Vec::with_capacity(all.len()), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut answered: Vec<(usize, AskedTurn, Result<Response, Fault>)> = Vec::with_capacity(all.len());
        for (episode, requested) in all.into_iter().zip(requested) {
            match requested {
                Ok((request, prompt_memory, fork)) => {
                    let stops = |call: &Call| [&call.stop[..], &self.player.play.sampling.stop].concat();
                    let limits = episode.view.extras.call.as_ref().map(|call| (call.max_tokens, stops(call)));
                    let (number, answered_by) = (episode.number, self.player.answerer(&episode));
                    let (past, turn) = (self.given.get(&number), episode.episode.turn() as usize);
                    if let Some(strays) = past.and_then(|past| past.strays(turn, episode.view.step.state, &request.prompt)) {
                        unasked.push((number, strays));
                        continue;
                    }
                    let given = past.and_then(|past| past.responses.get(turn));
                    let later = given.is_none() && self.player.begin(&episode, &request, &self.pending.to)?;
                    let turn = AskedTurn { request, limits, prompt_memory, fork, answered_by };
                    if let Some(tokens) = given {
                        let reply = Reply { tokens: tokens.clone(), logprobs: vec![0.0; tokens.len()] };
                        let response = self.player.response(Ok(reply), &turn.answered_by);
                        answered.push((number, turn, response));
                    } else if later {
                        sent.push((number, turn));
                    } else {
                        live.push(episode);
                        requests.push(turn.request.clone());
                        asked.push((number, turn));
                    }
                }
                Err(fault) => unasked.push((episode.number, fault)),
            }
        }
        let responses = self.player.responses(&live, &mut requests, &mut self.envs, &mut self.summary.tokens)?;
        sent.into_iter().for_each(|(number, turn)| self.pending.insert(number, turn));
        for (((number, turn), request), response) in asked.into_iter().zip(requests).zip(responses) {
            answered.push((number, AskedTurn { request, ..turn }, response));
        }
        for (number, turn, reply) in self.pending.take()? {
            self.player.count(&turn.answered_by, &turn.request.prompt, &reply, &mut self.summary.tokens);
            let response = self.player.response(reply, &turn.answered_by);
            answered.push((number, turn, response));
        }
        let mut moves = Vec::with_capacity(answered.len());
        for (number, turn, response) in answered {
            match response {
                Ok(response) => {
                    let calls = turn.limits.is_some();
                    moves.push((calls, number, self.moved_by(number, turn, response)));
                }
                Err(fault) => unasked.push((number, fault)),
            }
        }
        let acts: Vec<(usize, Act)> = moves.iter().map(|(calls, e, step)| (*e, step.act(*calls))).collect();
        self.envs.act(&acts)?;
        self.moved.extend(moves.into_iter().map(|(_, e, step)| (e, step)));
        for (e, fault) in unasked {
            over.extend(self.refuse(e, fault)?);
        }
        let views = if self.pending.is_empty() { self.envs.views(self.player.pace) } else { self.envs.shown() };
        over.extend(self.take(views));
        over.extend(self.give_up()?);
        over.sort_by_key(|finished| finished.number);
        Ok(over)
    }

    /// What environments show. Where no episode could go on, it waits for one of them or for a server.
    fn views(&mut self) -> Vec<(usize, Result<EpisodeView, Fault>)> {
        if !live(&self.episodes, &self.tasks, |number| self.moved.contains_key(number) || self.pending.contains(number)).is_empty() {
            return self.envs.shown();
        }
        if self.pending.is_empty() {
            return self.envs.views(self.player.pace);
        }
        let envs = !(self.moved.is_empty() && self.started.is_empty() && self.refused.is_empty());
        let patience = if envs { BETWEEN } else { LONG };
        loop {
            let views = self.envs.shown();
            if !views.is_empty() || self.pending.wait(patience) {
                return views;
            }
        }
    }

    /// What an episode does by an answer. A listed answer has the text of the list: its tokens may decode to another
    /// spelling.
    fn moved_by(&self, number: usize, turn: AskedTurn, response: Response) -> Move {
        let AskedTurn { request, limits, prompt_memory, fork, answered_by } = turn;
        let agent = &self.player.play.agent;
        let listed = |response: &Response| {
            let place = request.choices.iter().position(|choice| *choice == response.tokens)?;
            self.episodes.get(&number)?.view.as_ref()?.actions.get(place).cloned()
        };
        let (response, action) = match &limits {
            Some((most, stop)) => {
                let (response, said) = response.until(*most, stop, self.player.tokenizer_of(&answered_by));
                let whole = (said == response.text).then(|| listed(&response)).flatten();
                (response, Some(whole.unwrap_or(said)))
            }
            None => {
                let action = listed(&response).or_else(|| agent.action(&response.text));
                (response, action)
            }
        };
        let parts = agent.read(&response.text);
        let unread = action.is_none().then(|| Invalid::unread(&response));
        let action = action.unwrap_or_default();
        Move { request, prompt_memory, action, unread, fork, answered_by, parts, response }
    }

    /// Starts the episodes that are due, as far as their environments have free slots. The first observations arrive
    /// later.
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
                    Entry::Vacant(unknown) => unknown.insert(self.envs.room(&task.game)?),
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
        let starts: Vec<ResetRequest> = known.collect();
        self.envs.begin(&starts)?;
        self.started.extend(now);
        Ok(())
    }
}

/// The episodes that wait for an action and aren't `busy`, in order of their beginnings.
fn live<'a>(
    episodes: &'a BTreeMap<usize, Episode>,
    tasks: &'a BTreeMap<String, Task>,
    busy: impl Fn(&usize) -> bool,
) -> Vec<LiveEpisode<'a>> {
    let waiting = episodes.iter().filter(|(number, _)| !busy(number));
    let live = waiting.filter_map(|(number, episode)| {
        Some(LiveEpisode { number: *number, episode, task: tasks.get(&episode.start.task)?, view: episode.view.as_ref()? })
    });
    live.collect()
}
