//! A control experiment for notes: each trial reads the notes of another task. The value of a trial's own notes is what
//! it wins beyond that.

use super::episode::EpisodeStart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The task that an episode's notes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotesOwner {
    /// Its own.
    #[default]
    Own,
    /// Another task's: a control, which says what notes are worth that are of no use.
    Another,
}

/// The attempts of an iteration, held until it is known which trials continue: only then can notes be exchanged
/// deterministically.
#[derive(Default)]
pub struct Exchange {
    attempts: BTreeMap<u32, AttemptCount>,
    waiting: BTreeMap<u32, Vec<(u64, EpisodeStart)>>,
}

/// The episodes of an attempt.
#[derive(Default)]
struct AttemptCount {
    begun: usize,
    ended: usize,
    /// Attempts that another attempt follows.
    followed: usize,
}

impl Exchange {
    /// Counts episodes of this attempt that were begun.
    pub fn begun(&mut self, attempt: u32, episodes: usize) {
        self.attempts.entry(attempt).or_default().begun += episodes;
    }

    /// Counts one that has ended.
    pub fn ended(&mut self, attempt: u32, followed: bool) {
        let count = self.attempts.entry(attempt).or_default();
        (count.ended, count.followed) = (count.ended + 1, count.followed + usize::from(followed));
    }

    /// Holds these episodes of a piece until all of their attempt are there.
    pub fn hold(&mut self, piece: u64, starts: Vec<EpisodeStart>) {
        starts.into_iter().for_each(|start| self.waiting.entry(start.attempt).or_default().push((piece, start)));
    }

    /// The episodes that can begin now, in the order of their names, each with the notes of the next one of another
    /// task.
    pub fn due(&mut self) -> Vec<(u64, EpisodeStart)> {
        let complete = |(attempt, waiting): (&u32, &Vec<(u64, EpisodeStart)>)| {
            let before = self.attempts.get(&attempt.checked_sub(1)?)?;
            (before.ended == before.begun && waiting.len() == before.followed).then_some(*attempt)
        };
        let Some(attempt) = self.waiting.iter().find_map(complete) else { return vec![] };
        let mut due = self.waiting.remove(&attempt).unwrap_or_default();
        due.sort_by(|(_, a), (_, b)| (&a.task, a.sample).cmp(&(&b.task, b.sample)));
        let other = |i: usize| (1..due.len()).map(|step| &due[(i + step) % due.len()].1).find(|start| start.task != due[i].1.task);
        let memories: Vec<String> = (0..due.len()).map(|i| other(i).map_or(String::new(), |start| start.memory.clone())).collect();
        due.iter_mut().zip(memories).for_each(|((_, start), memory)| start.memory = memory);
        self.begun(attempt, due.len());
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(task: &str, sample: u32, attempt: u32, memory: &str) -> EpisodeStart {
        EpisodeStart { task: task.into(), sample, attempt, memory: memory.into(), iteration: 0, version: 0 }
    }

    fn dealt(due: &[(u64, EpisodeStart)]) -> Vec<(u64, &str, u32, &str)> {
        due.iter().map(|(piece, start)| (*piece, start.task.as_str(), start.sample, start.memory.as_str())).collect()
    }

    #[test]
    fn notes_change_hands_once_it_is_known_who_goes_on() {
        let mut exchange = Exchange::default();
        exchange.begun(0, 5);
        for followed in [true, false, true, true] {
            exchange.ended(0, followed);
        }
        exchange.hold(7, vec![start("b", 0, 1, "b0"), start("a", 1, 1, "a1")]);
        exchange.hold(8, vec![start("a", 0, 1, "a0")]);
        assert!(exchange.due().is_empty(), "one is still being played, and might go on");
        exchange.ended(0, true);
        assert!(exchange.due().is_empty(), "its note isn't written yet");
        exchange.hold(9, vec![start("c", 0, 1, "c0")]);
        let due = exchange.due();
        assert_eq!(dealt(&due), [(8, "a", 0, "b0"), (7, "a", 1, "b0"), (7, "b", 0, "c0"), (9, "c", 0, "a0")]);
        assert!(exchange.due().is_empty());
        // The next attempt waits for these four in turn; where one task alone goes on, nobody else's note is there.
        [false, true, false, false].into_iter().for_each(|followed| exchange.ended(1, followed));
        exchange.hold(10, vec![start("a", 1, 2, "a1")]);
        assert_eq!(dealt(&exchange.due()), [(10, "a", 1, "")]);
    }
}
