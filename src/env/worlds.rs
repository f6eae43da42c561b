//! Live episodes of any kind, by number: those of our own games here, the others in processes of their own.

use super::fault::guarded;
use super::process::{Ask, Outside, Pool, ProcessError};
use super::view::{Answers, View};
use super::{EnvError, Environment, Fault, Game, Seen, Task};
use std::collections::btree_map::{BTreeMap, Entry};

/// The live episodes of one player. Their numbers are the player's.
#[derive(Default)]
pub struct Worlds {
    outside: Outside,
    here: BTreeMap<usize, Box<dyn Environment>>,
    /// The program that plays an episode.
    there: BTreeMap<usize, String>,
    pools: BTreeMap<String, Pool>,
}

impl Worlds {
    /// `outside` knows how programs are started.
    pub fn new(outside: Outside) -> Worlds {
        Worlds { outside, ..Worlds::default() }
    }

    /// Forgets all episodes; processes live on.
    pub fn clear(&mut self) {
        self.here.clear();
        self.there.clear();
    }

    /// The rules of a game, for the head of a full prompt.
    pub fn rules(&mut self, game: &Game) -> Result<String, EnvError> {
        match game.program() {
            Some(program) => Ok(self.pool(&program.name)?.hello().rules.clone()),
            None => Ok(game.rules()),
        }
    }

    /// Starts episodes, each on its task; a number that is in use is started anew.
    pub fn reset(&mut self, starts: &[(usize, &Task)]) -> Answers<View> {
        let mut asks = Vec::new();
        let mut answers = BTreeMap::new();
        for (episode, task) in starts {
            match task.game.program() {
                Some(program) => {
                    self.there.insert(*episode, program.name.clone());
                    asks.push((*episode, Ask::Reset(task)));
                }
                None => {
                    let mut made = task.make()?;
                    answers.insert(*episode, guarded(|| made.reset()));
                    self.here.insert(*episode, made);
                }
            }
        }
        self.finish(answers, starts.iter().map(|s| s.0), asks)
    }

    /// Tells an episode's expert what was noted after an earlier attempt; a process has no such expert.
    pub fn tell(&mut self, episode: usize, note: &str) {
        if let Some(env) = self.here.get_mut(&episode) {
            // A panic would show again in the next call, as this episode's.
            let _ = guarded(|| env.told(note));
        }
    }

    /// Carries out an action in each of these episodes.
    pub fn step(&mut self, moves: &[(usize, &str)]) -> Answers<View> {
        let mut asks = Vec::new();
        let mut answers = BTreeMap::new();
        for (episode, action) in moves {
            match self.here.get_mut(episode) {
                Some(env) => drop(answers.insert(*episode, guarded(|| env.step(action)))),
                None => asks.push((*episode, Ask::Step(action))),
            }
        }
        self.finish(answers, moves.iter().map(|m| m.0), asks)
    }

    /// The expert's action in each of these episodes; `None` where it knows no way on.
    pub fn expert(&mut self, episodes: &[usize]) -> Answers<Option<String>> {
        let mut answers = BTreeMap::new();
        let mut asks = Vec::new();
        for episode in episodes {
            match self.here.get_mut(episode) {
                Some(env) => drop(answers.insert(*episode, guarded(|| env.expert()))),
                None => asks.push((*episode, Ask::Expert)),
            }
        }
        self.ask(asks, &mut answers, Pool::expert)?;
        Ok(episodes.iter().filter_map(|e| answers.remove(e)).collect())
    }

    /// The views of our own games with their actions, and those of the processes, in the order in which they were asked for.
    fn finish(
        &mut self,
        shown: BTreeMap<usize, Result<Seen, Fault>>,
        order: impl Iterator<Item = usize>,
        asks: Vec<(usize, Ask)>,
    ) -> Answers<View> {
        let mut answers = BTreeMap::new();
        for (episode, seen) in shown {
            let env = self.here.get(&episode);
            let view = seen.and_then(|seen| guarded(|| View { seen, actions: env.map(|e| e.admissible()).unwrap_or_default() }));
            if view.is_err() {
                // Whatever is left of it may panic once more when it goes.
                let broken = self.here.remove(&episode);
                let _ = guarded(|| drop(broken));
            }
            answers.insert(episode, view);
        }
        self.ask(asks, &mut answers, Pool::view)?;
        Ok(order.filter_map(|e| answers.remove(&e)).collect())
    }

    /// Asks each pool for what belongs to it.
    fn ask<'a, T>(
        &mut self,
        asks: Vec<(usize, Ask<'a>)>,
        answers: &mut BTreeMap<usize, Result<T, Fault>>,
        how: impl Fn(&mut Pool, &[(usize, Ask<'a>)]) -> Answers<T>,
    ) -> Result<(), EnvError> {
        let mut by_name: BTreeMap<String, Vec<(usize, Ask)>> = BTreeMap::new();
        for (episode, ask) in asks {
            let name = self.there.get(&episode).ok_or(EnvError::Unstarted(episode))?;
            by_name.entry(name.clone()).or_default().push((episode, ask));
        }
        for (name, asks) in by_name {
            let given = how(self.pool(&name)?, &asks)?;
            answers.extend(asks.iter().map(|a| a.0).zip(given));
        }
        Ok(())
    }

    /// The processes of a program, started when they are first needed.
    fn pool(&mut self, name: &str) -> Result<&mut Pool, ProcessError> {
        match self.pools.entry(name.into()) {
            Entry::Occupied(pool) => Ok(pool.into_mut()),
            Entry::Vacant(place) => {
                let settings = self.outside.settings(name).ok_or_else(|| ProcessError::Undeclared(name.into()))?;
                Ok(place.insert(Pool::open(settings, self.outside.clone())?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{hushed, Cause};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Panics where it is told to.
    struct Brittle(&'static str);

    impl Brittle {
        fn seen(&self, here: &str) -> Seen {
            assert!(self.0 != here, "{here} broke");
            Seen { observation: here.into(), state: 0, reward: 0.0, done: false, won: false, valid: true }
        }
    }

    impl Environment for Brittle {
        fn reset(&mut self) -> Seen {
            self.seen("reset")
        }
        fn step(&mut self, _: &str) -> Seen {
            self.seen("step")
        }
        fn admissible(&self) -> Vec<String> {
            vec![self.seen("admissible").observation]
        }
        fn expert(&mut self) -> Option<String> {
            Some(self.seen("expert").observation)
        }
    }

    impl Drop for Brittle {
        fn drop(&mut self) {
            if self.0 == "admissible" {
                panic!("and the rest of it, too");
            }
        }
    }

    #[test]
    fn a_panic_costs_its_episode_and_is_not_told_as_a_panic() {
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !hushed(info) {
                TOLD.fetch_add(info.to_string().contains("broke") as usize, Ordering::SeqCst);
                usual(info);
            }
        }));
        let mut worlds = Worlds::default();
        for (episode, place) in ["nowhere", "step", "admissible", "expert"].into_iter().enumerate() {
            worlds.here.insert(episode, Box::new(Brittle(place)));
        }
        let advice = worlds.expert(&[0, 3]).unwrap();
        assert_eq!(advice[0], Ok(Some("expert".into())));
        assert_eq!(advice[1].as_ref().unwrap_err().cause, Cause::Panic);
        let views = worlds.step(&[(0, "x"), (1, "x"), (2, "x")]).unwrap();
        assert_eq!(views[0].as_ref().unwrap().actions, ["admissible"]);
        for (view, place) in views[1..].iter().zip(["step", "admissible"]) {
            let fault = view.as_ref().unwrap_err();
            assert!(fault.own && fault.cause == Cause::Panic);
            assert!(fault.text.starts_with(&format!("{place} broke (src/env/worlds.rs:")), "{}", fault.text);
        }
        assert_eq!(worlds.here.keys().copied().collect::<Vec<_>>(), [0, 3], "what broke in a step is gone");
        let again = Task::parse("minesweeper-4x4-m2-s1").unwrap();
        assert!(worlds.reset(&[(1, &again)]).unwrap()[0].is_ok(), "and its number can be used again");
        assert_eq!(TOLD.load(Ordering::SeqCst), 0);
        assert!(std::panic::catch_unwind(|| panic!("this broke elsewhere")).is_err());
        assert_eq!(TOLD.load(Ordering::SeqCst), 1, "a panic outside environments is told as ever");
    }

    #[test]
    fn a_process_that_no_node_declares_is_named() {
        let task = Task::parse("process-corridor-s1").unwrap();
        assert!(Worlds::default().reset(&[(0, &task)]).unwrap_err().to_string().contains("how to start the process `corridor`"));
    }
}
