//! A task: a game with a seed, its name, which says both, and what it is for, which the seed says.

use super::game::Game;
use super::registry;
use super::{EnvError, Environment};
use crate::seed::{mix, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One task: what an episode is played on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub game: Game,
    /// What decides everything that the game leaves open.
    pub seed: u64,
}

impl Task {
    /// The name, made from the content alone, such as `sokoban-6x6-b2-m1-s123`. Settings that keep their usual values may be left out.
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

    /// Hash of all that the seed decides, what a player can't see included: tasks with equal hashes are played alike.
    pub fn board(&self) -> Result<u64, EnvError> {
        self.game.board(self.seed)
    }
}

/// A quarter of a game's boards, dealt by their content: a board is in one split, whatever seeds and settings lead to it. Seeds apart
/// aren't enough on small boards, where two seeds often give the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Split {
    /// To be measured on: what frozen panels are made of.
    Test,
    /// To choose by, or to adapt to after training.
    Dev,
    /// For a warm start, so that training meets boards that it didn't imitate.
    Warmstart,
    /// To be trained on.
    Train,
}

/// The bit of a seed that only tasks of panels have.
pub(super) const PANEL: u64 = 1 << 63;

impl Split {
    const ALL: [Split; 4] = [Split::Test, Split::Dev, Split::Warmstart, Split::Train];

    /// The split of the board with this hash.
    pub fn of(board: u64) -> Split {
        Split::ALL[(mix(board, text("split")) & 3) as usize]
    }

    /// As settings and the names of tasks say it.
    pub fn name(self) -> &'static str {
        match self {
            Split::Test => "test",
            Split::Dev => "dev",
            Split::Warmstart => "warmstart",
            Split::Train => "train",
        }
    }

    /// The split of this name.
    pub(super) fn named(name: &str) -> Option<Split> {
        Split::ALL.into_iter().find(|split| split.name() == name)
    }
}

/// The boards that a task may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// Those of one split.
    Of(Split),
    /// Those of all splits but `test`, where tasks name none.
    Untested,
}

impl Deal {
    /// The boards of a task of this seed. Without a split the seed itself says whether the task is of a panel.
    pub fn of(split: Option<Split>, seed: u64) -> Deal {
        match split {
            Some(split) => Deal::Of(split),
            None if seed & PANEL == 0 => Deal::Untested,
            None => Deal::Of(Split::Test),
        }
    }

    /// Whether the board with this hash is one of them.
    pub fn owns(self, board: u64) -> bool {
        self.has(Split::of(board))
    }

    /// Whether the boards of this split are among them.
    pub fn has(self, split: Split) -> bool {
        match self {
            Deal::Of(own) => own == split,
            Deal::Untested => split != Split::Test,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};
    use std::collections::BTreeSet;

    fn read(with: Value) -> Game {
        let Value::Object(mut with) = with else { panic!("a map is wanted") };
        let env = with.remove("env").unwrap();
        Game::read(env.as_str().unwrap(), with).unwrap()
    }

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
            let task = Task { game: read(with), seed: 123 };
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

    /// 4x4 boards with three mines are few: 7,248, of which two seeds often give the same one. A split's tasks, a panel of it and what
    /// needs no split know only their own.
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
                assert!((6_800..=7_248).contains(&all.len()), "{} boards of 7,248", all.len());
            }
        }
    }
}
