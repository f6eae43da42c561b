//! The answers of live episodes, the same for every kind of environment.

use super::{Call, EnvError, Fault, TimeStep};
use std::collections::BTreeMap;

/// What an episode shows after a reset or a step.
#[derive(Clone, Debug, PartialEq)]
pub struct EpisodeView {
    pub step: TimeStep,
    /// The actions worth choosing from now; none where they weren't asked for.
    pub actions: Vec<String>,
    /// What only some environments say.
    pub extras: Extras,
}

/// What only some environments say of an episode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// Where it stands on the environment's own scale.
    pub score: Option<f32>,
    /// Small figures of this moment.
    pub info: BTreeMap<String, f64>,
    /// Whether a limit of the environment's own ended it, not the game.
    pub truncated: bool,
    /// After a reset: what holds for the whole episode.
    pub facts: EpisodeFacts,
    /// What an agent program asks of the policy now.
    pub call: Option<Box<Call>>,
    /// Rewards of single calls of this episode, by their names.
    pub credit: Vec<(u64, f32)>,
    /// At its end: the calls whose answers the program didn't read.
    pub unread: Vec<u64>,
}

/// What some environments say of a whole episode, a column of its rows each; empty where an environment doesn't say it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpisodeFacts {
    /// The task's own text, which the observations don't repeat.
    pub instruction: String,
    /// The kind of task.
    pub kind: String,
    /// The task's right answer, which is shown to no policy.
    pub gold: String,
}

impl EpisodeFacts {
    /// Nothing is known of the episode.
    pub const NONE: &EpisodeFacts = &EpisodeFacts { instruction: String::new(), kind: String::new(), gold: String::new() };
}

/// One answer for each episode that was asked, in order. The outer error is no episode's: the run can't go on with it.
pub type EpisodeResults<T> = Result<Vec<Result<T, Fault>>, EnvError>;
