//! State that a running pipeline shares: the policy, the metrics, the stop request and the first failure.

use super::failure::Failure;
use super::feed::Feeds;
use super::figures::{Figure, NodeFigures};
use super::lost::Lost;
use super::monitor::Owner;
use super::watch::Watch;
use flow_env::process::Programs;
use flow_log::{Part, Run, SavedWeights};
use flow_pipeline::{Pipeline, Until};
use flow_policy::Policy;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use timely::dataflow::operators::probe::Handle;
use timely::scheduling::Activator;

/// Which of the run's processes this is, and how many workers each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Team {
    pub process: usize,
    pub processes: usize,
    pub workers: usize,
}

/// Shared by all workers of a process.
#[derive(Clone, Default)]
pub struct RunState {
    opening: Arc<Mutex<Opening>>,
    failed: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<Failure>>>,
    metrics: Arc<Mutex<BTreeMap<u64, NodeFigures>>>,
    weights: Arc<Mutex<BTreeMap<u64, Vec<SavedWeights>>>>,
    parts: Arc<Mutex<BTreeMap<u64, Vec<Part>>>>,
    /// What every stage is doing.
    pub watch: Arc<Watch>,
    lost: Arc<Mutex<BTreeMap<u64, Vec<Lost>>>>,
    /// The programs that environments run in; they end with the run.
    pub programs: Programs,
}

/// Which iterations are open. All sources must stop at the same one, or some of its rows would be missing.
#[derive(Default)]
struct Opening {
    /// One more than the newest that any source has opened.
    opened: u64,
    until: Option<u64>,
}

impl RunState {
    /// Requests a stop: no further iteration is opened; open iterations are completed.
    pub fn stop(&self) {
        let mut opening = self.opening.lock();
        let opened = opening.opened;
        opening.until.get_or_insert(opened);
    }

    /// The first iteration that a stop cuts off; it is the same for every source.
    pub fn until(&self) -> Option<u64> {
        self.opening.lock().until
    }

    /// Whether a source may open `iteration`.
    pub fn open(&self, iteration: u64) -> bool {
        let mut opening = self.opening.lock();
        opening.opened = opening.opened.max(iteration + 1).min(opening.until.unwrap_or(u64::MAX));
        iteration < opening.opened
    }
    /// The first failure is the one that counts.
    pub fn fail(&self, failure: Failure) {
        self.failure.lock().get_or_insert(failure);
        self.failed.store(true, Ordering::SeqCst);
    }
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
    pub fn failure(&self) -> Option<Failure> {
        self.failure.lock().clone()
    }
    /// Records a metric of a node in an iteration; it is committed with the iteration, aggregated over processes.
    pub fn measure(&self, iteration: u64, node: &str, name: &str, figure: impl Into<Figure>) {
        self.metrics.lock().entry(iteration).or_default().entry(node.into()).or_default().insert(name.into(), figure.into());
    }
    /// Adds to a metric; other workers may have recorded parts of it.
    pub fn add(&self, iteration: u64, node: &str, name: &str, figure: impl Into<Figure>) {
        let (mut metrics, figure) = (self.metrics.lock(), figure.into());
        let figures = metrics.entry(iteration).or_default().entry(node.into()).or_default();
        let sum = figures.get(name).map_or(figure, |before| before.and(figure));
        figures.insert(name.into(), sum);
    }
    /// Records weights that an iteration produced and saved; they are committed with it.
    pub fn saved(&self, iteration: u64, weights: SavedWeights) {
        self.weights.lock().entry(iteration).or_default().push(weights);
    }

    /// The weights of an iteration, taken out, oldest first.
    pub fn take_weights(&self, iteration: u64) -> Vec<SavedWeights> {
        let mut weights = self.weights.lock().remove(&iteration).unwrap_or_default();
        weights.sort_by(|a, b| (&a.model, a.version).cmp(&(&b.model, b.version)));
        weights
    }

    /// Records a file written for an iteration; it is committed with it.
    pub(super) fn wrote(&self, iteration: u64, part: Part) {
        self.parts.lock().entry(iteration).or_default().push(part);
    }

    /// The files of an iteration, taken out.
    pub(super) fn take_parts(&self, iteration: u64) -> Vec<Part> {
        self.parts.lock().remove(&iteration).unwrap_or_default()
    }

    /// Records episodes that failed in an iteration; they are committed with it.
    pub fn lose(&self, iteration: u64, episodes: impl IntoIterator<Item = Lost>) {
        self.lost.lock().entry(iteration).or_default().extend(episodes);
    }

    /// The episodes that failed in an iteration, taken out, in the order of their names and nodes.
    pub fn take_lost(&self, iteration: u64) -> Vec<Lost> {
        let mut lost = self.lost.lock().remove(&iteration).unwrap_or_default();
        lost.sort();
        lost
    }

    /// What this process measured in an iteration, taken out.
    pub(super) fn take(&self, iteration: u64) -> NodeFigures {
        self.metrics.lock().remove(&iteration).unwrap_or_default()
    }
}

/// One worker's view: what operators get when they are rendered.
#[derive(Clone)]
pub struct Context {
    /// The whole pipeline.
    pub pipeline: Arc<Pipeline>,
    pub seed: u64,
    /// The iteration to start with: above 0 when a run is resumed.
    pub first: u64,
    pub iterations: u64,
    /// How many iterations may be open beyond the oldest one that isn't committed.
    pub ahead: u64,
    /// How many old versions of the weights an update keeps for nodes that still ask for them.
    pub keep: usize,
    pub policy: Option<Policy>,
    pub team: Team,
    /// The nodes whose output outlives its iteration: a delayed edge reads it, or no edge at all does.
    pub lasting: Arc<BTreeSet<String>>,
    /// Where weights are saved, if the run keeps a log.
    pub run: Option<Run>,
    pub shared: RunState,
    /// The owner of the stages that are built with this context.
    pub owner: Owner,
    /// The rows from before `first`, of nodes with delayed readers and of nodes with state.
    pub past: Arc<Feeds>,
    /// Initial rows of nodes with delayed readers, for a run from its beginning.
    pub initial: Arc<Feeds>,
    /// The operator's loop.
    pub trial: Option<TrialLimits>,
    pub(super) gate: Gate,
}

impl Context {
    /// The same context for the stages of `owner`.
    pub(super) fn owned_by(&self, owner: Owner) -> Context {
        Context { owner, ..self.clone() }
    }
}

/// The limits of a trial: the attempts that a loop makes at one sample of a task.
#[derive(Clone, Copy, Debug)]
pub struct TrialLimits {
    /// Attempts, at most.
    pub attempts: u64,
    pub until: Until,
}

/// Lets sources wait for a committed iteration without a busy loop.
#[derive(Clone)]
pub(super) struct Gate {
    pub probe: Handle<u64>,
    waiting: Rc<RefCell<Vec<Activator>>>,
}

impl Gate {
    pub fn new() -> Self {
        Gate { probe: Handle::new(), waiting: Rc::default() }
    }
    pub fn wait(&self, activator: Activator) {
        self.waiting.borrow_mut().push(activator);
    }
    pub fn nudge(&self) {
        self.waiting.borrow().iter().for_each(Activator::activate);
    }
}
