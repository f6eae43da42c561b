//! The connection to a trainer over its life: one that flow started and that ends between two requests is started again,
//! beside whatever else is done, and goes on from the weights that were saved last.

use crate::trainer::connection::Connection;
use crossbeam_channel::{bounded, Receiver, TryRecvError};
use flow_model::{ModelFault, PolicyError, Result, TrainSettings};
use serde_json::{json, Value};

/// How a trainer is opened.
#[derive(Clone)]
pub struct Opening {
    /// What the model is called.
    pub model: String,
    /// How the trainer is started or reached.
    pub settings: TrainSettings,
    /// Whether it computes on CPUs.
    pub cpu: bool,
    /// The request that opens the model.
    pub ask: Value,
}

impl Opening {
    /// Opens it, and gives what it says of the model.
    ///
    /// # Errors
    /// [`ModelFault::Trainer`].
    pub fn open(&self) -> Result<(Connection, Value)> {
        let mut connection = Connection::open(&self.model, &self.settings, self.cpu)?;
        let opened = connection.ask(self.ask.clone(), &[], 0)?.0;
        Ok((connection, opened))
    }
}

/// The connection to a trainer.
pub enum Link {
    /// It can be asked.
    Open(Box<Connection>),
    /// It is being started again.
    Opening(Receiver<Result<Connection>>),
    /// It is gone for good.
    Lost(PolicyError),
}

impl Link {
    /// The answer to a request, as of [`Connection::ask`]; a trainer that is being started is waited for.
    ///
    /// # Errors
    /// [`ModelFault::Trainer`].
    pub fn ask(&mut self, request: Value, payload: &[u8], bytes: usize) -> Result<(Value, Vec<u8>)> {
        self.connection()?.ask(request, payload, bytes)
    }

    /// Sends a request whose answer has nothing in it, as [`Connection::tell`].
    ///
    /// # Errors
    /// [`ModelFault::Trainer`].
    pub fn tell(&mut self, request: Value, payload: &[u8]) -> Result<()> {
        self.connection()?.tell(request, payload)
    }

    /// Whether the trainer ended in the last request.
    pub fn ended(&self) -> bool {
        matches!(self, Link::Open(connection) if connection.ended)
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        if let Link::Opening(opened) = self {
            let opened = opened.recv().unwrap_or(Err(PolicyError::Gone));
            self.opened(opened);
        }
        match self {
            Link::Open(connection) => Ok(connection),
            Link::Lost(why) => Err(why.clone()),
            Link::Opening(_) => Err(PolicyError::Gone),
        }
    }

    fn opened(&mut self, opened: Result<Connection>) {
        *self = match opened {
            Ok(connection) => {
                eprintln!("note: the trainer has been started again, and goes on");
                Link::Open(Box::new(connection))
            }
            Err(why) => Link::Lost(why),
        };
    }

    /// Why the trainer is gone for good, if it is. One that has just been found gone is started by `again`, which has the
    /// request for its weights, where it can be.
    pub fn watch(&mut self, again: impl FnOnce() -> Option<(Opening, Option<Value>)>) -> Option<PolicyError> {
        match self {
            Link::Open(connection) => {
                let why = connection.lost()?;
                *self = match again() {
                    Some((opening, weights)) => {
                        eprintln!("warning: {}; it is started again", flow_core::printable::printable(&why.to_string()));
                        start(opening, weights).map_or_else(Link::Lost, Link::Opening)
                    }
                    None => Link::Lost(why),
                };
            }
            Link::Opening(opened) => match opened.try_recv() {
                Ok(opened) => self.opened(opened),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => *self = Link::Lost(PolicyError::Gone),
            },
            Link::Lost(_) => {}
        }
        match self {
            Link::Lost(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// Starts a trainer on a thread of its own.
fn start(opening: Opening, weights: Option<Value>) -> Result<Receiver<Result<Connection>>> {
    let (to, opened) = bounded(1);
    let model = opening.model.clone();
    let open = move || {
        let open = || {
            let (mut connection, _) = opening.open()?;
            weights.map(|weights| connection.ask(weights, &[], 0)).transpose()?;
            Ok(connection)
        };
        drop(to.send(open()));
    };
    let thread = std::thread::Builder::new().name("policy-trainer".into()).spawn(open);
    let fault = |error| PolicyError::model(&model, ModelFault::Trainer { what: format!("no thread: {error}") });
    thread.map(|_| opened).map_err(fault)
}

/// The request for weights that lie in `folder`, after so many optimiser steps.
pub fn load(folder: &str, steps: u64) -> Value {
    json!({ "request": "load", "folder": folder, "steps": steps })
}
