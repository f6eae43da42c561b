//! Several processes of one program, and the episodes in them. A process is one domain of failure: what it held when it ended
//! is started again.

use super::answer;
use super::error::{ProcessError, StartError};
use super::hello::{Hello, Version};
use super::outside::Outside;
use super::place::{Closed, Place, Starting, Wanted};
use super::request::{Ask, Listing};
use super::ProcessSettings;
use crate::env::view::View;
use crate::env::{Cause, Fault};
use crossbeam_channel::Select;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often a process is started before it is given up.
const STARTS: usize = 3;

/// How often each place may be filled again before any episode is over: a program that breaks in every one would be started for ever.
const REVIVALS: usize = 20;

/// The processes of one program.
pub struct Pool {
    settings: ProcessSettings,
    outside: Outside,
    hello: Hello,
    places: Vec<Place>,
    episodes: BTreeMap<usize, Live>,
    /// Answers that needed no process.
    known: Vec<(usize, Answer)>,
    /// Processes that were started again since an episode was last over.
    revived: usize,
}

/// An episode in one of the processes.
struct Live {
    place: usize,
    /// In which life of the place it was begun.
    life: u64,
    /// Whether its actions are to be listed.
    listed: bool,
    /// The list that was given last.
    list: Option<Vec<String>>,
}

/// An answer to what was asked of an episode.
#[derive(Debug)]
pub enum Answer {
    View(Result<View, Fault>),
    Advice(Result<Option<String>, Fault>),
}

impl Pool {
    /// Starts all processes and waits for them to say hello.
    pub fn open(settings: ProcessSettings, outside: Outside) -> Result<Pool, ProcessError> {
        let places = (0..settings.processes.max(1)).map(|_| Place::default()).collect();
        let mut pool =
            Pool { settings, outside, hello: Hello::default(), places, episodes: BTreeMap::new(), known: Vec::new(), revived: 0 };
        let said = pool.revive(&(0..pool.places.len()).collect::<Vec<_>>(), 1)?;
        pool.hello = said.into_iter().next().unwrap_or_default();
        Ok(pool)
    }

    /// What the program says of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// How many more episodes can be begun now, if that is limited.
    pub fn room(&self) -> Option<usize> {
        let live = self.hello.live?;
        // A program may say that it plays any number.
        Some(self.places.iter().map(|place| live.saturating_sub(place.live.len())).fold(0, usize::saturating_add))
    }

    /// Begins episodes, without waiting for what they show; `listed` says whether their actions are to be named. A number that is in use
    /// is begun anew. No more may be begun than there is [`Pool::room`] for.
    pub fn begin(&mut self, starts: &[(usize, Ask, bool)]) -> Result<(), ProcessError> {
        let mut places = Vec::with_capacity(starts.len());
        for (episode, _, listed) in starts {
            self.forget(*episode);
            let place = self.free(*episode);
            self.places[place].live.insert(*episode);
            self.episodes.insert(*episode, Live { place, life: 0, listed: *listed && self.hello.actions, list: None });
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
        let held: Vec<_> = empty.iter().map(|place| (*place, std::mem::take(&mut self.places[*place].live))).collect();
        self.revive(&empty, STARTS)?;
        held.into_iter().for_each(|(place, live)| self.places[place].live = live);
        for (episode, ..) in starts {
            if let Some(live) = self.episodes.get_mut(episode) {
                live.life = self.places[live.place].life();
            }
        }
        self.ask(starts.iter().map(|(episode, ask, _)| (*episode, *ask)));
        Ok(())
    }

    /// Carries out an action in each of these episodes, without waiting for what they show; where it says so, the program's expert is asked
    /// as well what it would do then.
    pub fn step(&mut self, moves: &[(usize, &str, bool)]) {
        self.ask(moves.iter().flat_map(|(episode, action, led)| {
            let asks = [Some(Ask::Step(action)), led.then_some(Ask::Expert)];
            asks.into_iter().flatten().map(|ask| (*episode, ask))
        }));
    }

    /// Asks what the program's expert would do in each of these episodes, without waiting for it.
    pub fn advise(&mut self, episodes: &[usize]) -> Result<(), ProcessError> {
        if !self.hello.expert {
            return Err(ProcessError::NoExpert(self.settings.name.clone()));
        }
        self.ask(episodes.iter().map(|episode| (*episode, Ask::Expert)));
        Ok(())
    }

    /// Says that these episodes are over, so that the program can make room.
    pub fn close(&mut self, episodes: &[usize]) {
        let open: Vec<usize> = episodes.iter().copied().filter(|episode| self.held(*episode)).collect();
        if !open.is_empty() {
            self.revived = 0;
        }
        if self.hello.version == Version::Two {
            self.ask(open.iter().map(|episode| (*episode, Ask::Close)));
        }
        episodes.iter().for_each(|episode| self.forget(*episode));
    }

    /// Whether an answer is still to come.
    pub fn busy(&self) -> bool {
        !self.known.is_empty() || self.places.iter().any(Place::busy)
    }

    /// The answers that are there by now.
    pub fn answers(&mut self) -> Vec<(usize, Answer)> {
        let mut answers = std::mem::take(&mut self.known);
        let closed: Vec<Closed> = self.places.iter_mut().flat_map(|place| place.collect(&self.settings, self.hello.version)).collect();
        answers.extend(closed.into_iter().filter_map(|closed| self.read(closed)));
        answers
    }

    /// Reads an answer; there is nothing to read where an episode is over.
    fn read(&mut self, (open, answer): Closed) -> Option<(usize, Answer)> {
        let (version, mut list) = (self.hello.version, None);
        let asked = format!("process `{}`, `{}` of episode {}", self.settings.name, open.wanted.request(), open.episode);
        let told = |fault: Fault| Fault { text: format!("{asked}: {}", fault.text), ..fault };
        let list = self.episodes.get_mut(&open.episode).map_or(&mut list, |live| &mut live.list);
        let view = |answer: Result<Value, Fault>, step, list| {
            Answer::View(answer.and_then(|value| answer::view(value, step, version, list)).map_err(told))
        };
        let read = match open.wanted {
            Wanted::Start => view(answer, false, list),
            Wanted::Step => view(answer, true, list),
            Wanted::Advice => Answer::Advice(answer.and_then(answer::advice).map_err(told)),
            Wanted::Close => return None,
        };
        Some((open.episode, read))
    }

    /// Sends each request to the process of its episode; an episode whose process is gone has its answer at once.
    fn ask<'a>(&mut self, asks: impl Iterator<Item = (usize, Ask<'a>)>) {
        let version = self.hello.version;
        let mut requests: Vec<Vec<(usize, Wanted, Value)>> = self.places.iter().map(|_| Vec::new()).collect();
        for (episode, ask) in asks {
            let wanted = match ask {
                Ask::Reset(_) => Wanted::Start,
                Ask::Step(_) => Wanted::Step,
                Ask::Expert => Wanted::Advice,
                Ask::Close => Wanted::Close,
            };
            if !self.held(episode) {
                let place = self.episodes.get(&episode).map(|live| &self.places[live.place]);
                let text = place.and_then(Place::words).unwrap_or("the process it was played in ended");
                let gone = Fault::new(Cause::Crash, text);
                // Where nobody was to blame, each who was in it has had a try: else nobody would ever have had one.
                let gone = if place.is_some_and(Place::blameless) { gone } else { gone.of_another() };
                self.known.push((episode, if wanted == Wanted::Advice { Answer::Advice(Err(gone)) } else { Answer::View(Err(gone)) }));
                continue;
            }
            let Some(live) = self.episodes.get(&episode) else { continue };
            let listing = match (live.listed, &live.list) {
                (false, _) => Listing::None,
                (true, None) => Listing::Full,
                (true, Some(_)) => Listing::Change,
            };
            requests[live.place].push((episode, wanted, ask.json(episode, listing, version)));
        }
        self.places.iter_mut().zip(requests).for_each(|(place, requests)| place.send(requests, version));
    }

    /// Whether an episode is in a process that still runs.
    fn held(&self, episode: usize) -> bool {
        let place = |live: &Live| !self.places[live.place].empty() && self.places[live.place].life() == live.life;
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

    /// The place for a new episode: the one with the fewest, or where any number may live together that of its number.
    fn free(&self, episode: usize) -> usize {
        match self.hello.live {
            None => episode % self.places.len(),
            Some(_) => (0..self.places.len()).min_by_key(|place| self.places[*place].live.len()).unwrap_or_default(),
        }
    }

    /// Starts processes in these places, all at a time, each up to `tries` times. Gives what they say.
    fn revive(&mut self, places: &[usize], tries: usize) -> Result<Vec<Hello>, ProcessError> {
        let mut said = BTreeMap::new();
        let mut why = String::new();
        for _ in 0..tries {
            let missing: Vec<usize> = places.iter().copied().filter(|p| !said.contains_key(p)).collect();
            let begin = |place| Starting::new(&self.settings, &self.outside).map(|starting| (place, starting));
            let begun: Result<Vec<(usize, Starting)>, StartError> = missing.into_iter().map(begin).collect();
            for (place, starting) in begun.map_err(|why| self.unplayable(why.to_string()))? {
                match starting.greeted() {
                    Ok((child, hello)) => {
                        said.insert(place, hello);
                        self.places[place].take(child);
                    }
                    Err(fault) => why = fault.text,
                }
            }
        }
        if said.len() < places.len() {
            return Err(self.unplayable(why));
        }
        Ok(said.into_values().collect())
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
