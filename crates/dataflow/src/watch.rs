//! What every stage is doing, read from their monitors: for `flow top`, for the watchdog, and for the log.

use super::edge::RowBatch;
use super::figures::Figures;
use super::monitor::{source, Address, Dependency, Owner, StageMonitor, COMMIT};
use flow_core::pulse::Pulse;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use timely::dataflow::Stream;
use timely::progress::Timestamp;

/// A snapshot of one stage on one worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageReading {
    pub stage: String,
    pub owner: Owner,
    pub worker: usize,
    /// The oldest iteration that it is working on or buffering.
    pub iteration: Option<u64>,
    /// For how long it has been working on that iteration.
    pub running: Option<Duration>,
    /// The operators whose rows of that iteration it still waits for.
    pub waits_for: Vec<String>,
    /// Rows that it emitted; 0 for a stage inside a node, whose rows go no further than the node.
    pub rows: u64,
    pub busy: Duration,
    /// The number of times it began or ended a run.
    pub beats: u64,
}

/// The monitors of all stages of a process.
#[derive(Default)]
pub struct Watch {
    /// Each with whether it is the last of its node on its worker: its rows are the node's output.
    monitors: Mutex<Vec<(Arc<StageMonitor>, bool)>>,
    /// Display names of the operators.
    names: Mutex<BTreeMap<Address, String>>,
    policy: OnceLock<Arc<Pulse>>,
    /// The policy's busy time up to the last commit.
    counted: Mutex<Duration>,
    committed: AtomicU64,
}

impl Watch {
    /// A monitor for a stage of `owner` on this worker, whose operator has this `address`. Its rows come from `inputs`.
    pub(super) fn monitor(
        &self,
        owner: &Owner,
        stage: &str,
        worker: usize,
        address: Address,
        inputs: Vec<Dependency>,
    ) -> Arc<StageMonitor> {
        let monitor = Arc::new(StageMonitor::new(owner, stage, worker, inputs));
        self.names.lock().insert(address, stage.into());
        let mut monitors = self.monitors.lock();
        monitors.iter_mut().filter(|(other, _)| (other.worker, &other.owner) == (worker, owner)).for_each(|(_, last)| *last = false);
        monitors.push((monitor.clone(), true));
        monitor
    }

    /// Names the source of `edge`, where that is no stage.
    pub fn name<T: Timestamp>(&self, edge: &Stream<T, RowBatch>, name: String) {
        self.names.lock().insert(source(edge), name);
    }

    /// A run begins at iteration `first`. What its policy thread did before isn't the run's.
    pub(super) fn begin(&self, first: u64, policy: Option<Arc<Pulse>>) {
        self.committed.store(first, Relaxed);
        if let Some(pulse) = policy {
            *self.counted.lock() = pulse.busy();
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

    /// The metrics of the engine at the commit of `iteration`: each node's `busy_seconds` and `rows_out`, and the
    /// `policy_busy_seconds` of `engine` since the previous commit.
    pub(super) fn figures(&self, iteration: u64, figures: &mut Figures) {
        self.committed.fetch_max(iteration + 1, Relaxed);
        let mut sums: BTreeMap<&str, (Duration, u64)> = BTreeMap::new();
        let monitors = self.monitors.lock();
        for (monitor, last) in monitors.iter() {
            let ran = monitor.ran(iteration);
            let Owner::Node(node) = &monitor.owner else { continue };
            for run in ran {
                let sum = sums.entry(node).or_default();
                *sum = (sum.0 + run.duration, sum.1 + if *last { run.rows } else { 0 });
            }
        }
        for (node, (busy, rows)) in sums {
            let node_figures = figures.entry(node.into()).or_default();
            node_figures.insert("busy_seconds".into(), busy.as_secs_f64());
            node_figures.insert("rows_out".into(), rows as f64);
        }
        if let Some(busy) = self.pulse().map(Pulse::busy) {
            let before = std::mem::replace(&mut *self.counted.lock(), busy);
            figures.entry("engine".into()).or_default().insert("policy_busy_seconds".into(), busy.saturating_sub(before).as_secs_f64());
        }
    }

    /// What all stages are doing, in the order of the pipeline.
    pub fn read(&self) -> Vec<StageReading> {
        let (monitors, names) = (self.monitors.lock().clone(), self.names.lock().clone());
        let named = |awaited: &Dependency| match awaited {
            Dependency::Operator(address) => names.get(address).cloned().unwrap_or_else(|| "its input".into()),
            Dependency::Commit => COMMIT.into(),
        };
        let reading = |(monitor, last): &(Arc<StageMonitor>, bool)| {
            let (iteration, waits) = monitor.oldest().unzip();
            StageReading {
                stage: monitor.stage.clone(),
                owner: monitor.owner.clone(),
                worker: monitor.worker,
                iteration,
                running: monitor.pulse.working(),
                waits_for: waits.into_iter().flatten().map(named).collect(),
                rows: if *last { monitor.rows() } else { 0 },
                busy: monitor.pulse.busy(),
                beats: monitor.pulse.beats(),
            }
        };
        monitors.iter().map(reading).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{RecordBatch, UInt64Array};

    fn rows(n: u64) -> RecordBatch {
        flow_core::row::batch(vec![("iteration", Arc::new(UInt64Array::from_iter_values(0..n)))]).unwrap()
    }

    fn operator(index: usize) -> Dependency {
        Dependency::Operator(vec![0, index])
    }

    #[test]
    fn a_commit_counts_each_run_once_and_the_rows_that_leave_the_node() {
        let watch = Watch::default();
        let group = Owner::Node("group".into());
        let inner = watch.monitor(&group, "group", 0, vec![0, 3], vec![operator(1)]);
        let outer = [0, 1].map(|worker| watch.monitor(&group, "group sizes", worker, vec![0, 4], vec![operator(3)]));
        let engine = watch.monitor(&Owner::Engine("the log"), "the log of group", 0, vec![0, 5], vec![operator(4)]);
        let run = |monitor: &Arc<StageMonitor>, iteration, n| monitor.timed(|_, _| Ok(vec![rows(n)]))(iteration, vec![]).unwrap();
        for iteration in 0..2 {
            run(&inner, iteration, 7);
            run(&engine, iteration, 1);
            outer.iter().for_each(|monitor| drop(run(monitor, iteration, 2)));
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
        watch.monitor(&Owner::Node("rollout".into()), "rollout", 0, vec![0, 1], vec![]);
        let monitor = watch.monitor(&Owner::Node("update".into()), "update", 1, vec![0, 2], vec![operator(1), operator(9)]);
        let now = || watch.read().pop().unwrap();
        assert_eq!((now().iteration, now().waits_for, now().running), (None, vec![], None));
        monitor.waits(4, [true, true].into_iter());
        assert_eq!((now().iteration, now().waits_for), (Some(4), vec!["rollout".to_string(), "its input".into()]));
        monitor.waits(4, [true, false].into_iter());
        assert_eq!(now().waits_for, ["rollout"]);
        monitor.begin(4);
        assert!(now().running.is_some() && now().iteration == Some(4) && now().waits_for.is_empty() && now().beats == 1);
        monitor.end(4, &Ok(vec![rows(3)]));
        monitor.rests();
        assert_eq!((now().iteration, now().running, now().rows, now().beats), (None, None, 3, 2));
    }
}
