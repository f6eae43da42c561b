//! What can be wrong with an environment, a task or a panel.

use super::process::ProcessError;

/// What can be wrong with an environment, a task or a panel.
#[derive(Debug, thiserror::Error)]
pub enum EnvError {
    #[error("`{0}` names no task; a name looks like sokoban-6x6-b2-m1-s123, minesweeper-6x6-m3-s123 or process-corridor-train-7-s123")]
    Name(String),
    #[error("there is no environment `{env}`; there are {known}")]
    Unknown { env: String, known: String },
    #[error("the settings of `{env}`: {why}")]
    Settings { env: &'static str, why: String },
    /// `setting` is a setting of a `tasks` node.
    #[error("{setting} is {value}, but must lie between {least} and {most}")]
    Range { setting: &'static str, value: usize, least: usize, most: usize },
    #[error("no {what} found in {tries} tries; other settings leave more room")]
    Unmade { what: String, tries: usize },
    #[error("`{0}` is played by a process of its own, which only `rollout` starts")]
    PlayedByProgram(String),
    #[error("board: {0}")]
    Board(String),
    #[error("{path}: {source}")]
    File { path: String, source: std::io::Error },
    #[error("{path}: {why}")]
    Panel { path: String, why: String },
    #[error("episode {0} was never started")]
    Unstarted(usize),
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl EnvError {
    /// The setting of a `tasks` node that is to blame, if it is one alone.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            EnvError::Range { setting, .. } => Some(setting),
            _ => None,
        }
    }
}

/// `value` must lie in `least..=most`.
pub(super) fn within(setting: &'static str, value: usize, least: usize, most: usize) -> Result<(), EnvError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(EnvError::Range { setting, value, least, most })
}
