//! One of the servers that generate for a model: whether it takes part, which adapters it has proved, and how far its log-probabilities are from the
//! learner's.

use super::api::{Call, ServingApi};
use super::server::{FailedAttempt, Server, ServerError};
use crate::policy::{ModelFault, PolicyError, RowFault, Unanswered};
use crate::printable::printable;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a server that failed is left alone; each further time twice as long.
const AWAY: Duration = Duration::from_secs(1);
const LONGEST_AWAY: Duration = Duration::from_secs(60);

/// An adapter that lies on disk for servers to load, and what proves that a server has it.
pub struct Adapter {
    pub name: String,
    pub folder: PathBuf,
    /// The learner's log-probabilities of the tokens of the probe, from the second on.
    pub expected: Vec<f32>,
}

/// One server.
pub struct Replica {
    pub server: Server,
    state: Mutex<ReplicaState>,
    /// Held by whoever has it load and prove adapters.
    proving: Mutex<()>,
}

#[derive(Default)]
struct ReplicaState {
    away: Option<Away>,
    /// The adapters that it has loaded and proved.
    proved: BTreeSet<String>,
    /// The mean difference of its newest proof.
    gap: Option<f64>,
    /// When it last proved something.
    proof: Option<Instant>,
}

/// Why a server takes no part, and when it is asked again.
struct Away {
    why: ModelFault,
    again: Instant,
    pause: Duration,
    /// Whether somebody proves it now.
    probed: bool,
}

impl Replica {
    pub fn new(server: Server) -> Replica {
        Replica { server, state: Mutex::default(), proving: Mutex::default() }
    }

    /// Whether it takes part and has proved this adapter.
    pub fn has(&self, adapter: &str) -> bool {
        let state = self.state.lock();
        state.away.is_none() && state.proved.contains(adapter)
    }

    /// Whether it takes part.
    pub fn present(&self) -> bool {
        self.state.lock().away.is_none()
    }

    /// Whether it is away and due to be asked again: one caller is told so, who then does.
    pub fn claim(&self) -> bool {
        let (mut state, now) = (self.state.lock(), Instant::now());
        let due = state.away.as_mut().filter(|away| away.again <= now);
        due.map(|away| (away.again, away.probed) = (now + LONGEST_AWAY, true)).is_some()
    }

    /// Whether somebody proves it now, so that it may be back soon.
    pub fn probed(&self) -> bool {
        self.state.lock().away.as_ref().is_some_and(|away| away.probed)
    }

    /// The mean difference of its newest proof, in nats.
    pub fn gap(&self) -> Option<f64> {
        self.state.lock().gap
    }

    /// Why it takes no part.
    pub fn why(&self) -> Option<ModelFault> {
        self.state.lock().away.as_ref().map(|away| away.why.clone())
    }

    /// Forgets what it has proved, so that adapters are loaded again.
    pub fn forget(&self) {
        self.state.lock().proved.clear();
    }

    /// Leaves it out, and says so the first time.
    pub fn leave_out(&self, why: ModelFault) {
        let pause = self.state.lock().away.as_ref().map_or(AWAY, |away| (away.pause * 2).min(LONGEST_AWAY));
        self.away(why, pause);
    }

    fn away(&self, why: ModelFault, pause: Duration) {
        let mut state = self.state.lock();
        state.proved.clear();
        let again = Instant::now() + pause;
        let first = state.away.replace(Away { why: why.clone(), again, pause: pause.max(AWAY), probed: false }).is_none();
        drop(state);
        if first {
            eprintln!("warning: the server {} is left out: {}", self.server.host(), printable(&why.to_string()));
        }
    }

    /// Has it load and prove `adapters`, and take part if it can; what it has proved isn't asked again.
    pub fn prove(&self, api: &dyn ServingApi, adapters: &[&Adapter], probe: &[u32], max_gap: f64) {
        let _one_at_a_time = self.proving.lock();
        let fresh: Vec<&&Adapter> = adapters.iter().filter(|adapter| !self.has(&adapter.name)).collect();
        for adapter in fresh {
            if let Err(why) = self.proves(api, adapter, probe, max_gap) {
                return self.leave_out(why);
            }
            let mut state = self.state.lock();
            state.proved.insert(adapter.name.clone());
            state.proof = Some(Instant::now());
        }
        if self.state.lock().away.take().is_some() {
            eprintln!("note: the server {} has proved itself and takes part again", self.server.host());
        }
    }

    fn proves(&self, api: &dyn ServingApi, adapter: &Adapter, probe: &[u32], max_gap: f64) -> Result<(), ModelFault> {
        let gone = |what| ModelFault::Server { what };
        let (path, body) = api.load(&adapter.name, &adapter.folder);
        match self.server.tell(path, &body) {
            Ok(()) => {}
            // By another process of this run, or before this one was resumed: the proof says whether it is this adapter.
            Err(ServerError::Row(RowFault::Unanswered { cause: Unanswered::Refused, what })) if api.loaded_already(&what) => {}
            Err(ServerError::Gone(what)) => return Err(gone(what)),
            Err(ServerError::Row(fault @ RowFault::Unanswered { cause: Unanswered::Late, .. })) => return Err(gone(fault.to_string())),
            Err(ServerError::Refused(what)) => return Err(ModelFault::NotLoaded { what }),
            Err(ServerError::Row(fault)) => return Err(ModelFault::NotLoaded { what: fault.to_string() }),
        }
        let (path, body) = api.weigh(&adapter.name, probe);
        let weighed = self.server.ask(path, &body, |response| api.weighed(response, probe, 1));
        let logprobs = weighed.map_err(|error| gone(error.text()))?;
        let gap = mean_difference(&logprobs, &adapter.expected);
        self.state.lock().gap = Some(gap);
        if gap <= max_gap {
            Ok(())
        } else {
            Err(ModelFault::Gap { server: self.server.host().into(), adapter: adapter.name.clone(), gap, max_gap })
        }
    }

    /// Sends a request once.
    pub fn call<T>(&self, (path, body): &Call, read: impl Fn(&Value) -> Result<T, ServerError>) -> Result<T, FailedAttempt> {
        self.server.ask_once(path, body, read)
    }

    /// Has it forget an adapter. If it doesn't, nothing is lost.
    pub fn unload(&self, api: &dyn ServingApi, adapter: &str) {
        self.state.lock().proved.remove(adapter);
        if self.present() {
            let (path, body) = api.unload(adapter);
            drop(self.server.tell_once(path, &body));
        }
    }

    /// What a failure of a request that was sent at `sent` says of it. One that it refuses has it prove itself again at once: it may have begun
    /// again, and have no adapters any more. Where a request found it gone or late it is left out unless it says that it is well.
    pub fn failed(&self, failure: &FailedAttempt, sent: Instant) {
        // What it was before its last proof tells nothing.
        if !self.present() || self.state.lock().proof.is_some_and(|proof| proof > sent) {
            return;
        }
        let why = ModelFault::Server { what: failure.trouble.text() };
        if matches!(failure.trouble, ServerError::Refused(_)) {
            self.away(why, Duration::ZERO);
        } else if failure.lost() && !self.server.healthy() {
            self.leave_out(why);
        }
    }

    /// This fault of the model that it generates for.
    pub fn fault(&self, fault: ModelFault) -> PolicyError {
        self.server.fault(fault)
    }
}

/// The mean of |a - b|; infinite where the two don't go together.
fn mean_difference(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() || a.is_empty() {
        return f64::INFINITY;
    }
    a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / a.len() as f64
}

#[cfg(test)]
mod tests {
    use super::mean_difference;

    #[test]
    fn a_gap_is_a_mean_of_differences() {
        assert_eq!(mean_difference(&[-1.0, -2.5], &[-1.5, -2.0]), 0.5);
        assert_eq!(mean_difference(&[-1.0], &[-1.0, -2.0]), f64::INFINITY);
    }
}
