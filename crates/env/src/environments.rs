//! Live episodes by number: those of the built-in games run in this process, the others in processes of their own.
//!
//! Resets and steps don't wait; their views are collected as they arrive. So the policy can answer the episodes that
//! are ready while slow environments still work.

use super::local::LocalEpisodes;
use super::process::{wait, EpisodeAnswer, EpisodeRequest, Pool, ProcessError, Programs};
use super::view::{EpisodeResults, EpisodeView};
use super::{Act, EnvError, Fault, Game, Task};
use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The live episodes of one sampler, which chooses their numbers.
#[derive(Default)]
pub struct Environments {
    programs: Programs,
    local: LocalEpisodes,
    /// The program that plays an episode.
    remote_program: BTreeMap<usize, String>,
    pools: BTreeMap<String, Pool>,
    /// Episodes whose next view is still to come.
    waiting: BTreeSet<usize>,
    views: Vec<(usize, Result<EpisodeView, Fault>)>,
    advice: BTreeMap<usize, Result<Option<String>, Fault>>,
    /// Episodes that an expert plays in a process, each with whether its next action has already been requested.
    expert_actions: BTreeMap<usize, bool>,
}

/// An episode to be begun: its number, its task, and whether its admissible actions are to be listed. Our own games
/// list them always.
pub type ResetRequest<'a> = (usize, &'a Task, bool);

impl Environments {
    /// `programs` knows how programs are started.
    pub fn new(programs: Programs) -> Environments {
        Environments { programs, ..Environments::default() }
    }

    /// Drops all episodes; processes keep running.
    pub fn clear(&mut self) {
        self.close(&self.remote_program.keys().copied().collect::<Vec<_>>());
        self.local.clear();
        self.waiting.clear();
        self.views.clear();
        self.advice.clear();
        self.expert_actions.clear();
    }

    /// The rules of a game, for the head of a full prompt.
    pub fn rules(&mut self, game: &Game) -> Result<String, EnvError> {
        match game.program() {
            Some(program) => Ok(self.pool(&program.name)?.hello().rules.clone()),
            None => Ok(game.rules()),
        }
    }

    /// How many more episodes of the game can be begun now, if that is limited.
    pub fn room(&mut self, game: &Game) -> Result<Option<usize>, EnvError> {
        match game.program() {
            Some(program) => Ok(self.pool(&program.name)?.room()),
            None => Ok(None),
        }
    }

    /// Whether the calls of one episode may overlap, so that their order of arrival says nothing.
    pub fn parallel(&self, game: &Game) -> bool {
        game.program().and_then(|program| self.pools.get(&program.name)).is_some_and(|pool| pool.hello().parallel)
    }

    /// Begins episodes, each on its task; a number that is in use is begun anew. [`Environments::views`] has what they show.
    pub fn begin(&mut self, starts: &[ResetRequest]) -> Result<(), EnvError> {
        let mut asks: BTreeMap<&str, Vec<(usize, EpisodeRequest, bool)>> = BTreeMap::new();
        for (episode, task, listed) in starts {
            match task.game.program() {
                Some(program) => {
                    self.remote_program.insert(*episode, program.name.clone());
                    self.waiting.insert(*episode);
                    asks.entry(&program.name).or_default().push((*episode, EpisodeRequest::Reset(task), *listed));
                }
                None => {
                    let view = self.local.begin(*episode, task.make()?);
                    self.views.push((*episode, view));
                }
            }
        }
        for (name, asks) in asks {
            self.pool(name)?.begin(&asks)?;
        }
        Ok(())
    }

    /// Carries out an action in each of these episodes. [`Environments::views`] has what they show then. Where a process's
    /// expert was asked before, it is asked again on the same line, so that no separate request is needed.
    pub fn act(&mut self, moves: &[(usize, Act)]) -> Result<(), EnvError> {
        let mut asks: BTreeMap<String, Vec<(usize, Act, bool)>> = BTreeMap::new();
        for (episode, act) in moves {
            let (Act::Action(text) | Act::Answer { text, .. }) = *act else {
                self.waiting.insert(*episode);
                asks.entry(self.program(*episode)?).or_default().push((*episode, *act, false));
                continue;
            };
            match self.local.act(*episode, text) {
                Some(view) => self.views.push((*episode, view)),
                None => {
                    self.waiting.insert(*episode);
                    let expert_actions = self.expert_actions.get_mut(episode).map(|already_asked| *already_asked = true).is_some();
                    asks.entry(self.program(*episode)?).or_default().push((*episode, *act, expert_actions));
                }
            }
        }
        for (name, asks) in asks {
            self.pool(&name)?.step(&asks);
        }
        Ok(())
    }

    /// The views that have arrived, of episodes that were begun or stepped. Doesn't wait.
    pub fn shown(&mut self) -> Vec<(usize, Result<EpisodeView, Fault>)> {
        self.collect();
        std::mem::take(&mut self.views)
    }

    /// The views of episodes that were begun or moved. Waits for the first, if any is to come, and then for the others
    /// until all are there or `patience` is over.
    pub fn views(&mut self, patience: Duration) -> Vec<(usize, Result<EpisodeView, Fault>)> {
        let mut until = None;
        loop {
            self.collect();
            if self.waiting.is_empty() || !self.pools.values().any(Pool::busy) {
                break;
            }
            if !self.views.is_empty() {
                let until = *until.get_or_insert_with(|| Instant::now() + patience);
                if Instant::now() >= until {
                    break;
                }
            }
            wait(self.pools.values(), until);
        }
        std::mem::take(&mut self.views)
    }

    /// Closes these episodes, whether they ended by themselves or were cut short, so that their environments can make
    /// room.
    pub fn close(&mut self, episodes: &[usize]) {
        let mut over: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for episode in episodes {
            self.waiting.remove(episode);
            self.advice.remove(episode);
            self.expert_actions.remove(episode);
            self.local.close(*episode);
            if let Some(name) = self.remote_program.remove(episode) {
                over.entry(name).or_default().push(*episode);
            }
        }
        for (name, episodes) in over {
            if let Some(pool) = self.pools.get_mut(&name) {
                pool.close(&episodes);
            }
        }
    }

    /// Gives an episode's expert the notes on an earlier attempt; a process has no such expert.
    pub fn tell(&mut self, episode: usize, note: &str) {
        self.local.tell(episode, note);
    }

    /// The expert's action in each of these episodes; `None` where it knows no way on.
    pub fn expert(&mut self, episodes: &[usize]) -> EpisodeResults<Option<String>> {
        let mut asks: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for episode in episodes {
            match self.local.expert(*episode) {
                Some(advice) => drop(self.advice.insert(*episode, advice)),
                None if self.expert_actions.get(episode) == Some(&true) => drop(self.expert_actions.insert(*episode, false)),
                None => asks.entry(self.program(*episode)?).or_default().push(*episode),
            }
        }
        for (name, asks) in asks {
            let pool = self.pool(&name)?;
            pool.advise(&asks)?;
            self.expert_actions.extend(asks.into_iter().map(|episode| (episode, false)));
        }
        loop {
            self.collect();
            let missing = episodes.iter().any(|episode| !self.advice.contains_key(episode));
            if !missing || !self.pools.values().any(Pool::busy) {
                break;
            }
            wait(self.pools.values(), None);
        }
        Ok(episodes.iter().filter_map(|e| self.advice.remove(e)).collect())
    }

    /// What the expert of an episode writes in these tagged parts of its answer, beside the action that it gave; a
    /// process's writes nothing.
    pub fn expert_parts(&mut self, episode: usize, tags: &[&str]) -> Vec<Option<String>> {
        tags.iter().map(|tag| self.local.expert_part(episode, tag)).collect()
    }

    /// Begins episodes and waits for the observations of all.
    pub fn reset(&mut self, starts: &[(usize, &Task)]) -> EpisodeResults<EpisodeView> {
        self.begin(&starts.iter().map(|(episode, task)| (*episode, *task, true)).collect::<Vec<_>>())?;
        Ok(self.all(starts.iter().map(|start| start.0)))
    }

    /// Carries out an action in each of these episodes, and waits for the observations of all.
    pub fn step(&mut self, moves: &[(usize, &str)]) -> EpisodeResults<EpisodeView> {
        self.act(&moves.iter().map(|(episode, action)| (*episode, Act::Action(action))).collect::<Vec<_>>())?;
        Ok(self.all(moves.iter().map(|step| step.0)))
    }

    /// The views of these episodes, in this order.
    fn all(&mut self, order: impl Iterator<Item = usize>) -> Vec<Result<EpisodeView, Fault>> {
        let mut views = BTreeMap::new();
        while !self.waiting.is_empty() || !self.views.is_empty() {
            views.extend(self.views(Duration::from_secs(86_400)));
        }
        order.filter_map(|e| views.remove(&e)).collect()
    }

    /// Collects the answers that have arrived from the processes.
    fn collect(&mut self) {
        for (episode, answer) in self.pools.values_mut().flat_map(Pool::answers) {
            match answer {
                EpisodeAnswer::View(view) => {
                    self.waiting.remove(&episode);
                    self.views.push((episode, view));
                }
                EpisodeAnswer::Advice(advice) => drop(self.advice.insert(episode, advice)),
            }
        }
    }

    /// The name of the program that plays an episode.
    fn program(&self, episode: usize) -> Result<String, EnvError> {
        self.remote_program.get(&episode).cloned().ok_or(EnvError::Unstarted(episode))
    }

    /// The processes of a program, started when they are first needed.
    fn pool(&mut self, name: &str) -> Result<&mut Pool, ProcessError> {
        match self.pools.entry(name.into()) {
            Entry::Occupied(pool) => Ok(pool.into_mut()),
            Entry::Vacant(place) => {
                let settings = self.programs.settings(name).ok_or_else(|| ProcessError::Undeclared(name.into()))?;
                Ok(place.insert(Pool::open(settings, self.programs.clone())?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hushed, Cause, Environment, TimeStep};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Panics where it is told to.
    struct Brittle(&'static str);

    impl Brittle {
        fn show(&self, here: &str) -> TimeStep {
            assert!(self.0 != here, "{here} broke");
            TimeStep { observation: here.into(), state: 0, reward: 0.0, done: false, won: false, valid: true }
        }
    }

    impl Environment for Brittle {
        fn reset(&mut self) -> TimeStep {
            self.show("reset")
        }
        fn step(&mut self, _: &str) -> TimeStep {
            self.show("step")
        }
        fn admissible(&self) -> Vec<String> {
            vec![self.show("admissible").observation]
        }
        fn expert(&mut self) -> Option<String> {
            Some(self.show("expert").observation)
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
    fn a_panic_fails_its_episode_and_is_not_printed() {
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !hushed(info) {
                TOLD.fetch_add(info.to_string().contains("broke") as usize, Ordering::SeqCst);
                usual(info);
            }
        }));
        let mut envs = Environments::default();
        for (episode, place) in ["nowhere", "step", "admissible", "expert"].into_iter().enumerate() {
            envs.local.games.insert(episode, Box::new(Brittle(place)));
        }
        let advice = envs.expert(&[0, 3]).unwrap();
        assert_eq!(advice[0], Ok(Some("expert".into())));
        assert_eq!(advice[1].as_ref().unwrap_err().cause, Cause::Panic);
        let views = envs.step(&[(0, "x"), (1, "x"), (2, "x")]).unwrap();
        assert_eq!(views[0].as_ref().unwrap().actions, ["admissible"]);
        for (view, place) in views[1..].iter().zip(["step", "admissible"]) {
            let fault = view.as_ref().unwrap_err();
            assert!(fault.own && fault.cause == Cause::Panic);
            assert!(fault.text.starts_with(&format!("{place} broke (crates/env/src/environments.rs:")), "{}", fault.text);
        }
        assert_eq!(envs.local.games.keys().copied().collect::<Vec<_>>(), [0, 3], "what broke in a step is gone");
        let again = Task::parse("minesweeper-4x4-m2-s1").unwrap();
        assert!(envs.reset(&[(1, &again)]).unwrap()[0].is_ok(), "and its number can be used again");
        assert_eq!(TOLD.load(Ordering::SeqCst), 0);
        assert!(std::panic::catch_unwind(|| panic!("this broke elsewhere")).is_err());
        assert_eq!(TOLD.load(Ordering::SeqCst), 1, "a panic outside environments is told as ever");
    }

    /// Shows how many lines it has read, which its expert would do again; the third step ends an episode.
    const LINES: &str = r#"
import json, sys
for number, line in enumerate(sys.stdin):
    batch = json.loads(line)
    answers = []
    for ask in batch if isinstance(batch, list) else [batch]:
        answer = {"episode": ask.get("episode")}
        if ask["request"] == "hello":
            answer = {"protocol": 2, "splits": {"train": 1}, "abilities": ["expert"]}
        elif ask["request"] == "reset":
            steps, answer["observation"] = 0, str(number)
        elif ask["request"] == "step":
            steps += 1
            answer |= {"observation": str(number), "reward": 0, "done": steps == 3}
        elif ask["request"] == "expert":
            answer |= {"error": "it is over"} if steps == 3 else {"action": f"{number} {steps}"}
        else:
            answer["closed"] = True
        answers.append(answer)
    print(json.dumps(answers if isinstance(batch, list) else answers[0]), flush=True)
"#;

    #[test]
    fn an_expert_is_asked_on_the_line_of_the_step() {
        let (command, programs) = (["python3", "-c", LINES].map(String::from).to_vec(), Programs::default());
        let settings = serde_json::json!({ "command": command, "name": "lines", "seconds": 60, "split": "train" });
        programs.declare(serde_json::from_value(settings).unwrap());
        let mut envs = Environments::new(programs.clone());
        let task = Task::parse("process-lines-train-0-s1").unwrap();
        for first in [1, 7] {
            assert_eq!(envs.reset(&[(7, &task)]).unwrap()[0].as_ref().unwrap().step.observation, first.to_string());
            let advice = |envs: &mut Environments| envs.expert(&[7]).unwrap().remove(0);
            assert_eq!(advice(&mut envs), Ok(Some(format!("{} 0", first + 1))), "asked by itself");
            for step in [1, 2] {
                assert_eq!(envs.step(&[(7, "go")]).unwrap()[0].as_ref().unwrap().step.observation, (first + 1 + step).to_string());
                assert_eq!(advice(&mut envs), Ok(Some(format!("{} {step}", first + 1 + step))), "asked with the step");
            }
            assert!(envs.step(&[(7, "go")]).unwrap()[0].as_ref().unwrap().step.done, "nothing is told of what the expert says now");
            envs.close(&[7]); // one more line
        }
        programs.close();
    }

    #[test]
    fn a_process_that_no_node_declares_is_named() {
        let task = Task::parse("process-corridor-train-0-s1").unwrap();
        assert!(Environments::default().reset(&[(0, &task)]).unwrap_err().to_string().contains("how to start the process `corridor`"));
    }
}
