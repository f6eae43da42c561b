//! Environments: text in, text out, a canonical state, and an expert to learn from. They know no policy and no rows.
//!
//! A [`Task`] is an environment's settings with a seed; its name says both, so it means the same on every machine.
//!
//! ```
//! use flow::env::Task;
//! let task = Task::parse("sokoban-6x6-b1-m1-s3")?;
//! let mut room = task.make()?;
//! let mut seen = room.reset();
//! while let Some(action) = room.expert() {
//!     seen = room.step(&action);
//! }
//! assert!(seen.won);
//! # Ok::<(), flow::env::EnvError>(())
//! ```

pub mod minesweeper;
mod name;
pub mod sokoban;
pub mod tasks;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use minesweeper::MinesweeperSettings;
pub use sokoban::SokobanSettings;
pub use tasks::{freeze, training, Panel, Split};
pub use words::{rules, vocabulary};

/// What an environment answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// What is seen now, as text.
    pub observation: String,
    /// Hash of the canonical state after the step: equal boards have equal hashes, however they were reached.
    pub state: u64,
    /// The reward of the step; 0 after a reset and for an invalid action.
    pub reward: f32,
    /// Whether the episode is over. A turn limit is the caller's: an environment ends only by its own rules.
    pub done: bool,
    /// Whether it ended well.
    pub won: bool,
    /// Whether the action could be carried out. An invalid action changes nothing.
    pub valid: bool,
}

/// One live episode. No method panics, whatever text it is given.
pub trait Environment: Send {
    /// Starts the episode of the task again.
    fn reset(&mut self) -> Seen;
    /// Carries out an action. After the end of an episode every action is invalid.
    fn step(&mut self, action: &str) -> Seen;
    /// The actions worth choosing from now, as texts that `step` accepts; none after the end.
    fn admissible(&self) -> Vec<String>;
    /// The expert's action from here; `None` when it knows no way on.
    fn expert(&mut self) -> Option<String>;
}

/// An environment with its settings: what all tasks of a set have in common.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "env", rename_all = "lowercase")]
pub enum Game {
    /// Push every box onto a target.
    Sokoban(SokobanSettings),
    /// Open every cell that hides no mine.
    Minesweeper(MinesweeperSettings),
}

/// What can be wrong with an environment, a task or a panel.
#[derive(Debug, thiserror::Error)]
pub enum EnvError {
    #[error("`{0}` names no task; a name looks like sokoban-6x6-b2-m1-s123 or minesweeper-6x6-m3-s123")]
    Name(String),
    #[error("{what} is {found}, but must lie between {least} and {most}")]
    Range { what: &'static str, found: usize, least: usize, most: usize },
    #[error("no {what} found in {tries} tries: its settings leave too little room")]
    Unmade { what: String, tries: usize },
    #[error("board: {0}")]
    Board(String),
    #[error("{path}: {source}")]
    File { path: String, source: std::io::Error },
    #[error("{path}: {why}")]
    Panel { path: String, why: String },
}

/// One task: what an episode is played on.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub game: Game,
    pub seed: u64,
}

impl Task {
    /// The name, made from the content alone. Settings that keep their usual values aren't spelled out.
    pub fn name(&self) -> String {
        name::write(self)
    }

    /// The task that a name means.
    pub fn parse(name: &str) -> Result<Task, EnvError> {
        name::read(name).ok_or_else(|| EnvError::Name(name.into()))
    }

    /// The environment of this task, not yet reset.
    pub fn make(&self) -> Result<Box<dyn Environment>, EnvError> {
        Ok(match &self.game {
            Game::Sokoban(settings) => Box::new(sokoban::Sokoban::new(settings, self.seed)?),
            Game::Minesweeper(settings) => Box::new(minesweeper::Minesweeper::new(settings, self.seed)?),
        })
    }
}

impl Game {
    /// Refuses settings that no board can have.
    pub fn check(&self) -> Result<(), EnvError> {
        match self {
            Game::Sokoban(settings) => settings.check(),
            Game::Minesweeper(settings) => settings.check(),
        }
    }
}

/// `found` must lie in `least..=most`.
fn within(what: &'static str, found: usize, least: usize, most: usize) -> Result<(), EnvError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(EnvError::Range { what, found, least, most })
}
