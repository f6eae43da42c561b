//! How a node fails: with an error, by a panic, or because its thread is gone.

use std::cell::Cell;
use std::error::Error;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

/// Why an operator can't be built or can't go on: the original error ([`flow_core::row::RowError`],
/// [`flow_model::PolicyError`], [`flow_log::LogError`], a message), so that its type can still be inspected where
/// the run ends. `?` converts any error.
pub type Failed = Box<dyn Error + Send + Sync>;

/// Why a run ended early: the node that failed (`engine` if none did), the iteration, and the error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{node}, iteration {iteration}: {error}")]
pub struct Failure {
    pub node: String,
    pub iteration: u64,
    pub error: Arc<dyn Error + Send + Sync>,
}

impl Failure {
    /// The failure of `node` in `iteration`.
    pub fn new(node: &str, iteration: u64, error: impl Into<Failed>) -> Failure {
        let error: Failed = error.into();
        Failure { node: node.into(), iteration, error: error.into() }
    }
}

/// A caught panic, with its message.
#[derive(Debug, thiserror::Error)]
#[error("panicked: {0}")]
pub struct Panicked(pub String);

/// The thread of an operator has ended though there was work for it, or it could never be started.
#[derive(Debug, thiserror::Error)]
#[error("its thread is gone")]
pub struct ThreadGone;

thread_local! {
    static GUARDING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic on this thread will be caught and reported by its stage.
pub(super) fn guarding() -> bool {
    GUARDING.get()
}

/// Calls `run`; a panic becomes an error.
pub(super) fn guarded<T>(run: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    GUARDING.set(true);
    let answer = catch_unwind(AssertUnwindSafe(run));
    GUARDING.set(false);
    answer.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(Panicked(text.unwrap_or_else(|| "without a message".into())).into())
    })
}
