//! A task: a game with a seed, its name, which says both, and what it is for, which the seed says.

use super::game::Game;
use super::registry;
use super::{EnvError, Environment};
use crate::seed::{mix, text};

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

/// What a task is for. The top bit of a task's seed says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    Train,
    Panel,
}

/// The bit of a seed that only tasks of panels have.
pub(super) const PANEL: u64 = 1 << 63;

impl Split {
    /// What the task of this seed is for.
    pub fn of(seed: u64) -> Split {
        if seed & PANEL == 0 {
            Split::Train
        } else {
            Split::Panel
        }
    }

    /// Whether a board with this hash is dealt to this split: a quarter of all boards goes to panels. Seeds apart aren't
    /// enough on small boards, where two seeds often give the same one.
    pub fn owns(self, board: u64) -> bool {
        (mix(board, text("split")) & 3 == 0) == (self == Split::Panel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

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
        ] {
            assert!(matches!(Task::parse(name), Err(EnvError::Name(_))), "{name}");
        }
    }
}
