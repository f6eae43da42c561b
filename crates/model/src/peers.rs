//! Processes that make the same updates together.

use crate::Result;

/// The processes that make the same updates.
pub trait Peers: Send + Sync {
    /// Which of them this is, and how many there are.
    fn place(&self) -> (usize, usize);
    /// Waits until all processes turn to the next update of `model`. There is one update at a time, and the order of
    /// those of several models is the same everywhere: the first process decides it.
    ///
    /// # Errors
    /// [`crate::PolicyError::Peer`] if another process says something else than whose turn it is.
    fn begin(&self, model: &str) -> Result<()>;
    /// The update is over.
    fn end(&self);
    /// Sends `own` to all others and receives what each of them sent, by process; its own place is empty.
    ///
    /// # Errors
    /// [`crate::PolicyError::Peer`] if a process can't be understood.
    fn exchange(&self, own: &[u8]) -> Result<Vec<Vec<u8>>>;
}
