//! Several processes of one program, and the episodes in them. A process is one domain of failure: what it held when it ended
//! is started again.

use super::error::StartError;
use super::outside::Outside;
use super::place::{Place, Starting};
use super::protocol::{self, Ask, Hello};
use super::{ProcessError, ProcessSettings};
use crate::env::view::{Answers, View};
use crate::env::{Cause, Fault};
use serde_json::Value;
use std::collections::BTreeMap;

/// How often a process is started before it is given up.
const STARTS: usize = 3;

/// The processes of one program. The episode with number n lives in process n modulo their count.
pub struct Pool {
    settings: ProcessSettings,
    outside: Outside,
    hello: Hello,
    places: Vec<Place>,
    /// In which life of its place an episode was started.
    started: BTreeMap<usize, u64>,
}

impl Pool {
    /// Starts all processes and waits for them to say hello.
    pub fn open(settings: ProcessSettings, outside: Outside) -> Result<Pool, ProcessError> {
        let places = (0..settings.processes.max(1)).map(|_| Place::default()).collect();
        let mut pool = Pool { settings, outside, hello: Hello::default(), places, started: BTreeMap::new() };
        let said = pool.revive(&(0..pool.places.len()).collect::<Vec<_>>(), 1)?;
        pool.hello = said.into_iter().next().unwrap_or_default();
        Ok(pool)
    }

    /// What the program says of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// What each of these episodes shows after what is asked of it, all of it a reset or a step.
    pub fn view(&mut self, asks: &[(usize, Ask)]) -> Answers<View> {
        let step = asks.iter().any(|(_, ask)| matches!(ask, Ask::Step(_)));
        self.ask(asks, |value| protocol::view(value, step))
    }

    /// What the program's expert would do in each of these episodes.
    pub fn expert(&mut self, asks: &[(usize, Ask)]) -> Answers<Option<String>> {
        if !self.hello.expert {
            return Err(ProcessError::NoExpert(self.settings.name.clone()).into());
        }
        self.ask(asks, protocol::advice)
    }

    /// Asks all processes at once, then collects what they answer.
    fn ask<T>(&mut self, asks: &[(usize, Ask)], read: impl Fn(Value) -> Result<T, Fault>) -> Answers<T> {
        self.fill(asks)?;
        let mut answers: Vec<Option<Result<T, Fault>>> = asks.iter().map(|_| None).collect();
        let open = self.send(asks, &mut answers);
        for (place, mut open) in self.places.iter_mut().zip(open) {
            while !open.is_empty() {
                let answer = place.answer(self.settings.seconds).and_then(|(episode, value)| {
                    let at = open.iter().position(|i| asks[*i].0 == episode);
                    let unasked = || format!("it answered for episode {episode}, of which nothing was asked");
                    at.map(|at| (at, value)).ok_or_else(|| place.end(Cause::Malformed, unasked()))
                });
                match answer {
                    Ok((at, value)) => answers[open.remove(at)] = Some(read(value)),
                    // The oldest open request is taken for the reason; the others only shared the process.
                    Err(fault) => {
                        for (nth, i) in open.drain(..).enumerate() {
                            answers[i] = Some(Err(if nth == 0 { fault.clone() } else { fault.of_another() }));
                        }
                    }
                }
            }
        }
        Ok(answers.into_iter().map(|a| a.unwrap_or_else(|| Err(Fault::new(Cause::Crash, "its process is gone").of_another()))).collect())
    }

    /// Starts processes in the empty places where an episode is to be reset.
    fn fill(&mut self, asks: &[(usize, Ask)]) -> Result<(), ProcessError> {
        let count = self.places.len();
        let resets = |place: usize| asks.iter().any(|(episode, ask)| episode % count == place && matches!(ask, Ask::Reset(_)));
        let empty: Vec<usize> = (0..count).filter(|place| self.places[*place].empty() && resets(*place)).collect();
        self.revive(&empty, STARTS).map(drop)
    }

    /// Sends each request to the process of its episode. Gives, for each process, which requests it has to answer, the oldest
    /// first; an episode whose process is gone has its answer already.
    fn send<T>(&mut self, asks: &[(usize, Ask)], answers: &mut [Option<Result<T, Fault>>]) -> Vec<Vec<usize>> {
        let count = self.places.len();
        let mut open: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut lines: Vec<Vec<u8>> = vec![Vec::new(); count];
        for (i, (episode, ask)) in asks.iter().enumerate() {
            let place = &self.places[episode % count];
            if matches!(ask, Ask::Reset(_)) {
                self.started.insert(*episode, place.life());
            }
            if place.empty() || self.started.get(episode) != Some(&place.life()) {
                answers[i] = Some(Err(Fault::new(Cause::Crash, "the process it was played in ended").of_another()));
                continue;
            }
            lines[episode % count].extend(ask.line(*episode));
            open[episode % count].push(i);
        }
        self.places.iter_mut().zip(lines).for_each(|(place, lines)| place.send(lines));
        open
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

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
