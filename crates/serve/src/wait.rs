//! Waiting for servers while none of them can be reached (`wait` of `serve`).

use super::replica::Replica;
use flow_core::pulse::Pulse;
use flow_model::ModelFault;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How calls wait for servers of a model.
pub struct Patience {
    /// How long a call waits for a server that is away.
    pub most: Duration,
    /// Whether it was said that calls wait; of many that wait for one server, one says so.
    announced: AtomicBool,
    /// What shows that a wait is no standstill.
    pulse: Arc<Pulse>,
}

impl Patience {
    /// Calls wait for `most`, and `pulse` beats meanwhile.
    pub fn new(most: Duration, pulse: Arc<Pulse>) -> Patience {
        Patience { most, announced: AtomicBool::new(false), pulse }
    }
}

/// A wait for a server that is away.
pub struct Wait<'a> {
    patience: &'a Patience,
    replicas: &'a [Replica],
    start: Instant,
    /// Whether this one has said that calls wait.
    announced: Cell<bool>,
}

impl<'a> Wait<'a> {
    /// A wait for one of these servers that begins now.
    pub fn new(patience: &'a Patience, replicas: &'a [Replica]) -> Wait<'a> {
        Wait { patience, replicas, start: Instant::now(), announced: Cell::new(false) }
    }

    /// Whether to wait on: a server can't be reached, and may come back in the time that there is for it.
    pub fn on(&self) -> bool {
        let Patience { most, announced, pulse } = self.patience;
        // Behind a proxy a server that is away answers with an error.
        let away = || {
            let gone = |why: ModelFault| matches!(why, ModelFault::Server { .. });
            self.replicas.iter().any(|replica| replica.why().is_some_and(|why| gone(why) || !replica.server.healthy()))
        };
        let on = self.start.elapsed() < *most && away();
        if on {
            pulse.beat();
            if !announced.swap(true, Relaxed) {
                self.announced.set(true);
                eprintln!("note: no server takes part: waiting for one, at most {} s (`wait` of `serve`)", most.as_secs_f64());
            }
        }
        on
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // The next outage is said again.
        if self.announced.get() {
            self.patience.announced.store(false, Relaxed);
        }
    }
}
