//! Why a program can't be played with at all. What happens to an episode alone is a [`crate::Fault`].

/// Why a program can't be played with at all.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("the process `{name}` ({command}) can't be played with: {why}")]
    Unplayable { name: String, command: String, why: String },
    #[error("the process `{0}` has no expert: its hello doesn't say that it has one")]
    NoExpert(String),
    #[error("no `tasks` node of this pipeline says how to start the process `{0}`")]
    Undeclared(String),
    #[error("{task} can't be begun: {why}")]
    Unbegun { task: String, why: String },
    #[error("the process `{name}` has no split `{split}`; it has {splits}")]
    NoSplit { name: String, split: String, splits: String },
}

/// Why a program can't be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("its command is empty")]
    Nothing,
    #[error("the run is over")]
    Over,
    #[error("`{program}` can't be started: {source}")]
    Refused { program: String, source: std::io::Error },
    #[error("{0}")]
    Missing(String),
    #[error("`{0}` has no pipes")]
    Mute(String),
    #[error("no thread: {0}")]
    Thread(std::io::Error),
}
