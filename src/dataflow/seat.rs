//! Where one stage of one worker says what it does: a few atomic stores an iteration. Whoever wants to know reads it by the watch.

use super::edge::{Answer, Batch, Rows};
use crate::pulse::Pulse;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use timely::dataflow::Stream;
use timely::progress::Timestamp;

/// No iteration.
const NONE: u64 = u64::MAX;

/// What the commit is called.
pub(super) const COMMIT: &str = "the commit";

/// Whose a stage is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A node of the pipeline, by its id.
    Node(String),
    /// The engine itself: its log, its commit. These have names that no node can have.
    Engine(&'static str),
}

impl Owner {
    /// What people call it.
    pub fn name(&self) -> &str {
        match self {
            Owner::Node(id) => id,
            Owner::Engine(name) => name,
        }
    }
}

impl Default for Owner {
    fn default() -> Owner {
        Owner::Engine("engine")
    }
}

/// Where an operator stands: the numbers that timely gave to it and to the scopes around it, the outermost first.
pub(super) type Address = Vec<usize>;

/// What a stage can wait for.
pub(super) enum Awaited {
    Operator(Address),
    Commit,
}

/// The operator that `edge` comes from.
pub(super) fn source<T: Timestamp>(edge: &Stream<T, Batch>) -> Address {
    let mut address = edge.scope().addr().to_vec();
    address.push(edge.name().node);
    address
}

/// Where one stage of one worker says what it does.
pub struct Seat {
    pub(super) owner: Owner,
    pub(super) stage: String,
    pub(super) worker: usize,
    /// Where its rows come from.
    pub(super) inputs: Vec<Awaited>,
    pub(super) pulse: Pulse,
    /// The oldest iteration that it holds.
    at: AtomicU64,
    /// The inputs that may still bring rows of that iteration, a bit each.
    waits: AtomicU64,
    rows: AtomicU64,
    /// The runs that no commit has counted yet.
    runs: Mutex<Vec<Ran>>,
}

/// One run of a stage.
#[derive(Clone, Copy)]
pub(super) struct Ran {
    pub iteration: u64,
    pub took: Duration,
    /// Rows that it emitted.
    pub rows: u64,
}

impl Seat {
    pub(super) fn new(owner: &Owner, stage: &str, worker: usize, inputs: Vec<Awaited>) -> Seat {
        let [at, waits, rows] = [NONE, 0, 0].map(AtomicU64::new);
        let (owner, stage) = (owner.clone(), stage.into());
        Seat { owner, stage, worker, inputs, pulse: Pulse::default(), at, waits, rows, runs: Mutex::default() }
    }

    /// `run`, with its time and its rows taken.
    pub(super) fn timed<F: FnMut(u64, Rows) -> Answer>(self: &Arc<Self>, mut run: F) -> impl FnMut(u64, Rows) -> Answer {
        let seat = self.clone();
        move |iteration, rows| {
            seat.begin(iteration);
            let answer = run(iteration, rows);
            seat.end(iteration, &answer);
            answer
        }
    }

    pub(super) fn begin(&self, iteration: u64) {
        self.at.store(iteration, Relaxed);
        self.waits.store(0, Relaxed);
        self.pulse.begin();
    }

    pub(super) fn end(&self, iteration: u64, answer: &Answer) {
        let took = self.pulse.end();
        let rows = answer.iter().flatten().map(|batch| batch.num_rows() as u64).sum();
        self.rows.fetch_add(rows, Relaxed);
        self.runs.lock().push(Ran { iteration, took, rows });
    }

    /// The stage holds `iteration` until those inputs have passed it for which `waits` says so.
    pub(super) fn waits(&self, iteration: u64, waits: impl Iterator<Item = bool>) {
        self.at.store(iteration, Relaxed);
        self.waits.store(waits.enumerate().filter(|(_, wait)| *wait).fold(0, |bits, (i, _)| bits | 1 << i.min(63)), Relaxed);
    }

    /// The stage holds nothing.
    pub(super) fn rests(&self) {
        self.at.store(NONE, Relaxed);
    }

    /// The oldest iteration that it holds, and what may still bring rows of it.
    pub(super) fn held(&self) -> Option<(u64, Vec<&Awaited>)> {
        let (at, bits) = (self.at.load(Relaxed), self.waits.load(Relaxed));
        let waits = self.inputs.iter().enumerate().filter(|(i, _)| bits & 1 << i.min(&63) != 0).map(|(_, awaited)| awaited);
        (at != NONE).then(|| (at, waits.collect()))
    }

    /// The rows that it has emitted since the run began.
    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Relaxed)
    }

    /// The runs up to and with `iteration`, taken out.
    pub(super) fn ran(&self, iteration: u64) -> Vec<Ran> {
        self.runs.lock().extract_if(.., |run| run.iteration <= iteration).collect()
    }
}
