//! The right to one answer: its holder answers once; if it is dropped, the answer is an error.

use crossbeam_channel::Sender;
use flow_model::{PolicyError, Reply, Result, RowFault};

/// The outcome of a request: a reply, a fault of its row, or what ends the run. It comes with the number that the
/// request was given.
pub type Answered = (usize, Result<Result<Reply, RowFault>>);

pub struct Ticket {
    number: usize,
    /// None once it was used.
    to: Option<Sender<Answered>>,
}

impl Ticket {
    pub fn new(number: usize, to: &Sender<Answered>) -> Ticket {
        Ticket { number, to: Some(to.clone()) }
    }

    /// Answers. If the caller no longer waits, the answer is dropped.
    pub fn answer(mut self, outcome: Result<Result<Reply, RowFault>>) {
        if let Some(to) = self.to.take() {
            drop(to.send((self.number, outcome)));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            drop(to.send((self.number, Err(PolicyError::Torch("a request to a server was lost".into())))));
        }
    }
}
