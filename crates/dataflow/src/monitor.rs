//! The progress of one stage on one worker, kept in a few atomics that are updated once an iteration. Readers get it
//! through `watch`.

use super::edge::{RowBatch, StageInput, StageOutput};
use flow_core::pulse::Pulse;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use timely::dataflow::Stream;
use timely::progress::Timestamp;

/// No iteration.
const NONE: u64 = u64::MAX;

/// The name of the commit stage.
pub(super) const COMMIT: &str = "the commit";

/// The owner of a stage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A node of the pipeline, by its id.
    Node(String),
    /// The engine itself: its log, its commit. These have names that no node can have.
    Engine(&'static str),
}

impl Owner {
    /// Its display name.
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

/// The address of a timely operator: its index and those of the scopes around it, the outermost first.
pub(super) type Address = Vec<usize>;

/// Something that a stage waits for.
pub(super) enum Dependency {
    Operator(Address),
    Commit,
}

/// The operator that `edge` comes from.
pub(super) fn source<T: Timestamp>(edge: &Stream<T, RowBatch>) -> Address {
    let mut address = edge.scope().addr().to_vec();
    address.push(edge.name().node);
    address
}

/// The progress of one stage on one worker.
pub struct StageMonitor {
    pub(super) owner: Owner,
    pub(super) stage: String,
    pub(super) worker: usize,
    /// The operators that its rows come from.
    pub(super) inputs: Vec<Dependency>,
    pub(super) pulse: Pulse,
    /// The oldest iteration that it is working on or buffering.
    at: AtomicU64,
    /// A bit for each input that may still bring rows of that iteration.
    waits: AtomicU64,
    rows: AtomicU64,
    /// The runs that no commit has counted yet.
    runs: Mutex<Vec<StageRun>>,
}

/// One run of a stage.
#[derive(Clone, Copy)]
pub(super) struct StageRun {
    pub iteration: u64,
    pub duration: Duration,
    /// Rows that it emitted.
    pub rows: u64,
}

impl StageMonitor {
    pub(super) fn new(owner: &Owner, stage: &str, worker: usize, inputs: Vec<Dependency>) -> StageMonitor {
        let [at, waits, rows] = [NONE, 0, 0].map(AtomicU64::new);
        let (owner, stage) = (owner.clone(), stage.into());
        StageMonitor { owner, stage, worker, inputs, pulse: Pulse::default(), at, waits, rows, runs: Mutex::default() }
    }

    /// Wraps `run` so that its time and its rows are recorded.
    pub(super) fn timed<F: FnMut(u64, StageInput) -> StageOutput>(
        self: &Arc<Self>,
        mut run: F,
    ) -> impl FnMut(u64, StageInput) -> StageOutput {
        let monitor = self.clone();
        move |iteration, rows| {
            monitor.begin(iteration);
            let answer = run(iteration, rows);
            monitor.end(iteration, &answer);
            answer
        }
    }

    pub(super) fn begin(&self, iteration: u64) {
        self.at.store(iteration, Relaxed);
        self.waits.store(0, Relaxed);
        self.pulse.begin();
    }

    pub(super) fn end(&self, iteration: u64, answer: &StageOutput) {
        let duration = self.pulse.end();
        let rows = answer.iter().flatten().map(|batch| batch.num_rows() as u64).sum();
        self.rows.fetch_add(rows, Relaxed);
        self.runs.lock().push(StageRun { iteration, duration, rows });
    }

    /// The stage holds `iteration` until the inputs marked in `waits` have passed it.
    pub(super) fn waits(&self, iteration: u64, waits: impl Iterator<Item = bool>) {
        self.at.store(iteration, Relaxed);
        self.waits.store(waits.enumerate().filter(|(_, wait)| *wait).fold(0, |bits, (i, _)| bits | 1 << i.min(63)), Relaxed);
    }

    /// The stage holds nothing.
    pub(super) fn rests(&self) {
        self.at.store(NONE, Relaxed);
    }

    /// The oldest iteration that it holds, and what may still bring rows of it.
    pub(super) fn oldest(&self) -> Option<(u64, Vec<&Dependency>)> {
        let (at, bits) = (self.at.load(Relaxed), self.waits.load(Relaxed));
        let waits = self.inputs.iter().enumerate().filter(|(i, _)| bits & 1 << i.min(&63) != 0).map(|(_, awaited)| awaited);
        (at != NONE).then(|| (at, waits.collect()))
    }

    /// The rows that it has emitted since the run began.
    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Relaxed)
    }

    /// The runs up to and with `iteration`, taken out.
    pub(super) fn ran(&self, iteration: u64) -> Vec<StageRun> {
        self.runs.lock().extract_if(.., |run| run.iteration <= iteration).collect()
    }
}
