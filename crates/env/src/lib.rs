//! Environments: text in, text out, a canonical state, and an expert to learn from. They know no policy and no rows.
//!
//! An environment is a folder here and a line in [`TABLE`], and nothing else knows its name. A [`Task`] is an
//! environment's settings with a seed; its name says both, so it means the same on every machine.
//!
//! ```
//! use flow_env::Task;
//! let task = Task::parse("sokoban-6x6-b1-m1-s3")?;
//! let mut room = task.make()?;
//! let mut step = room.reset();
//! while let Some(action) = room.expert() {
//!     step = room.step(&action);
//! }
//! assert!(step.won);
//! # Ok::<(), flow_env::EnvError>(())
//! ```

mod adapter;
mod call;
pub mod doors;
mod environments;
mod error;
mod fault;
mod game;
pub mod installed;
mod local;
pub mod minesweeper;
pub mod panel;
pub mod process;
mod program;
mod python;
mod registry;
pub mod sokoban;
mod split;
mod task;
pub mod tasks;
mod view;
mod words;

pub use call::{Act, Call};
pub use doors::DoorsSettings;
pub use environments::{Environments, ResetRequest};
pub use error::EnvError;
pub use fault::{hushed, Cause, Fault};
pub use game::{Acts, EnvironmentKind, Game, GameSettings};
pub use minesweeper::MinesweeperSettings;
pub use panel::{freeze, Panel};
pub use registry::{kind, TABLE};
pub use sokoban::SokobanSettings;
pub use split::{Deal, Split};
pub use task::Task;
pub use tasks::TrainingTasks;
pub use view::{EpisodeFacts, EpisodeView, Extras};

/// What an environment answers.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeStep {
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

/// One live episode. No method should panic, whatever text it is given; one that does costs its episode ([`Environments`]),
/// not the run.
pub trait Environment: Send {
    /// Starts the episode of the task again.
    fn reset(&mut self) -> TimeStep;
    /// Carries out an action. After the end of an episode every action is invalid.
    fn step(&mut self, action: &str) -> TimeStep;
    /// The actions worth choosing from now, as texts that `step` accepts; none after the end.
    fn admissible(&self) -> Vec<String>;
    /// What only some environments say of an episode, as it stands now.
    fn extras(&self) -> Extras {
        Extras::default()
    }
    /// The expert's action from here; `None` when it knows no way on.
    fn expert(&mut self) -> Option<String>;
    /// What the expert writes in this tagged part of the answer whose action it has just given, such as `memory`;
    /// `None` where it has nothing to write there.
    fn expert_part(&mut self, tag: &str) -> Option<String> {
        let _ = tag;
        None
    }
    /// What an expert would note for the next attempt at the same task, now that this one is over; `None` when there is
    /// nothing to note.
    fn lesson(&mut self) -> Option<String> {
        None
    }
    /// Gives the expert the notes on an earlier attempt; it is not required to make sense.
    fn read_note(&mut self, note: &str) {
        let _ = note;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::seed::Random;
    use serde_json::Value;
    use std::path::Path;

    /// The repository's folder: a package's tests run in the package's own.
    pub(crate) fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/"))
    }

    /// The game that this `with` of a `tasks` node means.
    pub(crate) fn game(mut with: Value) -> Result<Game, EnvError> {
        let env = with.as_object_mut().unwrap().remove("env").unwrap();
        Game::read(env.as_str().unwrap(), with.as_object().unwrap().clone())
    }

    /// 10,000 actions of every kind of nonsense, mixed with real ones.
    #[test]
    fn no_text_makes_an_environment_panic_or_move_wrongly() {
        let pieces = [
            "up",
            "down",
            "left",
            "right",
            ",",
            " ",
            "(",
            ")",
            "1",
            "2",
            "6",
            "0",
            "-",
            "√",
            "\u{0}",
            "<action>",
            "99999999999999999999",
            "\n",
        ];
        let mut random = Random::new(11);
        for name in ["sokoban-6x6-b2-m3-s1", "minesweeper-6x6-m3-s1", "webshop-p1000-s1", "search-d500-f3-s1", "doors-d4-r2-s1"] {
            let mut env = Task::parse(name).unwrap().make().unwrap();
            let mut last = env.reset();
            let (mut moved, mut refused) = (0, 0);
            for _ in 0..5000 {
                let choices = env.admissible();
                let real = random.below(3) == 0 && !choices.is_empty();
                let action = match real {
                    true => choices[random.below(choices.len())].clone(),
                    false => (0..random.below(7)).map(|_| pieces[random.below(pieces.len())]).collect(),
                };
                let step = env.step(&action);
                assert!(step.valid || !real, "{action}");
                if step.valid {
                    moved += 1;
                } else {
                    assert_eq!((step.state, &step.observation, step.reward), (last.state, &last.observation, 0.0), "{action}");
                    refused += 1;
                }
                last = if step.done { env.reset() } else { step };
            }
            assert!(moved > 1000 && refused > 1000, "{moved} moved, {refused} refused");
        }
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        for name in [
            "sokoban-3x3-b1-m1-s1",
            "sokoban-6x6-b9-m1-s1",
            "sokoban-6x6-b1-m0-s1",
            "minesweeper-4x4-m15-s1",
            "minesweeper-99x99-m1-s1",
            "sokoban-6x6-b1-m1-l9to3-s1",
            "webshop-p7-s1",
            "search-d500-f0-s1",
            "doors-d7-r2-s1",
        ] {
            assert!(matches!(Task::parse(name).unwrap().make(), Err(EnvError::Range { .. })), "{name}");
        }
    }

    #[test]
    fn equal_tasks_play_alike() {
        for name in ["sokoban-6x6-b2-m1-s9", "minesweeper-5x5-m3-s9", "webshop-p1000-s9", "search-d500-f3-s9", "doors-d4-r2-s9"] {
            let task = Task::parse(name).unwrap();
            let (mut a, mut b) = (task.make().unwrap(), task.make().unwrap());
            assert_eq!(a.reset(), b.reset());
            while let Some(action) = a.expert() {
                assert_eq!(Some(&action), b.expert().as_ref());
                assert_eq!(a.step(&action), b.step(&action));
            }
        }
    }
}
