//! What live episodes answer, whoever plays them.

use super::{EnvError, Fault, Seen};

/// What an episode shows after a reset or a step.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub seen: Seen,
    /// The actions worth choosing from now.
    pub actions: Vec<String>,
}

/// One answer for each episode that was asked, in order. The outer error is no episode's: the run can't go on with it.
pub type Answers<T> = Result<Vec<Result<T, Fault>>, EnvError>;
