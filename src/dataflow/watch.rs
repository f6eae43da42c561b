//! What every stage is doing: for `flow top`, for the watchdog, and for the log. A stage writes to a seat of its own, a few
//! atomic stores an iteration; whoever wants to know reads all seats.

use super::edge::{Answer, Batch, Rows};
use super::figures::Figures;
use crate::pulse::Pulse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use timely::dataflow::Stream;
use timely::progress::Timestamp;

/// No iteration.
const NONE: u64 = u64::MAX;
/// What a source waits for, as the index of an operator.
pub const COMMIT: usize = usize::MAX;

/// Where one stage of one worker says what it does.
pub struct Seat {
    stage: String,
    worker: usize,
    /// The operators that its inputs come from, as timely counts them.
    inputs: Vec<usize>,
    pulse: Pulse,
    /// The oldest iteration that it holds.
    at: AtomicU64,
    /// The inputs that may still bring rows of that iteration, a bit each.
    waits: AtomicU64,
    rows: AtomicU64,
    /// Iteration, time and rows of the runs that no commit has counted yet.
    runs: Mutex<Vec<(u64, Duration, u64)>>,
}

impl Seat {
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
        lock(&self.runs).push((iteration, took, rows));
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

    /// The node that the stage belongs to: a node's stages begin with its name and a space, the engine's own with `the`.
    fn node(&self) -> &str {
        let words = if self.stage.starts_with("the ") { 2 } else { 1 };
        self.stage.match_indices(' ').nth(words - 1).map_or(&self.stage, |(end, _)| &self.stage[..end])
    }
}

/// What one stage of one worker was doing when somebody looked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub stage: String,
    pub node: String,
    pub worker: usize,
    /// The oldest iteration that it holds.
    pub iteration: Option<u64>,
    /// For how long it has been running that iteration.
    pub running: Option<Duration>,
    /// Whose rows of that iteration it still waits for.
    pub waits_for: Vec<String>,
    /// Rows that it emitted; 0 for a stage inside a node, whose rows go no further than the node.
    pub rows: u64,
    pub busy: Duration,
    /// How often it began or ended a run.
    pub beats: u64,
}

/// All seats of a process.
#[derive(Default)]
pub struct Watch {
    seats: Mutex<Vec<Arc<Seat>>>,
    /// What people call the operators, where timely counts them.
    names: Mutex<BTreeMap<usize, String>>,
    policy: OnceLock<Arc<Pulse>>,
    /// The policy's busy time up to the last commit.
    counted: Mutex<Duration>,
    committed: AtomicU64,
}

/// Every critical section here leaves its value whole, even if a panic poisons the lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// A seat for the operator that timely counts as `index` on this worker. Rows come to it from `inputs`.
    pub(super) fn seat(&self, stage: &str, worker: usize, index: usize, inputs: Vec<usize>) -> Arc<Seat> {
        let [at, waits, rows] = [NONE, 0, 0].map(AtomicU64::new);
        let seat = Arc::new(Seat { stage: stage.into(), worker, inputs, pulse: Pulse::default(), at, waits, rows, runs: Mutex::default() });
        lock(&self.names).insert(index, stage.into());
        lock(&self.seats).push(seat.clone());
        seat
    }

    /// What to call the source of `edge`, where no stage is behind it.
    pub(super) fn name<T: Timestamp>(&self, edge: &Stream<T, Batch>, name: String) {
        lock(&self.names).insert(index(edge), name);
    }

    /// A run begins at iteration `first`. What its policy thread did before isn't the run's.
    pub(super) fn begin(&self, first: u64, policy: Option<Arc<Pulse>>) {
        self.committed.store(first, Relaxed);
        if let Some(pulse) = policy {
            *lock(&self.counted) = pulse.busy();
            let _ = self.policy.set(pulse); // a run has one
        }
    }

    pub(super) fn pulse(&self) -> Option<&Pulse> {
        self.policy.get().map(Arc::as_ref)
    }

    /// The iteration that is committed next.
    pub fn next(&self) -> u64 {
        self.committed.load(Relaxed)
    }

    /// What the commit of `iteration` says: each node's `busy_seconds` and `rows_out`, and of the `engine` its `policy_busy_seconds`
    /// since the commit before.
    pub(super) fn figures(&self, iteration: u64, figures: &mut Figures) {
        self.committed.fetch_max(iteration + 1, Relaxed);
        let mut made: BTreeMap<&str, (Duration, u64)> = BTreeMap::new();
        let seats = lock(&self.seats).clone();
        for (seat, last) in last(&seats) {
            lock(&seat.runs).retain(|(run, took, rows)| {
                if *run <= iteration {
                    let sum = made.entry(seat.node()).or_default();
                    *sum = (sum.0 + *took, sum.1 + if last { *rows } else { 0 });
                }
                *run > iteration
            });
        }
        for (node, (busy, rows)) in made.into_iter().filter(|(node, _)| !node.contains(' ')) {
            let of = figures.entry(node.into()).or_default();
            of.insert("busy_seconds".into(), busy.as_secs_f64());
            of.insert("rows_out".into(), rows as f64);
        }
        if let Some(busy) = self.pulse().map(Pulse::busy) {
            let before = std::mem::replace(&mut *lock(&self.counted), busy);
            figures.entry("engine".into()).or_default().insert("policy_busy_seconds".into(), busy.saturating_sub(before).as_secs_f64());
        }
    }

    /// What all stages are doing, in the order of the pipeline.
    pub fn read(&self) -> Vec<Reading> {
        let (seats, names) = (lock(&self.seats).clone(), lock(&self.names).clone());
        let named =
            |index: &usize| names.get(index).cloned().unwrap_or_else(|| if *index == COMMIT { "the commit" } else { "its input" }.into());
        let reading = |(seat, last): (&Arc<Seat>, bool)| {
            let (at, bits) = (seat.at.load(Relaxed), seat.waits.load(Relaxed));
            let waits = seat.inputs.iter().enumerate().filter(|(i, _)| bits & 1 << i.min(&63) != 0).map(|(_, index)| named(index));
            Reading {
                stage: seat.stage.clone(),
                node: seat.node().into(),
                worker: seat.worker,
                iteration: (at != NONE).then_some(at),
                running: seat.pulse.working(),
                waits_for: if at == NONE { vec![] } else { waits.collect() },
                rows: if last { seat.rows.load(Relaxed) } else { 0 },
                busy: seat.pulse.busy(),
                beats: seat.pulse.beats(),
            }
        };
        last(&seats).into_iter().map(reading).collect()
    }
}

/// The operator that `edge` comes from, as [`numbered`] counts.
pub(super) fn index<T: Timestamp>(edge: &Stream<T, Batch>) -> usize {
    numbered(&edge.scope().addr(), edge.name().node)
}

/// timely counts operators anew in every scope; here each has a number of its own.
pub(super) fn numbered(scope: &[usize], operator: usize) -> usize {
    let inner = scope.get(1..).unwrap_or_default();
    inner.iter().fold(0, |number, step| (number + step) << 16) + operator
}

/// Each seat, and whether it is the last of its node on its worker: its rows are those that the node emits.
fn last(seats: &[Arc<Seat>]) -> Vec<(&Arc<Seat>, bool)> {
    let mut known = BTreeSet::new();
    let mut all: Vec<_> = seats.iter().rev().map(|seat| (seat, known.insert((seat.worker, seat.node())))).collect();
    all.reverse();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{RecordBatch, UInt64Array};

    fn rows(n: u64) -> RecordBatch {
        crate::row::batch(vec![("iteration", Arc::new(UInt64Array::from_iter_values(0..n)))]).unwrap()
    }

    #[test]
    fn a_commit_counts_each_run_once_and_the_rows_that_leave_the_node() {
        let watch = Watch::default();
        let inner = watch.seat("group", 0, 3, vec![1]);
        let outer = [0, 1].map(|worker| watch.seat("group sizes", worker, 4, vec![3]));
        let engine = watch.seat("the log of group", 0, 5, vec![4]);
        let run = |seat: &Arc<Seat>, iteration, n| seat.timed(|_, _| Ok(vec![rows(n)]))(iteration, vec![]).unwrap();
        for iteration in 0..2 {
            run(&inner, iteration, 7);
            run(&engine, iteration, 1);
            outer.iter().for_each(|seat| drop(run(seat, iteration, 2)));
        }
        let mut figures = Figures::new();
        watch.figures(0, &mut figures);
        assert_eq!(figures.keys().collect::<Vec<_>>(), ["group"], "the engine's own stages are no nodes");
        assert_eq!(figures["group"]["rows_out"], 4.0);
        assert!(figures["group"]["busy_seconds"] > 0.0);
        let mut figures = Figures::new();
        watch.figures(5, &mut figures);
        assert_eq!((figures["group"]["rows_out"], watch.next()), (4.0, 6));
        let mut none = Figures::new();
        watch.figures(6, &mut none);
        assert!(none.is_empty());
    }

    #[test]
    fn a_reading_says_what_is_held_and_for_whom() {
        let watch = Watch::default();
        watch.seat("rollout", 0, 1, vec![]);
        let seat = watch.seat("update", 1, 2, vec![1, 9]);
        let now = || watch.read().pop().unwrap();
        assert_eq!((now().iteration, now().waits_for, now().running), (None, vec![], None));
        seat.waits(4, [true, true].into_iter());
        assert_eq!((now().iteration, now().waits_for), (Some(4), vec!["rollout".to_string(), "its input".into()]));
        seat.waits(4, [true, false].into_iter());
        assert_eq!(now().waits_for, ["rollout"]);
        seat.begin(4);
        assert!(now().running.is_some() && now().iteration == Some(4) && now().waits_for.is_empty() && now().beats == 1);
        seat.end(4, &Ok(vec![rows(3)]));
        seat.rests();
        assert_eq!((now().iteration, now().running, now().rows, now().beats), (None, None, 3, 2));
    }
}
