//! Plays episodes: all live ones in step, one batch of the policy a turn. An episode that ends leaves the batch, another may join;
//! one that fails is started again beside the others or given up, and leaves no turn behind that isn't of a whole episode.

use super::how::Play;
use super::memory;
use super::playing::{drawn, Ended, Episode, Start};
use super::prompt::Prompt;
use super::said::{action, advice, Codes, Decode, Said};
use super::tally::Tally;
use super::tries::{Patience, Tries};
use crate::dataflow::Lost;
use crate::env::{Cause, Fault, Task, View, Worlds};
use crate::policy::{Policy, Reply, Request, Tokenizer};
use std::collections::BTreeMap;

/// Plays what it is given.
pub struct Player {
    policy: Policy,
    how: Play,
    worlds: Worlds,
    seed: u64,
    tasks: BTreeMap<String, Task>,
    episodes: BTreeMap<usize, Episode>,
    live: Vec<usize>,
    tries: Tries,
    codes: Codes,
    tally: Tally,
    lost: Vec<Lost>,
}

impl Player {
    /// Nothing is played yet. Seeds follow from `seed` and the episodes' names alone.
    pub fn new(policy: Policy, how: Play, worlds: Worlds, seed: u64) -> Result<Player, String> {
        let tokenizer = policy.tokenizer(&how.model).map_err(|e| e.to_string())?;
        let (tries, codes) = (Tries::new(how.patience), Codes::new(tokenizer));
        let (tasks, episodes, live, tally, lost) = Default::default();
        Ok(Player { policy, how, worlds, seed, tasks, episodes, live, tries, codes, tally, lost })
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        self.codes.tokenizer()
    }

    /// Forgets all episodes; their figures begin anew.
    pub fn clear(&mut self, patience: Patience) {
        self.worlds.clear();
        self.tries = Tries::new(patience);
        (self.tasks, self.episodes, self.live, self.tally, self.lost) = Default::default();
    }

    /// Takes on further episodes, which join with the next step.
    pub fn begin(&mut self, starts: impl IntoIterator<Item = Start>) -> Result<(), String> {
        for start in starts {
            if !self.tasks.contains_key(&start.task) {
                self.tasks.insert(start.task.clone(), Task::parse(&start.task).map_err(|e| e.to_string())?);
            }
            self.episodes.insert(self.tries.more(), Episode::new(start));
            self.tally.episodes += 1;
        }
        Ok(())
    }

    /// How many episodes were begun since [`Player::clear`].
    pub fn begun(&self) -> usize {
        self.tally.episodes
    }

    /// Whether every episode is over.
    pub fn idle(&self) -> bool {
        self.episodes.is_empty()
    }

    /// What the episodes that are over came to.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The episodes that were given up, in the order of their names.
    pub fn lost(&mut self) -> Vec<Lost> {
        let mut lost = std::mem::take(&mut self.lost);
        lost.sort();
        lost
    }

    /// Plays a turn of every live episode, and gives those that are over with it, in the order in which they were begun.
    pub fn step(&mut self) -> Result<Vec<Ended>, String> {
        self.start()?;
        let requests = self.requests()?;
        let live = std::mem::take(&mut self.live);
        let said = self.said(&live, &requests)?;
        let mut moves = Vec::with_capacity(live.len());
        for ((e, request), said) in live.into_iter().zip(requests).zip(said) {
            match said {
                Ok(said) => moves.push((e, request, action(&said.0, self.how.decode), said)),
                Err(fault) => self.fail(e, fault),
            }
        }
        let actions: Vec<(usize, &str)> = moves.iter().map(|m| (m.0, m.2.as_str())).collect();
        let views = self.worlds.step(&actions).map_err(|e| e.to_string())?;
        let mut ended = Vec::new();
        for ((e, request, action, said), view) in moves.into_iter().zip(views) {
            let Some(episode) = self.episodes.get_mut(&e) else { continue };
            let last = episode.turns.len() + 1 == self.how.max_turns as usize;
            match view.and_then(|view| if last { Ok(view) } else { playable(view, &self.how) }) {
                Ok(view) => {
                    if let Some(outcome) = episode.took(request, action, said, view, last) {
                        ended.push((e, outcome));
                    }
                }
                Err(fault) => self.fail(e, fault),
            }
        }
        self.live = self.episodes.iter().filter(|(_, episode)| episode.view.is_some()).map(|(e, _)| *e).collect();
        let mut over: Vec<Ended> = ended.into_iter().filter_map(|(e, outcome)| self.end(e, outcome)).collect();
        let given_up = self.give_up()?;
        over.extend(given_up);
        over.sort_by_key(|ended| ended.number);
        Ok(over)
    }

    /// Starts what is due.
    fn start(&mut self) -> Result<(), String> {
        let due = self.tries.start(self.live.is_empty());
        let known = due.iter().filter_map(|e| Some((*e, self.tasks.get(&self.episodes.get(e)?.start.task)?)));
        let starts: Vec<(usize, &Task)> = known.collect();
        let views = self.worlds.reset(&starts).map_err(|e| e.to_string())?;
        for (e, view) in due.into_iter().zip(views) {
            match view.and_then(|view| playable(view, &self.how)) {
                Ok(view) => {
                    if let Some(episode) = self.episodes.get_mut(&e) {
                        episode.begin(Some(view));
                        self.live.push(e);
                        if self.how.actor.advises(episode.start.attempt) {
                            memory::remarks(&episode.start.memory).for_each(|note| self.worlds.tell(e, note));
                        }
                    }
                }
                Err(fault) => self.tries.failed(e, 0, fault),
            }
        }
        self.live.sort_unstable();
        Ok(())
    }

    /// What the policy is asked in each live episode.
    fn requests(&mut self) -> Result<Vec<Request>, String> {
        let how = &self.how;
        let mut requests = Vec::with_capacity(self.live.len());
        for e in &self.live {
            let Some(episode) = self.episodes.get(e) else { continue };
            let (Some(view), Some(task)) = (&episode.view, self.tasks.get(&episode.start.task)) else { continue };
            let from = episode.past.len().saturating_sub(how.history);
            let rules = if how.prompt == Prompt::Full { self.worlds.rules(&task.game).map_err(|e| e.to_string())? } else { String::new() };
            let memory = &episode.start.memory;
            let text = how.prompt.text(&rules, memory, &episode.past[from..], &view.seen.observation, &view.actions);
            let choices =
                if how.decode == Decode::Constrained { view.actions.iter().map(|a| self.codes.closed(a)).collect() } else { vec![] };
            let seed = drawn(self.seed, &episode.start, episode.turns.len() as u64);
            requests.push(Request { prompt: self.codes.tokenizer().encode(&text), seed, choices });
        }
        Ok(requests)
    }

    /// What is said in each live episode: by the policy, with the weights that each began with, or by the expert.
    fn said(&mut self, live: &[usize], requests: &[Request]) -> Result<Vec<Result<Said, Fault>>, String> {
        let attempt = |e: &usize| self.episodes.get(e).map_or(0, |episode| episode.start.attempt);
        let (advised, own): (Vec<usize>, Vec<usize>) = (0..live.len()).partition(|&i| self.how.actor.advises(attempt(&live[i])));
        let asked: Vec<usize> = advised.iter().map(|&i| live[i]).collect();
        let advised = advised.into_iter().zip(self.worlds.expert(&asked).map_err(|e| e.to_string())?);
        let mut said: BTreeMap<usize, Result<Said, Fault>> = BTreeMap::new();
        for (i, answer) in advised {
            said.insert(i, answer.map(|action| advice(action, self.how.decode, &mut self.codes)));
        }
        let mut by_version: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (i, e) in own.into_iter().map(|i| (i, &live[i])) {
            by_version.entry(self.episodes.get(e).map_or(0, |episode| episode.start.version)).or_default().push(i);
        }
        for (version, which) in by_version {
            let asked = which.iter().map(|&i| requests[i].clone()).collect();
            let replies = self.policy.generate(&self.how.model, version, asked, self.how.sampling.clone()).map_err(|e| e.to_string())?;
            let told = |r: Reply| Ok((self.codes.tokenizer().decode(&r.tokens), r.tokens, r.logprobs));
            said.extend(which.into_iter().zip(replies.into_iter().map(told)));
        }
        Ok(said.into_values().collect())
    }

    fn fail(&mut self, e: usize, fault: Fault) {
        if let Some(episode) = self.episodes.get_mut(&e) {
            self.tries.failed(e, episode.turns.len() as u32, fault);
            episode.begin(None);
        }
    }

    /// Takes an episode out that has ended by itself.
    fn end(&mut self, number: usize, outcome: String) -> Option<Ended> {
        let Episode { start, turns, score, .. } = self.episodes.remove(&number)?;
        self.tally.turns += turns.len();
        self.tally.won += turns.iter().filter(|t| t.after.won).count();
        self.tally.invalid += turns.iter().filter(|t| !t.after.valid).count();
        self.tally.score += f64::from(score);
        Some(Ended { number, start, turns, outcome })
    }

    /// Takes out what has failed in its last try.
    fn give_up(&mut self) -> Result<Vec<Ended>, String> {
        let mut over = Vec::new();
        for gone in self.tries.given_up() {
            let Some(Episode { start, .. }) = self.episodes.remove(&gone.episode) else { continue };
            self.lost.push(Lost {
                task: start.task.clone(),
                sample: start.sample,
                attempt: start.attempt,
                turn: gone.turn,
                phase: "play",
                node: String::new(),
                cause: gone.fault.cause.name(),
                error: gone.fault.text,
                tries: gone.tries,
            });
            over.push(Ended { number: gone.episode, start, turns: vec![], outcome: String::new() });
        }
        self.tally.failed += over.len();
        self.tally.retried = self.tries.retried;
        if self.tries.too_many() {
            let lost = self.lost();
            return Err(too_many(&self.how, &lost, self.tally.episodes));
        }
        Ok(over)
    }
}

/// A view that a turn can follow on, if the episode isn't over.
fn playable(view: View, play: &Play) -> Result<View, Fault> {
    if play.decode == Decode::Constrained && !view.seen.done && view.actions.is_empty() {
        return Err(Fault::new(Cause::Malformed, "it names no admissible action though the episode isn't over; `decode: free` needs none"));
    }
    Ok(view)
}

/// Why a run stops: how many failed, how many may, and the first of them.
fn too_many(play: &Play, lost: &[Lost], episodes: usize) -> String {
    let Patience { tries, max_failed, .. } = play.patience;
    let first = lost.first().map(|l| format!("{}, sample {}, turn {} ({}): {}", l.task, l.sample, l.turn, l.cause, l.error));
    let (verb, which) = if lost.len() == 1 { ("has", "it is") } else { ("have", "the first is") };
    format!(
        "{} of {episodes} episodes {verb} failed after {tries} tries, more than `max_failed: {max_failed}` allows; {which} {}",
        lost.len(),
        first.unwrap_or_default()
    )
}
