//! Several processes of one program, and the episodes in them. A process is a failure domain: when it ends, the
//! episodes that it held are started again.

use super::answer;
use super::error::{ProcessError, StartError};
use super::hello::Hello;
use super::programs::Programs;
use super::request::{EpisodeRequest, Listing};
use super::slot::{AnsweredRequest, FailedStart, ProcessSlot, RequestKind, StartingProcess};
use super::ProcessSettings;
use crate::view::EpisodeView;
use crate::{Act, Cause, Fault};
use crossbeam_channel::Select;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How many times starting a process is tried.
const STARTS: usize = 3;

/// How many times, for each slot, processes may be restarted without any episode ending: without this limit a program
/// that fails in every episode would be restarted for ever.
const REVIVALS: usize = 20;

/// The processes of one program.
pub struct Pool {
    settings: ProcessSettings,
    programs: Programs,
    hello: Hello,
    places: Vec<ProcessSlot>,
    episodes: BTreeMap<usize, RunningEpisode>,
    /// Answers that are known without asking a process.
    known: Vec<(usize, EpisodeAnswer)>,
    /// Processes that were restarted since the last episode ended.
    revived: usize,
}

/// An episode in one of the processes.
struct RunningEpisode {
    place: usize,
    /// Which of the slot's processes it was started in.
    life: u64,
    /// Whether its actions are to be listed.
    listed: bool,
    /// The list of actions in the last answer that had one.
    list: Option<Vec<String>>,
}

/// The answer to a request about an episode.
#[derive(Debug)]
pub enum EpisodeAnswer {
    View(Result<EpisodeView, Fault>),
    Advice(Result<Option<String>, Fault>),
}

impl Pool {
    /// Starts all processes and waits for their answers to `hello`.
    pub fn open(settings: ProcessSettings, programs: Programs) -> Result<Pool, ProcessError> {
        let places = (0..settings.processes.max(1)).map(|_| ProcessSlot::default()).collect();
        let mut pool =
            Pool { settings, programs, hello: Hello::default(), places, episodes: BTreeMap::new(), known: Vec::new(), revived: 0 };
        // A process that was killed is no broken program. Whatever else is wrong with the first start is wrong with the
        // next.
        let hellos = pool.revive(&(0..pool.places.len()).collect::<Vec<_>>(), |failed| failed.killed)?;
        pool.hello = hellos.into_iter().next().unwrap_or_default();
        Ok(pool)
    }

    /// The program's answer to `hello`.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// How many more episodes can be begun now, if that is limited.
    pub fn room(&self) -> Option<usize> {
        let live = self.hello.live?;
        // A program may say that it plays any number.
        Some(self.places.iter().map(|place| place.room(live)).fold(0, usize::saturating_add))
    }

    /// Begins episodes, without waiting for their observations; `listed` says whether their actions are to be named. A
    /// number that is in use is begun anew. No more may be begun than there is [`Pool::room`] for.
    pub fn begin(&mut self, starts: &[(usize, EpisodeRequest, bool)]) -> Result<(), ProcessError> {
        let mut places = Vec::with_capacity(starts.len());
        for (episode, _, listed) in starts {
            self.forget(*episode);
            let place = self.free(*episode);
            self.places[place].live.insert(*episode);
            self.episodes.insert(*episode, RunningEpisode { place, life: 0, listed: *listed && self.hello.actions, list: None });
            places.push(place);
        }
        let mut empty: Vec<usize> = places.into_iter().filter(|place| self.places[*place].empty()).collect();
        empty.sort_unstable();
        empty.dedup();
        self.revived += empty.iter().filter(|place| self.places[**place].life() > 0).count();
        if self.revived > REVIVALS * self.places.len() {
            let why = format!("its processes were started again {} times, and no episode came to its end", self.revived);
            return Err(
                self.unplayable(self.places.iter().find_map(|place| place.words()).map_or(why.clone(), |last| format!("{why}; {last}")))
            );
        }
        let live_before: Vec<_> = empty.iter().map(|place| (*place, std::mem::take(&mut self.places[*place].live))).collect();
        self.revive(&empty, |_| true)?;
        live_before.into_iter().for_each(|(place, live)| self.places[place].live = live);
        for (episode, ..) in starts {
            if let Some(live) = self.episodes.get_mut(episode) {
                live.life = self.places[live.place].life();
            }
        }
        self.ask(starts.iter().map(|(episode, ask, _)| (*episode, *ask)));
        Ok(())
    }

    /// Carries out an action in each of these episodes, without waiting for the views; where the third element is true,
    /// the program's expert is also asked for the action that comes next.
    pub fn step(&mut self, moves: &[(usize, Act, bool)]) {
        self.ask(moves.iter().flat_map(|(episode, action, expert)| {
            let asks = [Some(EpisodeRequest::Step(*action)), expert.then_some(EpisodeRequest::Expert)];
            asks.into_iter().flatten().map(|ask| (*episode, ask))
        }));
    }

    /// Asks what the program's expert would do in each of these episodes, without waiting for it.
    pub fn advise(&mut self, episodes: &[usize]) -> Result<(), ProcessError> {
        if !self.hello.expert {
            return Err(ProcessError::NoExpert(self.settings.name.clone()));
        }
        self.ask(episodes.iter().map(|episode| (*episode, EpisodeRequest::Expert)));
        Ok(())
    }

    /// Says that these episodes are over, so that the program can make room.
    pub fn close(&mut self, episodes: &[usize]) {
        let open: Vec<usize> = episodes.iter().copied().filter(|episode| self.is_running(*episode)).collect();
        if !open.is_empty() {
            self.revived = 0;
        }
        for live in open.iter().filter_map(|episode| self.episodes.get(episode)) {
            self.places[live.place].came_to_an_end();
        }
        self.ask(open.iter().map(|episode| (*episode, EpisodeRequest::Close)));
        episodes.iter().for_each(|episode| self.forget(*episode));
    }

    /// Whether an answer is pending.
    pub fn busy(&self) -> bool {
        !self.known.is_empty() || self.places.iter().any(ProcessSlot::busy)
    }

    /// The answers that have arrived.
    pub fn answers(&mut self) -> Vec<(usize, EpisodeAnswer)> {
        let mut answers = std::mem::take(&mut self.known);
        let closed: Vec<AnsweredRequest> = self.places.iter_mut().flat_map(|place| place.collect(&self.settings)).collect();
        answers.extend(closed.into_iter().filter_map(|closed| self.read(closed)));
        answers
    }

    /// Reads an answer; none for the answer to a `close`.
    fn read(&mut self, (open, answer): AnsweredRequest) -> Option<(usize, EpisodeAnswer)> {
        let mut list = None;
        let request = format!("process `{}`, `{}` of episode {}", self.settings.name, open.kind.request(), open.episode);
        let with_request = |fault: Fault| Fault { text: format!("{request}: {}", fault.text), ..fault };
        let list = self.episodes.get_mut(&open.episode).map_or(&mut list, |live| &mut live.list);
        let view = |answer: Result<Value, Fault>, step, list| {
            EpisodeAnswer::View(answer.and_then(|value| answer::view(value, step, list)).map_err(with_request))
        };
        let read = match open.kind {
            RequestKind::Start => view(answer, false, list),
            RequestKind::Step => view(answer, true, list),
            RequestKind::Advice => EpisodeAnswer::Advice(answer.and_then(answer::advice).map_err(with_request)),
            RequestKind::Close => return None,
        };
        Some((open.episode, read))
    }

    /// Sends each request to the process of its episode; an episode whose process is gone has its answer at once.
    fn ask<'a>(&mut self, asks: impl Iterator<Item = (usize, EpisodeRequest<'a>)>) {
        let mut requests: Vec<Vec<(usize, RequestKind, Value)>> = self.places.iter().map(|_| Vec::new()).collect();
        for (episode, ask) in asks {
            let kind = match ask {
                EpisodeRequest::Reset(_) => RequestKind::Start,
                EpisodeRequest::Step(_) => RequestKind::Step,
                EpisodeRequest::Expert => RequestKind::Advice,
                EpisodeRequest::Close => RequestKind::Close,
            };
            if !self.is_running(episode) {
                let place = self.episodes.get(&episode).map(|live| &self.places[live.place]);
                let text = place.and_then(ProcessSlot::words).unwrap_or("the process it was played in ended");
                let gone = Fault::new(Cause::Crash, text);
                // Where no episode caused it, each episode in the process has used a try: else none would ever run out
                // of tries.
                let gone = if place.is_some_and(ProcessSlot::blameless) { gone } else { gone.of_another() };
                self.known.push((
                    episode,
                    if kind == RequestKind::Advice { EpisodeAnswer::Advice(Err(gone)) } else { EpisodeAnswer::View(Err(gone)) },
                ));
                continue;
            }
            let Some(live) = self.episodes.get(&episode) else { continue };
            let listing = match (live.listed, &live.list) {
                (false, _) => Listing::None,
                (true, None) => Listing::Full,
                (true, Some(_)) => Listing::Change,
            };
            requests[live.place].push((episode, kind, ask.json(episode, listing)));
        }
        self.places.iter_mut().zip(requests).for_each(|(place, requests)| place.send(requests));
    }

    /// Whether an episode is in a process that still runs.
    fn is_running(&self, episode: usize) -> bool {
        let place = |live: &RunningEpisode| !self.places[live.place].empty() && self.places[live.place].life() == live.life;
        self.episodes.get(&episode).is_some_and(place)
    }

    fn forget(&mut self, episode: usize) {
        if let Some(live) = self.episodes.remove(&episode) {
            let place = &mut self.places[live.place];
            if place.life() == live.life {
                place.live.remove(&episode);
                place.ignore(episode);
            }
        }
    }

    /// The slot for a new episode: the one with the most room or, where a process holds any number of them, by
    /// the episode's number.
    fn free(&self, episode: usize) -> usize {
        match self.hello.live {
            None => episode % self.places.len(),
            Some(live) => (0..self.places.len()).min_by_key(|place| Reverse(self.places[*place].room(live))).unwrap_or_default(),
        }
    }

    /// Starts processes in these slots, all at once, each up to [`STARTS`] times while what went wrong is worth another
    /// try. Returns their answers to `hello`.
    fn revive(&mut self, places: &[usize], is_worth: impl Fn(&FailedStart) -> bool) -> Result<Vec<Hello>, ProcessError> {
        let mut hellos = BTreeMap::new();
        let mut why = String::new();
        let mut again = true;
        for _ in 0..STARTS {
            if !again {
                break;
            }
            let missing: Vec<usize> = places.iter().copied().filter(|p| !hellos.contains_key(p)).collect();
            let begin = |place| StartingProcess::new(&self.settings, &self.programs).map(|starting| (place, starting));
            let begun: Result<Vec<(usize, StartingProcess)>, StartError> = missing.into_iter().map(begin).collect();
            for (place, starting) in begun.map_err(|why| self.unplayable(why.to_string()))? {
                match starting.greeted() {
                    Ok((child, hello)) => {
                        self.places[place].take(child, hello.unordered);
                        hellos.insert(place, hello);
                    }
                    Err(failed) => {
                        again &= is_worth(&failed);
                        why = failed.fault.text;
                    }
                }
            }
        }
        if hellos.len() < places.len() {
            return Err(self.unplayable(why));
        }
        Ok(hellos.into_values().collect())
    }

    fn unplayable(&self, why: String) -> ProcessError {
        ProcessError::Unplayable { name: self.settings.name.clone(), command: self.settings.command.join(" "), why }
    }
}

/// Waits until one of these pools has an answer, or one of their processes is late, or until then.
pub fn wait<'a>(pools: impl Iterator<Item = &'a Pool>, until: Option<Instant>) {
    let mut select = Select::new();
    let mut soonest = until;
    for pool in pools {
        let limit = Duration::from_secs_f64(pool.settings.seconds);
        for (output, late) in pool.places.iter().filter_map(|place| place.awaited(limit)) {
            select.recv(output);
            soonest = Some(soonest.map_or(late, |soonest| soonest.min(late)));
        }
    }
    if let Some(until) = soonest {
        let _ = select.ready_deadline(until);
    }
}

#[cfg(test)]
#[path = "broken_tests.rs"]
mod broken_tests;
#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
