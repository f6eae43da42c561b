//! Sets of tasks: seeds to train on, and frozen panels to be measured on, that can never meet.

use super::{EnvError, Game, Task};
use crate::seed::{mix, text};
use std::path::Path;

/// What a task is for. The top bit of a task's seed says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    Train,
    Panel,
}

/// The bit of a seed that only tasks of panels have.
const PANEL: u64 = 1 << 63;

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
        (mix(board, text("split")) % 4 == 0) == (self == Split::Panel)
    }
}

/// The training tasks of one iteration. They depend on these four values only.
pub fn training(game: &Game, run_seed: u64, iteration: u64, batch: usize) -> Vec<Task> {
    let first = mix(mix(run_seed, text("training tasks")), iteration);
    (0..batch as u64).map(|i| Task { game: game.clone(), seed: mix(first, i) & !PANEL }).collect()
}

/// A frozen set of tasks to be measured on.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What it holds and the first 12 digits of the hash of its content.
    pub name: String,
    pub tasks: Vec<Task>,
}

/// A panel of `count` tasks; the same label always gives the same panel.
pub fn freeze(game: &Game, label: &str, count: usize) -> Result<Panel, EnvError> {
    let first = mix(text(label), text("panel tasks"));
    let tasks = (0..count as u64).map(|i| Task { game: game.clone(), seed: mix(first, i) | PANEL }).collect();
    Ok(Panel { name: label.into(), tasks })
}

impl Panel {
    /// Reads a panel and holds it against its hash.
    pub fn load(path: &Path) -> Result<Panel, EnvError> {
        Err(EnvError::Panel { path: path.display().to_string(), why: "not read yet".into() })
    }

    /// Writes the panel into `folder`; the file is named after the panel.
    pub fn write(&self, folder: &Path) -> Result<std::path::PathBuf, EnvError> {
        Ok(folder.join(format!("{}.json", self.name)))
    }
}
