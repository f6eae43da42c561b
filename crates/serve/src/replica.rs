//! One of the servers that generate for a model: whether it takes part, which adapters it has proved, and how far its
//! log-probabilities are from the learner's. A server that takes whole weights holds one version: it is
//! [held](Replica::hold) while a request is answered by it.

use super::api::{Call, ServingApi};
use super::exported::Weights;
use super::receiver::Receiver;
use super::server::{FailedAttempt, Server, ServerError};
use flow_core::printable::printable;
use flow_model::{ModelFault, PolicyError, RowFault, Unanswered};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a server that failed is left alone; each further time twice as long.
const AWAY: Duration = Duration::from_secs(1);
const LONGEST_AWAY: Duration = Duration::from_secs(60);
/// The same where a run waits for it.
const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// How vLLM in its development mode is asked to give its memory away and to take it back. At level 1 its weights and
/// adapters go to the machine's memory, and the prefix cache is forgotten.
const SLEEP: &str = "/sleep?level=1";
const WAKE: &str = "/wake_up";

/// An adapter that lies on disk for servers to load, or all weights of a model, and what proves that a server has them.
pub struct Adapter {
    pub name: String,
    pub folder: PathBuf,
    /// What the weights are.
    pub kind: Weights,
    /// The learner's log-probabilities of the tokens of the probe, from the second on.
    pub expected: Vec<f32>,
}

impl Adapter {
    /// The name that a request has as its model; none for whole weights, which a server computes with anyway.
    pub fn model(&self) -> Option<&str> {
        (self.kind == Weights::Adapter).then_some(&self.name)
    }

    /// Whether a server takes all its weights in place of its own.
    fn replaces_weights(&self) -> bool {
        self.kind == Weights::Whole
    }
}

/// What servers prove their weights by.
pub struct Proof {
    /// A prompt, which the learner weighs as well.
    pub probe: Vec<u32>,
    /// The largest mean difference of its log-probabilities.
    pub max_gap: f64,
    /// The rows of the model's output matrix and the tokens of its vocabulary, where these are fewer.
    pub beyond: Option<(usize, usize)>,
}

/// Whether a difference is the one between all rows of an output matrix and those of the vocabulary alone, as weights
/// that were never trained have it.
fn explains(rows: usize, tokens: usize, gap: f64) -> bool {
    let beyond = (rows as f64 / tokens as f64).ln();
    (gap - beyond).abs() < 0.1 * beyond + 0.05
}

/// One server.
pub struct Replica {
    pub server: Server,
    /// The longest pause between two looks at it while it is away.
    longest: Duration,
    /// What weights are sent to that the server loads, where it doesn't see this disk.
    receiver: Option<Receiver>,
    state: Mutex<ReplicaState>,
    /// Whether it was put to sleep, and is to be woken before it computes anything.
    asleep: AtomicBool,
    /// Write-locked while it loads and proves weights; read-locked by requests that need its weights unchanged.
    loading: RwLock<()>,
}

/// Weights that a server keeps as long as this lives.
pub struct Held<'a> {
    _lock: Option<RwLockReadGuard<'a, ()>>,
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
    /// A connection on which nothing is asked, opened before it took whole weights: it breaks when the server begins
    /// again.
    line: Option<TcpStream>,
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
    pub fn new(server: Server, receiver: Option<Receiver>, waits: bool) -> Replica {
        let longest = if waits { LONGEST_WAIT } else { LONGEST_AWAY };
        Replica { server, longest, receiver, state: Mutex::default(), asleep: AtomicBool::new(false), loading: RwLock::default() }
    }

    /// Whether it takes part and has proved this adapter.
    pub fn has(&self, adapter: &str) -> bool {
        let state = self.state.lock();
        state.away.is_none() && state.proved.contains(adapter)
    }

    /// Whether it can be asked: it takes part and has these weights, or takes them when it is asked.
    pub fn fit(&self, adapter: &Adapter) -> bool {
        if adapter.replaces_weights() {
            self.present()
        } else {
            self.has(&adapter.name)
        }
    }

    /// Whether it takes part.
    pub fn present(&self) -> bool {
        self.state.lock().away.is_none()
    }

    /// Whether it is away and due to be asked again: true for one caller, which then asks.
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

    /// Whether it has proved something after `moment`.
    pub fn proved_since(&self, moment: Instant) -> bool {
        self.state.lock().proof.is_some_and(|proof| proof > moment)
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
        let pause = self.state.lock().away.as_ref().map_or(AWAY, |away| (away.pause * 2).min(self.longest));
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

    /// Keeps its weights what `adapter` asks for as long as the result lives: of whole weights it takes those first
    /// where it has others. None where it can't, and is left out.
    pub fn hold(&self, api: &dyn ServingApi, adapter: &Adapter, proof: &Proof) -> Option<Held<'_>> {
        if !adapter.replaces_weights() {
            return self.has(&adapter.name).then_some(Held { _lock: None });
        }
        let lock = self.loading.read();
        if self.sure(&adapter.name) {
            return Some(Held { _lock: Some(lock) });
        }
        drop(lock);
        let alone = self.loading.write();
        if !self.sure(&adapter.name) {
            self.proves_all(api, &[adapter], proof);
        }
        let lock = RwLockWriteGuard::downgrade(alone);
        self.has(&adapter.name).then_some(Held { _lock: Some(lock) })
    }

    /// Whether it needs no loading for these weights.
    fn ready(&self, adapter: &Adapter) -> bool {
        if adapter.replaces_weights() {
            self.sure(&adapter.name)
        } else {
            self.has(&adapter.name)
        }
    }

    /// Whether its whole weights are those: it took them, and hasn't begun again since.
    fn sure(&self, name: &str) -> bool {
        let state = self.state.lock();
        let open = state.line.as_ref().is_some_and(|line| line.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
        state.away.is_none() && state.proved.contains(name) && open
    }

    /// Has it load and prove `adapters`, and take part if it can; what it has proved isn't asked again. Of whole
    /// weights the last ones count.
    pub fn prove(&self, api: &dyn ServingApi, adapters: &[&Adapter], proof: &Proof) {
        let _alone = self.loading.write();
        self.proves_all(api, adapters, proof);
    }

    /// Has it give the memory of its GPU away, where it can.
    pub fn sleep(&self) {
        let slept = self.server.load(SLEEP, &json!({}));
        // One whose answer was lost may sleep; one that refuses doesn't, and one that is awake takes no harm of waking up.
        self.asleep.store(!matches!(slept, Err(ServerError::Refused(_))), Relaxed);
        if let Some(error) = slept.err().filter(|_| self.present()) {
            eprintln!("warning: the server {} may keep its memory: {}", self.server.host(), printable(&error.text()));
        }
    }

    /// Has it take its memory back, if it sleeps.
    pub fn wake(&self) -> Result<(), ModelFault> {
        if self.asleep.load(Relaxed) {
            let woken = self.server.load(WAKE, &json!({}));
            woken.map_err(|error| ModelFault::Server { what: format!("it doesn't wake up: {}", error.text()) })?;
            self.asleep.store(false, Relaxed);
        }
        Ok(())
    }

    fn proves_all(&self, api: &dyn ServingApi, adapters: &[&Adapter], proof: &Proof) {
        // An adapter that is loaded into memory that isn't there would end a server.
        if let Err(why) = self.wake() {
            return self.leave_out(why);
        }
        let last = adapters.iter().rposition(|adapter| adapter.replaces_weights()).unwrap_or(0);
        for adapter in adapters.iter().skip(last) {
            if self.ready(adapter) {
                continue;
            }
            if let Err(why) = self.loads(api, adapter).and_then(|()| self.weighs(api, adapter, proof)) {
                // Sent files may be damaged there.
                self.receiver.iter().filter(|_| matches!(why, ModelFault::Gap { .. })).for_each(|receiver| receiver.remove(&adapter.name));
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

    /// Has it load weights that aren't its own.
    fn loads(&self, api: &dyn ServingApi, adapter: &Adapter) -> Result<(), ModelFault> {
        if adapter.kind == Weights::Own {
            return Ok(());
        }
        let gone = |what| ModelFault::Server { what };
        let sent = self.receiver.as_ref().map(|receiver| receiver.send(&adapter.name, &adapter.folder));
        let folder = sent.transpose().map_err(gone)?.unwrap_or_else(|| adapter.folder.clone());
        if adapter.replaces_weights() {
            let line = self.server.line().map_err(gone)?;
            let mut state = self.state.lock();
            state.proved.clear();
            state.line = Some(line);
            drop(state);
            let taken = api.replace(&folder).into_iter().try_for_each(|(path, body)| self.server.load(path, &body));
            return taken.map_err(|error| match error {
                ServerError::Gone(what) => gone(what),
                error if self.server.loads_adapters() => ModelFault::TakesAdapters { what: error.text() },
                error => ModelFault::NotReplaced { what: error.text() },
            });
        }
        let (path, body) = api.load(&adapter.name, &folder);
        match self.server.tell(path, &body) {
            Ok(()) => {}
            // By another process of this run, or before this one was resumed: the proof says whether it is this
            // adapter.
            Err(ServerError::Row(RowFault::Unanswered { cause: Unanswered::Refused, what })) if api.loaded_already(&what) => {}
            Err(ServerError::Gone(what)) => return Err(gone(what)),
            Err(ServerError::Row(fault @ RowFault::Unanswered { cause: Unanswered::Late, .. })) => return Err(gone(fault.to_string())),
            Err(ServerError::Refused(what)) => return Err(ModelFault::NotLoaded { what }),
            Err(ServerError::Row(fault)) => return Err(ModelFault::NotLoaded { what: fault.to_string() }),
        }
        Ok(())
    }

    /// Has it prove weights that it has loaded.
    fn weighs(&self, api: &dyn ServingApi, adapter: &Adapter, Proof { probe, max_gap, beyond }: &Proof) -> Result<(), ModelFault> {
        let gone = |what| ModelFault::Server { what };
        let (path, body) = api.weigh(adapter.model(), probe);
        let weighed = self.server.ask(path, &body, |response| api.weighed(response, probe, 1));
        let logprobs = weighed.map_err(|error| gone(error.text()))?;
        let gap = mean_difference(&logprobs, &adapter.expected);
        self.state.lock().gap = Some(gap);
        if gap <= *max_gap {
            Ok(())
        } else {
            let own = adapter.kind == Weights::Own;
            let weights = if own { "its own weights".into() } else { format!("`{}`", adapter.name).into() };
            Err(ModelFault::Gap {
                server: self.server.host().into(),
                weights,
                gap,
                max_gap: *max_gap,
                beyond: beyond.filter(|(rows, tokens)| explains(*rows, *tokens, gap)).map(|(rows, tokens)| (rows as u32, tokens as u32)),
            })
        }
    }

    /// Sends a request once.
    pub fn call<T>(&self, (path, body): &Call, read: impl Fn(&Value) -> Result<T, ServerError>) -> Result<T, FailedAttempt> {
        self.server.ask_once(path, body, read)
    }

    /// Has it forget weights that no node asks for any more. If it doesn't, nothing is lost.
    pub fn unload(&self, api: &dyn ServingApi, name: &str, kind: Weights) {
        self.state.lock().proved.remove(name);
        if self.present() && kind == Weights::Adapter {
            let (path, body) = api.unload(name);
            drop(self.server.tell_once(path, &body));
        }
        self.receiver.iter().for_each(|receiver| receiver.remove(name));
    }

    /// What a failure of a request that was sent at `sent` says of it. One that it refuses has it prove itself again at
    /// once: it may have begun again, and have no adapters any more. Where a request found it gone or late it is left
    /// out unless it says that it is well.
    pub fn failed(&self, failure: &FailedAttempt, sent: Instant) {
        // What it was before its last proof tells nothing.
        if !self.present() || self.proved_since(sent) {
            return;
        }
        let why = ModelFault::Server { what: failure.trouble.text() };
        if failure.lost() {
            // It may be there again already, with the weights that it was started with.
            self.state.lock().line = None;
        }
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
    use super::{explains, mean_difference};

    #[test]
    fn rows_beyond_the_vocabulary_explain_their_own_difference_alone() {
        assert!(explains(151_936, 257, 6.43) && explains(151_936, 257, 6.38), "log(151,936/257)");
        assert!(!explains(151_936, 151_665, 0.8) && !explains(151_936, 257, 2.0) && !explains(600, 300, 3.0));
    }

    #[test]
    fn a_gap_is_a_mean_of_differences() {
        assert_eq!(mean_difference(&[-1.0, -2.5], &[-1.5, -2.0]), 0.5);
        assert_eq!(mean_difference(&[-1.0], &[-1.0, -2.0]), f64::INFINITY);
    }
}
