//! Waiting for servers while none of them can be reached (`wait` of `serve`).

use super::fleet::Fleet;
use flow_model::ModelFault;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// A wait for a server that is away.
pub struct Wait<'a> {
    fleet: &'a Fleet,
    start: Instant,
    /// Whether this one has said that calls wait.
    told: Cell<bool>,
}

impl Wait<'_> {
    /// A wait that begins now.
    pub fn new(fleet: &Fleet) -> Wait<'_> {
        Wait { fleet, start: Instant::now(), told: Cell::new(false) }
    }

    /// Whether to wait on: a server can't be reached, and may come back in the time that there is for it.
    pub fn on(&self) -> bool {
        let Fleet { wait, replicas, pulse, .. } = self.fleet;
        // Behind a proxy a server that is away answers with an error.
        let away = || {
            let gone = |why: ModelFault| matches!(why, ModelFault::Server { .. });
            replicas.iter().any(|replica| replica.why().is_some_and(|why| gone(why) || !replica.server.healthy()))
        };
        let on = self.start.elapsed() < *wait && away();
        if on {
            pulse.beat();
            if !self.fleet.told_to_wait.swap(true, Relaxed) {
                self.told.set(true);
                eprintln!("note: no server takes part: waiting for one, at most {} s (`wait` of `serve`)", wait.as_secs_f64());
            }
        }
        on
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // The next outage is said again.
        if self.told.get() {
            self.fleet.told_to_wait.store(false, Relaxed);
        }
    }
}
