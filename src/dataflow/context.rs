//! What a running pipeline shares: the policy, the metrics, how to stop and how to fail.

use crate::policy::Policy;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use timely::dataflow::operators::probe::Handle;
use timely::scheduling::Activator;

/// Why a run ended early: which node, in which iteration, and what to say.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{node}, iteration {iteration}: {message}")]
pub struct Failure {
    pub node: String,
    pub iteration: u64,
    pub message: String,
}

/// Figures of one iteration, by node and name.
pub type Figures = BTreeMap<String, BTreeMap<String, f64>>;

/// Shared by all workers of a process.
#[derive(Clone, Default)]
pub struct Shared {
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<Failure>>>,
    metrics: Arc<Mutex<BTreeMap<u64, Figures>>>,
}

/// A value behind a lock that a panic elsewhere may have poisoned: the value is whole, because every critical section here is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Opens no further iteration; those in hand are completed.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
    /// The first failure is the one that counts.
    pub fn fail(&self, failure: Failure) {
        lock(&self.failure).get_or_insert(failure);
        self.failed.store(true, Ordering::SeqCst);
    }
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
    pub fn failure(&self) -> Option<Failure> {
        lock(&self.failure).clone()
    }
    /// Adds a figure of a node in an iteration; it is committed with the iteration.
    pub fn measure(&self, iteration: u64, node: &str, name: &str, value: f64) {
        lock(&self.metrics).entry(iteration).or_default().entry(node.into()).or_default().insert(name.into(), value);
    }
    /// The figures of an iteration, taken out.
    pub fn take(&self, iteration: u64) -> Figures {
        lock(&self.metrics).remove(&iteration).unwrap_or_default()
    }
}

/// One worker's view: what operators get when they are rendered.
#[derive(Clone)]
pub struct Context {
    pub seed: u64,
    pub iterations: u64,
    /// How many iterations may be open beyond the oldest one that isn't committed.
    pub ahead: u64,
    /// How many old versions of the weights an update keeps for those that still ask for them.
    pub keep: usize,
    pub policy: Option<Policy>,
    pub shared: Shared,
    pub(super) gate: Gate,
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
