//! A task: a game with a seed, its name, which says both, and what it is for, which the seed says.

use super::game::Game;
use super::registry;
use super::split::PANEL;
use super::{EnvError, Environment};
use flow_core::seed::{mix, text};

/// One task: what an episode is played on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub game: Game,
    /// What decides everything that the game leaves open.
    pub seed: u64,
}

impl Task {
    /// The name, made from the content alone, such as `sokoban-6x6-b2-m1-s123`. Settings that keep their usual values
    /// may be left out.
    pub fn name(&self) -> String {
        format!("{}-{}-s{}", self.game.env(), self.game.label(), self.seed)
    }

    /// The task that a name means. Only what [`Task::name`] writes is read, so a task has one name.
    pub fn parse(name: &str) -> Result<Task, EnvError> {
        let read = || {
            let (kind, rest) = name.split_once('-')?;
            let (label, seed) = rest.rsplit_once("-s")?;
            let kind = registry::kind(kind)?;
            let task = Task { game: (kind.parse)(kind, label)?, seed: seed.parse().ok()? };
            (task.name() == name).then_some(task)
        };
        read().ok_or_else(|| EnvError::Name(name.into()))
    }

    /// Another task of the game and of the same split, always the same one.
    pub fn another(&self) -> Task {
        let seed = mix(self.seed, text("another")) & !PANEL | self.seed & PANEL;
        Task { game: self.game.clone(), seed }
    }

    /// The environment of this task, not yet reset. A task of a program has none here.
    pub fn make(&self) -> Result<Box<dyn Environment>, EnvError> {
        self.game.make(self.seed)
    }

    /// Hash of all that the seed decides and a player can tell apart by playing: tasks with equal hashes are played
    /// alike.
    pub fn board(&self) -> Result<u64, EnvError> {
        self.game.board(self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::game;
    use crate::TimeStep;
    use serde_json::json;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn names_are_read_back() {
        for (with, expected) in [
            (json!({ "env": "sokoban" }), "sokoban-6x6-b1-m1-s123"),
            (json!({ "env": "sokoban", "boxes": 2, "size": null }), "sokoban-6x6-b2-m1-s123"),
            (
                json!({ "env": "sokoban", "boxes": 2, "moves": 3, "min_moves": 3, "max_moves": 30, "search_depth": 77 }),
                "sokoban-6x6-b2-m3-l3to30-d77-s123",
            ),
            (json!({ "env": "minesweeper", "size": 5 }), "minesweeper-5x5-m3-s123"),
            (json!({ "env": "minesweeper", "size": 5, "split": "dev" }), "minesweeper-5x5-m3-dev-s123"),
            (json!({ "env": "sokoban", "split": "warmstart" }), "sokoban-6x6-b1-m1-warmstart-s123"),
            (json!({ "env": "webshop", "products": 1000, "pays": "win", "split": "train" }), "webshop-p1000-win-train-s123"),
            (json!({ "env": "search", "split": "test" }), "search-d2000-f3-test-s123"),
            (json!({ "env": "doors", "rooms": 3, "expert": "hesitant", "split": "warmstart" }), "doors-d4-r3-hesitant-warmstart-s123"),
        ] {
            let task = Task { game: game(with).unwrap(), seed: 123 };
            assert_eq!(task.name(), expected);
            assert_eq!(Task::parse(expected).unwrap(), task);
        }
        let name = "process-my_game2-train-long/7-s123";
        assert_eq!(Task::parse(name).unwrap().name(), name);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for name in [
            "",
            "sokoban",
            "chess-8x8-s1",
            "sokoban-6x5-b2-m1-s1",
            "sokoban-6x6-b2-m1",
            "sokoban-6x6-m1-b2-s1",
            "minesweeper-6x6-m03-s1",
            "sokoban-6x6-√-s1",
            "sokoban-6x6--s1",
            "process-s1",
            "process--s1",
            "process-my game-s1",
            "process-game-s1",
            "process-game-train-s1",
            "process-game-train-7-s01",
            "process-game-Train-7-s1",
            "minesweeper-6x6-m3-dev-dev-s1",
            "minesweeper-6x6-m3-panel-s1",
            "minesweeper-dev-s1",
        ] {
            assert!(matches!(Task::parse(name), Err(EnvError::Name(_))), "{name}");
        }
    }

    /// 4x4 boards with three mines are few: 7,248 by mines and first cell, 5,952 to a player, and two seeds often give
    /// the same one. A split's tasks, a panel of it and what needs no split know only their own.
    #[test]
    fn no_board_is_in_two_splits() {
        for env in ["minesweeper-4x4-m3", "sokoban-6x6-b1-m3", "webshop-p1000", "search-d500-f3", "doors-d4-r2"] {
            let boards = |split: &str, bits: u64| {
                let own = (0..if env.starts_with("mine") { 6_000 } else { 200 }).map(|i| mix(i, text(split)) & !PANEL | bits);
                own.map(|seed| Task::parse(&format!("{env}{split}-s{seed}")).unwrap().board().unwrap()).collect::<BTreeSet<u64>>()
            };
            let splits: Vec<BTreeSet<u64>> = ["-test", "-dev", "-warmstart", "-train"].iter().map(|split| boards(split, 0)).collect();
            for (i, one) in splits.iter().enumerate() {
                assert!(splits[..i].iter().all(|other| one.is_disjoint(other)), "{env}");
                assert_eq!(
                    boards(["-test", "-dev", "-warmstart", "-train"][i], PANEL)
                        .iter()
                        .filter(|b| splits[..i].iter().any(|s| s.contains(b)))
                        .count(),
                    0
                );
            }
            assert!(boards("", PANEL).is_disjoint(&boards("", 0)) && boards("", 0).is_disjoint(&splits[0]), "{env}");
            if env.starts_with("mine") {
                let all: BTreeSet<u64> = splits.into_iter().flatten().collect();
                assert!((5_700..=5_952).contains(&all.len()), "{} boards of 5,952", all.len());
            }
        }
    }

    /// What a player meets who does this from the start.
    fn played(task: &Task, actions: &[String]) -> Vec<String> {
        let mut env = task.make().unwrap();
        let first = env.reset();
        let steps = actions.iter().map(|action| env.step(action)).collect::<Vec<_>>();
        let told = |step: TimeStep| format!("{} {} {} {} {}", step.observation, step.reward, step.done, step.won, step.valid);
        std::iter::once(first).chain(steps).map(told).collect()
    }

    /// What an expert does.
    fn way(task: &Task) -> Vec<String> {
        let mut env = task.make().unwrap();
        env.reset();
        let mut way = Vec::new();
        while let Some(action) = env.expert().filter(|_| way.len() < 60) {
            env.step(&action);
            way.push(action);
        }
        way
    }

    /// What can be told of a task by its first view and by one step: the words of what is asked, in any order, and what
    /// each action leads to.
    fn signature(task: &Task) -> Vec<String> {
        let mut env = task.make().unwrap();
        let first = env.reset();
        let asked = env.extras().facts.instruction;
        let mut words: Vec<String> = asked.split(|c: char| !c.is_alphanumeric()).map(String::from).collect();
        words.sort_unstable();
        let actions = if env.admissible().len() <= 40 { env.admissible() } else { vec![] };
        let steps = actions.into_iter().flat_map(|action| played(task, &[action]).pop());
        std::iter::once(first.observation).chain(words).chain(steps).collect()
    }

    /// Of every environment that is played here: tasks of two splits differ in what some action leads to.
    #[test]
    fn no_two_splits_have_a_game_that_is_played_alike() {
        for (env, count) in [
            ("minesweeper-4x4-m3", 1500),
            ("minesweeper-4x4-m2", 500),
            ("sokoban-6x6-b1-m1", 150),
            ("webshop-p1000", 120),
            ("search-d100-f3", 500),
            ("doors-d3-r2", 400),
        ] {
            let mut met: BTreeMap<Vec<String>, Vec<(&str, Task)>> = BTreeMap::new();
            for split in ["test", "dev", "warmstart", "train"] {
                for i in 0..count {
                    let task = Task::parse(&format!("{env}-{split}-s{}", mix(i, text(split)) & !PANEL)).unwrap();
                    met.entry(signature(&task)).or_default().push((split, task));
                }
            }
            for alike in met.values() {
                for (i, (split, task)) in alike.iter().enumerate() {
                    for (other, twin) in alike[..i].iter().filter(|(other, _)| other != split) {
                        let differs = |actions: &[String]| played(task, actions) != played(twin, actions);
                        let differ = differs(&way(task)) || differs(&way(twin));
                        assert!(differ, "{} of {split} and {} of {other} are played alike", task.name(), twin.name());
                    }
                }
            }
        }
    }
}
