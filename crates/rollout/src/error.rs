//! Why playing or reflecting can't go on. The failure of one episode is no such error: see [`super::retry`].

use super::retry::FailedEpisode;
use super::template::TemplateError;
use flow_core::row::RowError;
use flow_env::EnvError;
use flow_model::PolicyError;
use std::fmt;

/// Why playing or reflecting can't go on.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// The policy can't answer.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A task's name means nothing, its environment can't be made, or what environments run in is gone for good.
    #[error(transparent)]
    Env(#[from] EnvError),
    /// Rows lack a column, or have one of another type.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The rewards that `advantage` will compare can't be computed, so dynamic sampling can't judge the tasks.
    #[error("the rewards to compare are unknown: {0}")]
    Weighed(String),
    /// More episodes failed than the retry policy allows.
    #[error(transparent)]
    TooManyFailed(Box<TooManyFailed>),
    /// A prompt's template can't be read or filled.
    #[error("prompt: {0}")]
    Template(#[from] TemplateError),
    /// Entries are to be extracted, and there is neither a model that writes them nor a template that makes them.
    #[error("entries are to be extracted, and neither an `agent` nor a `template` says how")]
    NoWriter,
}

/// How many episodes failed, how many may, and the first of them.
#[derive(Debug)]
pub struct TooManyFailed {
    /// The episodes that were given up, in the order of their names.
    pub failed: Vec<FailedEpisode>,
    /// How many episodes there were.
    pub episodes: usize,
    /// How often each was tried.
    pub tries: u32,
    /// The share of the episodes that may be given up.
    pub max_failed: f64,
}

impl std::error::Error for TooManyFailed {}

impl fmt::Display for TooManyFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooManyFailed { failed, episodes, tries, max_failed } = self;
        let (verb, which) = if failed.len() == 1 { ("has", "it is") } else { ("have", "the first is") };
        write!(
            f,
            "{} of {episodes} episodes {verb} failed after {tries} tries, more than `max_failed: {max_failed}` allows; {which} ",
            failed.len()
        )?;
        match failed.first() {
            Some(FailedEpisode { task, sample, turn, cause, error, .. }) => {
                write!(f, "{task}, sample {sample}, turn {turn} ({cause}): {error}")
            }
            None => Ok(()),
        }
    }
}
