//! A request on its way to a server.

use super::replica::Adapter;
use super::ticket::Ticket;
use flow_model::{Request, Sampling, Session};
use std::sync::Arc;

/// A request on its way to a server.
pub struct Job {
    pub session: Session,
    pub adapter: Arc<Adapter>,
    pub question: Question,
    pub ticket: Ticket,
    /// Attempts so far.
    pub attempt: u32,
    /// The server that had no answer in time.
    pub late: Option<usize>,
}

/// What a server is asked.
pub enum Question {
    /// A free answer.
    Write(Request, Sampling),
    /// How likely each of these tokens is from a place on.
    Weigh(Vec<u32>, usize),
}

impl Job {
    pub fn new(question: Question, session: Session, adapter: &Arc<Adapter>, ticket: Ticket) -> Job {
        Job { session, adapter: adapter.clone(), question, ticket, attempt: 0, late: None }
    }
}
