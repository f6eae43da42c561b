//! A slot for one process at a time: the process that runs now, the requests it has been sent, and its answers. When a
//! process ends, a new one is started in its slot.

use super::answer::{episode, episode_of_line, objects};
use super::child::{Child, ChildOutput, LONGEST};
use super::error::StartError;
use super::hello::Hello;
use super::malformed::malformed;
use super::programs::Programs;
use super::request;
use super::ProcessSettings;
use crate::{Cause, Fault};
use crossbeam_channel::{Receiver, TryRecvError};
use serde_json::Value;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// The least time limit for the answer to `hello`: a program may have much to load.
const HELLO: Duration = Duration::from_secs(60);

/// The time limit for the answer to `hello`, given that of other answers in seconds.
fn patience(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(HELLO).max(HELLO)
}

/// The longest answer of a program that answers in order, in bytes; another's may fill a line, since it carries whole
/// conversations.
const LONGEST_ANSWER: usize = 1 << 20;

/// A process that has been started and hasn't answered `hello` yet.
pub struct StartingProcess(Child, Duration);

impl StartingProcess {
    /// Starts a process and sends it `hello`, without waiting for the answer.
    pub fn new(settings: &ProcessSettings, programs: &Programs) -> Result<StartingProcess, StartError> {
        let child = Child::start(programs, settings)?;
        child.send(request::hello(&settings.name));
        Ok(StartingProcess(child, patience(settings.seconds)))
    }

    /// Waits for the answer. A process whose answer is invalid or late is killed.
    pub fn greeted(self) -> Result<(Child, Hello), FailedStart> {
        let StartingProcess(child, patience) = self;
        let answer = match child.output().recv_timeout(patience) {
            Ok((_, ChildOutput::Line(line))) => Hello::read(&line),
            Ok((_, ChildOutput::TooLong)) => Err(malformed(format!("its answer to hello is a line of more than {LONGEST} bytes"))),
            Ok((_, ChildOutput::End)) => Err(Fault::new(Cause::Crash, "it ended before it answered hello")),
            Err(_) => Err(Fault::new(Cause::Timeout, format!("it didn't answer hello within {} s", patience.as_secs()))),
        };
        match answer {
            Ok(hello) => Ok((child, hello)),
            Err(fault) => {
                let killed = fault.cause == Cause::Crash && child.was_killed();
                Err(FailedStart { fault: Fault { text: fault.text + &child.end(true), ..fault }, killed })
            }
        }
    }
}

/// Why a process didn't answer `hello`.
pub struct FailedStart {
    pub fault: Fault,
    /// A signal ended it.
    pub killed: bool,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// The view at the start of the episode.
    Start,
    /// The view after a step.
    Step,
    /// An expert's action.
    Advice,
    /// Nothing: the episode is over.
    Close,
}

impl RequestKind {
    /// The name of the request in the protocol.
    pub fn request(self) -> &'static str {
        match self {
            RequestKind::Start => "reset",
            RequestKind::Step => "step",
            RequestKind::Advice => "expert",
            RequestKind::Close => "close",
        }
    }
}

/// A request that hasn't been answered yet.
#[derive(Clone, Copy, Debug)]
pub struct PendingRequest {
    pub episode: usize,
    pub kind: RequestKind,
    sent: Instant,
    /// Whether it has failed, so that its answer is dropped.
    given_up: bool,
}

/// A request with its answer, or with the reason why there is none.
pub type AnsweredRequest = (PendingRequest, Result<Value, Fault>);

/// A slot for one process at a time.
#[derive(Default)]
pub struct ProcessSlot {
    child: Option<Child>,
    life: u64,
    /// Whether answers about different episodes come in any order.
    unordered: bool,
    open: VecDeque<PendingRequest>,
    /// When the last answer came.
    last: Option<Instant>,
    /// The episodes that the process holds.
    pub live: BTreeSet<usize>,
    /// Why the previous process was killed, and whether one of its episodes caused it.
    ended: Option<(String, bool)>,
    /// The episodes that a process may hold, since one that held more was ended by one of them.
    most: Option<usize>,
}

impl ProcessSlot {
    /// Puts a new process into the slot.
    pub fn take(&mut self, child: Child, unordered: bool) {
        *self = ProcessSlot {
            child: Some(child),
            unordered,
            life: self.life + 1,
            ended: self.ended.take(),
            most: self.most,
            ..ProcessSlot::default()
        };
    }

    /// How many more episodes it may hold, if a process holds so many.
    pub fn room(&self, live: usize) -> usize {
        self.most.unwrap_or(live).min(live).saturating_sub(self.live.len())
    }

    /// Notes that an episode has come to its end, so that more of them may share a process again.
    pub fn came_to_an_end(&mut self) {
        self.most = self.most.map(|most| most.saturating_mul(2));
    }

    /// Whether the slot holds no process.
    pub fn empty(&self) -> bool {
        self.child.is_none()
    }

    /// Why the previous process was killed.
    pub fn words(&self) -> Option<&str> {
        self.ended.as_ref().map(|(why, _)| why.as_str())
    }

    /// Whether it was killed and none of its episodes is known to have caused it, for instance after an unrequested
    /// answer.
    pub fn blameless(&self) -> bool {
        self.ended.as_ref().is_some_and(|(_, blamed)| !blamed)
    }

    /// How many processes the slot has held so far. An episode ends with the process that it was started in.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Whether a request is pending.
    pub fn busy(&self) -> bool {
        self.open.iter().any(|open| !open.given_up)
    }

    /// Sends requests, if the slot holds a process.
    pub fn send(&mut self, requests: Vec<(usize, RequestKind, Value)>) {
        let Some(child) = self.child.as_ref().filter(|_| !requests.is_empty()) else { return };
        let sent = Instant::now();
        self.open.extend(requests.iter().map(|(episode, kind, _)| PendingRequest {
            episode: *episode,
            kind: *kind,
            sent,
            given_up: false,
        }));
        child.send(request::lines(requests.into_iter().map(|(_, _, request)| request).collect()));
    }

    /// Discards the answers to this episode's pending requests when they come.
    pub fn ignore(&mut self, episode: usize) {
        self.open.iter_mut().filter(|open| open.episode == episode).for_each(|open| open.kind = RequestKind::Close);
    }

    /// The channel of its answers and the deadline of the next one; none if no request is pending.
    pub fn awaited(&self, limit: Duration) -> Option<(&Receiver<(Instant, ChildOutput)>, Instant)> {
        Some((self.child.as_ref()?.output(), self.late(limit)?))
    }

    /// An answer must come within the limit of its request or, where answers come in order, of the answer before it.
    fn late(&self, limit: Duration) -> Option<Instant> {
        let oldest = self.open.iter().find(|open| !open.given_up)?.sent;
        let last = self.last.filter(|_| !self.unordered);
        Some(last.map_or(oldest, |last| last.max(oldest)) + limit)
    }

    /// The answers that have arrived. A process that is late or violates the protocol is killed, and its pending
    /// requests fail.
    pub fn collect(&mut self, settings: &ProcessSettings) -> Vec<AnsweredRequest> {
        let limit = Duration::from_secs_f64(settings.seconds);
        let mut closed = Vec::new();
        while let (Some(late), Some(child)) = (self.late(limit), &self.child) {
            let (at, came) = match child.output().try_recv() {
                Ok(came) => came,
                Err(TryRecvError::Disconnected) => (Instant::now(), ChildOutput::End),
                Err(TryRecvError::Empty) if Instant::now() < late => break,
                Err(TryRecvError::Empty) => {
                    match self.overdue_alone() {
                        Some(open) => closed.push((open, Err(overdue(settings)))),
                        None => closed.extend(self.end(overdue(settings))),
                    }
                    continue;
                }
            };
            let answers = match came {
                ChildOutput::Line(line) => match (objects(&line), episode_of_line(&line)) {
                    (Err(fault), Some(episode)) => Ok((vec![(episode, Err(fault))], false)),
                    (answers, _) => {
                        answers.and_then(with_episodes).map(|answers| (answers, !self.unordered && line.len() > LONGEST_ANSWER))
                    }
                },
                ChildOutput::TooLong => Err(malformed(format!("its answer is a line of more than {LONGEST} bytes"))),
                ChildOutput::End => Err(Fault::new(Cause::Crash, "its process ended")),
            };
            // A line without an answer gains no time.
            let answers = answers.and_then(|(answers, long)| match answers.is_empty() {
                true if at >= late => Err(overdue(settings)),
                true => Ok(()),
                false => {
                    self.last = Some(at);
                    answers.into_iter().try_for_each(|(episode, answer)| self.answered(episode, answer, long, &mut closed))
                }
            });
            if let Err(fault) = answers {
                closed.extend(self.end(fault));
            }
        }
        closed
    }

    /// The oldest pending request where it alone is late: the process has answered others since it was sent.
    fn overdue_alone(&mut self) -> Option<PendingRequest> {
        let open = self.open.iter_mut().find(|open| !open.given_up)?;
        let alone = self.unordered && self.last.is_some_and(|last| last > open.sent);
        open.given_up = alone;
        alone.then_some(*open)
    }

    /// Matches an answer with the oldest pending request, or with its episode's oldest. `long`: its line had more bytes
    /// than an answer may have.
    fn answered(
        &mut self,
        episode: usize,
        answer: Result<Value, Fault>,
        long: bool,
        closed: &mut Vec<AnsweredRequest>,
    ) -> Result<(), Fault> {
        let place = if self.unordered { self.open.iter().position(|open| open.episode == episode) } else { Some(0) };
        let Some(open) = place.and_then(|place| self.open.get(place)).copied().filter(|open| open.episode == episode) else {
            let expected = self
                .open
                .front()
                .filter(|_| !self.unordered)
                .map(|open| format!("; episode {} was to be answered next", open.episode))
                .unwrap_or_default();
            return Err(malformed(format!("it answered for episode {episode}, which was asked nothing{expected}")));
        };
        place.and_then(|place| self.open.remove(place));
        if open.given_up {
            return Ok(());
        }
        let fits = |answer: &Value| !long || answer.to_string().len() <= LONGEST_ANSWER;
        let too_long = || malformed(format!("its answer has more than {LONGEST_ANSWER} bytes"));
        closed.push((open, answer.and_then(|answer| if fits(&answer) { Ok(answer) } else { Err(too_long()) })));
        Ok(())
    }

    /// Kills the process for this reason, to which the last lines of its standard error are added, and fails its
    /// pending requests. The oldest one is taken to be the cause; the other episodes only shared the process. Where
    /// answers come in any order, the oldest one may well be innocent, unless it is late: the next process then holds
    /// half as many episodes, until one that is alone is the cause.
    fn end(&mut self, fault: Fault) -> Vec<AnsweredRequest> {
        let more = self.child.take().map(|child| child.end(fault.cause == Cause::Crash)).unwrap_or_default();
        let fault = Fault { text: fault.text + &more, ..fault };
        let shared = self.live.len();
        self.live.clear();
        let open = std::mem::take(&mut self.open);
        let unknown = self.unordered && shared > 1 && fault.cause != Cause::Timeout;
        let reason = open.iter().position(|open| open.kind != RequestKind::Close && !open.given_up).filter(|_| !unknown);
        self.ended = Some((fault.text.clone(), unknown || reason.is_some()));
        if unknown {
            self.most = Some(shared / 2);
        }
        let failed = |(i, open): (usize, PendingRequest)| (open, Err(if Some(i) == reason { fault.clone() } else { fault.of_another() }));
        open.into_iter().enumerate().filter(|(_, open)| !open.given_up).map(failed).collect()
    }
}

/// An episode with its answer, or with the reason why there is none.
type EpisodeResult = (usize, Result<Value, Fault>);

/// These answers, each with its episode.
fn with_episodes(answers: Vec<Value>) -> Result<Vec<EpisodeResult>, Fault> {
    answers.into_iter().map(|answer| Ok((episode(&answer)?, Ok(answer)))).collect()
}

/// Nothing was answered in time.
fn overdue(settings: &ProcessSettings) -> Fault {
    let ProcessSettings { seconds, calls, .. } = settings;
    let text = if *calls {
        format!("no call and no end within {seconds} s of the last answer, which is what the setting `seconds` allows")
    } else {
        format!(
            "no answer within {seconds} s, which is what the setting `seconds` allows (a program must flush its output after each line)"
        )
    };
    Fault::new(Cause::Timeout, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_start_has_a_minute_or_what_an_answer_has() {
        assert_eq!([0.001, 60.0, 600.0].map(|seconds| patience(seconds).as_secs()), [60, 60, 600]);
    }

    #[test]
    fn a_late_program_is_told_the_setting_and_of_flushing_only_where_it_writes_answers_itself() {
        let settings = serde_json::json!({ "command": ["x"], "name": "x", "seconds": 7 });
        let mut settings: ProcessSettings = serde_json::from_value(settings).unwrap();
        let said = |settings: &ProcessSettings| {
            let text = overdue(settings).text;
            (text.contains("7 s") && text.contains("`seconds`"), text.contains("flush"))
        };
        assert_eq!(said(&settings), (true, true));
        settings.calls = true;
        assert_eq!(said(&settings), (true, false));
    }
}
