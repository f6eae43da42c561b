//! Which tasks a training draws, and how they are kept apart from those that are measured on.

use super::process::{draw, Items, Outside};
use super::{EnvError, Game, Task};
use crate::seed::{mix, text};

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

/// Where the tasks of a training come from.
pub struct Training {
    game: Game,
    /// The split of a program that has splits.
    items: Option<(String, Items)>,
    seed: u64,
}

impl Training {
    /// `seed` is the run's. A program is asked once which tasks it has.
    pub fn new(game: Game, seed: u64, outside: &Outside) -> Result<Training, EnvError> {
        let items = match game.program() {
            Some(program) => program.items(&outside.hello(&program.name)?)?.map(|(split, items)| (split, items.clone())),
            None => None,
        };
        Ok(Training { game, items, seed })
    }

    /// The tasks of one iteration. They depend on game, seed, iteration and their number only. Those of a split are drawn without
    /// replacement: iteration after iteration takes the next ones, and when all have been taken, all are shuffled anew.
    pub fn tasks(&self, iteration: u64, batch: usize) -> Vec<Task> {
        let Some(((split, items), program)) = self.items.as_ref().zip(self.game.program()) else {
            return training(&self.game, self.seed, iteration, batch);
        };
        let first = iteration * batch as u64;
        let task = |place| {
            let (item, seed) = draw::training(items, self.seed, place);
            Task { game: self.game.with(program.task(split, item)), seed }
        };
        (first..first + batch as u64).map(task).collect()
    }
}

/// The training tasks of one iteration, for a game whose tasks are seeds.
pub(super) fn training(game: &Game, run_seed: u64, iteration: u64, batch: usize) -> Vec<Task> {
    let first = mix(mix(run_seed, text("training tasks")), iteration);
    (0..batch as u64).map(|i| Task { game: game.clone(), seed: mix(first, i) & !PANEL }).collect()
}
