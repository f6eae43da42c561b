//! The place of one process: the program that runs there now, what it was asked, and what it answers. When one ends, the next takes
//! its place.

use super::answer::{episode, objects};
use super::child::{Came, Child, LONGEST};
use super::error::StartError;
use super::hello::{Hello, Version};
use super::malformed::malformed;
use super::outside::Outside;
use super::request;
use super::ProcessSettings;
use crate::env::{Cause, Fault};
use crossbeam_channel::{Receiver, TryRecvError};
use serde_json::Value;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// How long the answer to hello may take at least: a program may have much to load.
const HELLO: Duration = Duration::from_secs(60);

/// How long the answer to hello may take where other answers may take so many seconds.
fn patience(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(HELLO).max(HELLO)
}

/// The longest answer, and in protocol 1, where each is on a line of its own, the longest line.
const LONGEST_ANSWER: usize = 1 << 20;

/// A process that has been started and hasn't said hello yet.
pub struct Starting(Child, Duration);

impl Starting {
    /// Starts a process and asks it to say hello, without waiting for it.
    pub fn new(settings: &ProcessSettings, outside: &Outside) -> Result<Starting, StartError> {
        let child = Child::start(outside, settings)?;
        child.send(request::hello(&settings.name));
        Ok(Starting(child, patience(settings.seconds)))
    }

    /// Waits for what it says of itself. One that can't be played with is ended.
    pub fn greeted(self) -> Result<(Child, Hello), Fault> {
        let Starting(child, patience) = self;
        let answer = match child.output().recv_timeout(patience) {
            Ok((_, Came::Line(line))) => Hello::read(&line),
            Ok((_, Came::TooLong)) => Err(malformed(format!("its answer to hello is a line of more than {LONGEST} bytes"))),
            Ok((_, Came::End)) => Err(Fault::new(Cause::Crash, "it ended before it answered hello")),
            Err(_) => Err(Fault::new(Cause::Timeout, format!("it didn't answer hello within {} s", patience.as_secs()))),
        };
        match answer {
            Ok(hello) => Ok((child, hello)),
            Err(fault) => Err(Fault { text: fault.text + &child.end(true), ..fault }),
        }
    }
}

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A view, of the start.
    Start,
    /// A view, after a step.
    Step,
    /// An expert's action.
    Advice,
    /// Nothing: the episode is over.
    Close,
}

impl Wanted {
    /// The request, as the protocol calls it.
    pub fn request(self) -> &'static str {
        match self {
            Wanted::Start => "reset",
            Wanted::Step => "step",
            Wanted::Advice => "expert",
            Wanted::Close => "close",
        }
    }
}

/// A request without an answer.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub episode: usize,
    pub wanted: Wanted,
    sent: Instant,
}

/// A request with its answer, or with the reason why there is none.
pub type Closed = (Open, Result<Value, Fault>);

/// A place for one process at a time.
#[derive(Default)]
pub struct Place {
    child: Option<Child>,
    life: u64,
    open: VecDeque<Open>,
    /// When the last answer came.
    last: Option<Instant>,
    /// The episodes that are in it.
    pub live: BTreeSet<usize>,
    /// Why the last process here was ended, and whether some request was to blame.
    ended: Option<(String, bool)>,
}

impl Place {
    /// Puts a new process here.
    pub fn take(&mut self, child: Child) {
        *self = Place { child: Some(child), life: self.life + 1, ended: self.ended.take(), ..Place::default() };
    }

    /// Whether no process is here.
    pub fn empty(&self) -> bool {
        self.child.is_none()
    }

    /// Why the last process here was ended.
    pub fn words(&self) -> Option<&str> {
        self.ended.as_ref().map(|(why, _)| why.as_str())
    }

    /// Whether it was ended with no request to blame for it, as by an answer to nothing.
    pub fn blameless(&self) -> bool {
        self.ended.as_ref().is_some_and(|(_, blamed)| !blamed)
    }

    /// Counts the processes that were here. An episode lives no longer than the process it was started in.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Whether it owes an answer.
    pub fn busy(&self) -> bool {
        !self.open.is_empty()
    }

    /// Sends requests, if somebody is here to read them.
    pub fn send(&mut self, requests: Vec<(usize, Wanted, Value)>, version: Version) {
        let Some(child) = self.child.as_ref().filter(|_| !requests.is_empty()) else { return };
        let sent = Instant::now();
        self.open.extend(requests.iter().map(|(episode, wanted, _)| Open { episode: *episode, wanted: *wanted, sent }));
        child.send(request::lines(requests.into_iter().map(|(_, _, request)| request).collect(), version));
    }

    /// What is still to be said of an episode is of no interest any more.
    pub fn ignore(&mut self, episode: usize) {
        self.open.iter_mut().filter(|open| open.episode == episode).for_each(|open| open.wanted = Wanted::Close);
    }

    /// Where its answers come in and until when the next must be there; none if it owes none.
    pub fn awaited(&self, limit: Duration) -> Option<(&Receiver<(Instant, Came)>, Instant)> {
        Some((self.child.as_ref()?.output(), self.late(limit)?))
    }

    /// An answer must come within the limit of its request or of the answer before it.
    fn late(&self, limit: Duration) -> Option<Instant> {
        let oldest = self.open.front()?.sent;
        Some(self.last.map_or(oldest, |last| last.max(oldest)) + limit)
    }

    /// The answers that are there by now. A process that is late or breaks the protocol is ended; then all that it still owes has failed.
    pub fn collect(&mut self, settings: &ProcessSettings, version: Version) -> Vec<Closed> {
        let limit = Duration::from_secs_f64(settings.seconds);
        let mut closed = Vec::new();
        while let (Some(late), Some(child)) = (self.late(limit), &self.child) {
            let came = match child.output().try_recv() {
                Ok((at, came)) => {
                    self.last = Some(at);
                    came
                }
                Err(TryRecvError::Disconnected) => Came::End,
                Err(TryRecvError::Empty) if Instant::now() < late => break,
                Err(TryRecvError::Empty) => {
                    let text = format!("no answer within {} s (a program must flush its output after each line)", settings.seconds);
                    closed.extend(self.end(Fault::new(Cause::Timeout, text)));
                    break;
                }
            };
            let answers = match came {
                Came::Line(line) if version == Version::One && line.len() > LONGEST_ANSWER => Err(too_long(LONGEST_ANSWER)),
                Came::Line(line) => objects(&line, version).map(|answers| (answers, line.len() > LONGEST_ANSWER)),
                Came::TooLong => Err(too_long(LONGEST)),
                Came::End => Err(Fault::new(Cause::Crash, "its process ended")),
            };
            let answers = answers
                .and_then(|(answers, long)| answers.into_iter().try_for_each(|answer| self.answered(answer, version, long, &mut closed)));
            if let Err(fault) = answers {
                closed.extend(self.end(fault));
            }
        }
        closed
    }

    /// Finds the request that an answer belongs to: in protocol 2 the oldest one. `long`: its line had more bytes than an answer may have.
    fn answered(&mut self, answer: Value, version: Version, long: bool, closed: &mut Vec<Closed>) -> Result<(), Fault> {
        let episode = episode(&answer)?;
        let at = match version {
            Version::One => self.open.iter().position(|open| open.episode == episode),
            Version::Two => self.open.front().filter(|open| open.episode == episode).map(|_| 0),
        };
        let Some(open) = at.and_then(|at| self.open.remove(at)) else {
            let oldest = self.open.front().filter(|_| version == Version::Two);
            let expected = oldest.map(|open| format!("; episode {} was to be answered next", open.episode)).unwrap_or_default();
            return Err(malformed(format!("it answered for episode {episode}, of which nothing was asked{expected}")));
        };
        let fits = !long || answer.to_string().len() <= LONGEST_ANSWER;
        let answer = if fits { Ok(answer) } else { Err(malformed(format!("its answer has more than {LONGEST_ANSWER} bytes"))) };
        closed.push((open, answer));
        Ok(())
    }

    /// Ends the process for this reason, to which its own last words are added, and answers what it still owes. The oldest request is
    /// taken for the reason; the other episodes only shared the process.
    fn end(&mut self, fault: Fault) -> Vec<Closed> {
        let more = self.child.take().map(|child| child.end(fault.cause == Cause::Crash)).unwrap_or_default();
        let fault = Fault { text: fault.text + &more, ..fault };
        self.live.clear();
        let open = std::mem::take(&mut self.open);
        let reason = open.iter().position(|open| open.wanted != Wanted::Close);
        self.ended = Some((fault.text.clone(), reason.is_some()));
        let told = |(i, open): (usize, Open)| (open, Err(if Some(i) == reason { fault.clone() } else { fault.of_another() }));
        open.into_iter().enumerate().map(told).collect()
    }
}

fn too_long(most: usize) -> Fault {
    malformed(format!("its answer is a line of more than {most} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_start_has_a_minute_or_what_an_answer_has() {
        assert_eq!([0.001, 60.0, 600.0].map(|seconds| patience(seconds).as_secs()), [60, 60, 600]);
    }
}
