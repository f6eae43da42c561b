//! The place of one process: the program that runs there now, and what it says. When one ends, the next takes its place.

use super::child::{Came, Child, LONGEST};
use super::error::StartError;
use super::outside::Outside;
use super::protocol::{self, Hello};
use super::ProcessSettings;
use crate::env::{Cause, Fault};
use serde_json::Value;
use std::time::Duration;

/// How long the answer to hello may take: a program may have much to load.
const HELLO: Duration = Duration::from_secs(60);

/// A place for one process at a time.
#[derive(Default)]
pub struct Place {
    child: Option<Child>,
    life: u64,
}

/// A process that has been started and hasn't said hello yet.
pub struct Starting(Child);

impl Starting {
    /// Starts a process and asks it to say hello, without waiting for it.
    pub fn new(settings: &ProcessSettings, outside: &Outside) -> Result<Starting, StartError> {
        let mut child = Child::start(outside, &settings.command)?;
        child.send(protocol::hello(&settings.name));
        Ok(Starting(child))
    }

    /// Waits for what it says of itself. One that can't be played with is ended.
    pub fn greeted(self) -> Result<(Child, Hello), Fault> {
        let Starting(mut child) = self;
        let answer = match child.next(HELLO) {
            Came::Line(line) => Hello::read(&line),
            Came::TooLong => Err(Fault::new(Cause::Malformed, format!("its answer to hello is a line of more than {LONGEST} bytes"))),
            Came::End => Err(Fault::new(Cause::Crash, "it ended before it answered hello")),
            Came::Late => Err(Fault::new(Cause::Timeout, format!("it didn't answer hello within {} s", HELLO.as_secs()))),
        };
        match answer {
            Ok(hello) => Ok((child, hello)),
            Err(fault) => Err(Fault { text: fault.text + &child.end(true), ..fault }),
        }
    }
}

impl Place {
    /// Puts a new process here.
    pub fn take(&mut self, child: Child) {
        *self = Place { child: Some(child), life: self.life + 1 };
    }

    pub fn empty(&self) -> bool {
        self.child.is_none()
    }

    /// Counts the processes that were here. An episode lives no longer than the process it was started in.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Sends lines, if somebody is here to read them.
    pub fn send(&mut self, lines: Vec<u8>) {
        if let (Some(child), false) = (&mut self.child, lines.is_empty()) {
            child.send(lines);
        }
    }

    /// The next answer with the number of its episode. A process that gives none is ended; then this is why.
    pub fn answer(&mut self, seconds: f64) -> Result<(usize, Value), Fault> {
        let Some(child) = &mut self.child else { return Err(Fault::new(Cause::Crash, "its process is gone").of_another()) };
        let (cause, text) = match child.next(Duration::from_secs_f64(seconds)) {
            Came::Line(line) => match protocol::object(&line) {
                Ok(answer) => return Ok(answer),
                Err(fault) => (fault.cause, fault.text),
            },
            Came::TooLong => (Cause::Malformed, format!("its answer is a line of more than {LONGEST} bytes")),
            Came::End => (Cause::Crash, "its process ended".into()),
            Came::Late => (Cause::Timeout, format!("no answer within {seconds} s (a program must flush its output after each line)")),
        };
        Err(self.end(cause, text))
    }

    /// Ends the process for this reason, to which its own last words are added.
    pub fn end(&mut self, cause: Cause, text: String) -> Fault {
        let more = self.child.take().map(|child| child.end(cause == Cause::Crash)).unwrap_or_default();
        Fault::new(cause, text + &more)
    }
}
