//! What can happen to an episode's environment, as a value: nothing that an environment does ends a run by itself.

pub use flow_core::guard::hushed;

/// The kind of an episode's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its code panicked.
    Panic,
    /// Its process reported an error of this episode alone.
    Error,
    /// It didn't answer in time.
    Timeout,
    /// Its process ended.
    Crash,
    /// It answered what is no answer.
    Malformed,
    /// Its expert knew no way on, or named an action that couldn't be chosen.
    Expert,
    /// What it shows is too much for the model to read, or can't be written as a prompt.
    Prompt,
    /// It asks what the model can't be asked: a part of its call would be left out of the prompt, or can't be kept to.
    Declined,
    /// Its prompt has so many tokens, and so many are allowed.
    TooLong { tokens: usize, limit: usize },
    /// It asks for more answers than it may have.
    Limit,
    /// Played again, it isn't what it was.
    Replay,
}

impl Cause {
    /// Whether another try would fail in the same way.
    pub fn lasting(self) -> bool {
        matches!(self, Cause::Expert | Cause::Prompt | Cause::Declined | Cause::TooLong { .. } | Cause::Limit)
    }

    /// As the table `errors` names it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Panic => "panic",
            Cause::Error => "error",
            Cause::Timeout => "timeout",
            Cause::Crash => "crash",
            Cause::Malformed => "malformed",
            Cause::Expert => "expert",
            Cause::Prompt | Cause::Declined | Cause::TooLong { .. } => "prompt",
            Cause::Limit => "limit",
            Cause::Replay => "replay",
        }
    }
}

/// A failure of an episode's environment. What the episode was is gone; it can only be started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub cause: Cause,
    pub text: String,
    /// Whether this episode brought it about. One that merely shared a process with it has lost nothing but its
    /// progress.
    pub own: bool,
}

impl Fault {
    pub fn new(cause: Cause, text: impl Into<String>) -> Fault {
        Fault { cause, text: text.into(), own: true }
    }

    /// The same for an episode that only lost its process by it.
    pub fn of_another(&self) -> Fault {
        Fault { own: false, ..self.clone() }
    }
}

/// Runs code of an environment; its panic becomes a value.
pub fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, Fault> {
    flow_core::guard::guarded(run).map_err(|text| Fault::new(Cause::Panic, text))
}
