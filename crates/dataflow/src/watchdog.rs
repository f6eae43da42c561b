//! A thread that checks the stages twice a second. It writes `status.json`, which `flow top` reads, and detects a run
//! that is stuck: one without progress for longer than the limit ends with a failure that names which stage holds which
//! iteration and what it waits for. A stage that is merely busy is named in a warning first; it ends the run when for
//! twice the limit nothing has given a sign of life and the policy is idle. A fault of the policy ends the run at once.

use super::cluster::life::Life;
use super::context::RunState;
use super::failure::Failure;
use super::judge::Judge;
use super::status::{summarize, write, Activity, PolicyActivity, STATUS};
use crossbeam_channel::{bounded, RecvTimeoutError, Sender};
use flow_core::pulse::Pulse;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interval of its checks.
const TICK: Duration = Duration::from_millis(500);
/// How long the workers may take to end a stuck run before the process exits.
const GRACE: Duration = Duration::from_secs(10);

/// Ends with the run: dropping it ends the thread and removes the status file.
pub(super) struct Watchdog {
    bell: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    status: Option<PathBuf>,
}

impl Watchdog {
    /// Watches a run. `limit` is how long it may make no progress; a stage that takes longer is named. Of several
    /// processes one `decides`, and learns through `life` of progress in the others.
    pub fn start(
        shared: &RunState,
        folder: Option<&Path>,
        iterations: u64,
        limit: Option<Duration>,
        decides: bool,
        mut life: Option<Life>,
    ) -> Watchdog {
        let (bell, rings) = bounded::<()>(0);
        let status = folder.map(|f| f.join(STATUS));
        let (shared, path) = (shared.clone(), status.clone());
        let body = move || {
            let start = Instant::now();
            let before_run = shared.watch.pulse().map(|p| p.busy()).unwrap_or_default();
            // Other processes may wait for this one while it has too few CPUs.
            let computes: fn() -> bool = if life.is_some() { computes } else { || false };
            let (mut judge, mut warnings) = (Judge::new(limit, decides, computes), Vec::new());
            let mut before = start;
            while let Err(RecvTimeoutError::Timeout) = rings.recv_timeout(TICK) {
                let readings = shared.watch.read();
                let pulse = shared.watch.pulse();
                let (beats, works) = pulse.map_or((0, false), |p| (p.beats(), p.working().is_some()));
                let elsewhere = life.as_mut().map_or(0, Life::heard);
                // Time doesn't count while the machine sleeps or the process is suspended.
                let passed = before.elapsed().min(2 * TICK);
                before = Instant::now();
                let verdict = match life.as_ref().and_then(Life::absent) {
                    Some(process) => judge.expect(process, passed),
                    None => judge.look(&readings, Some((beats + elsewhere, works)), passed),
                };
                if let Some(life) = life.as_mut().filter(|_| judge.still.is_zero()) {
                    life.moved();
                }
                for warning in verdict.warnings {
                    eprintln!("warning: {warning}");
                    warnings.push(warning);
                }
                if let Some(path) = &path {
                    let seconds = start.elapsed().as_secs_f64();
                    let busy = |p: &Pulse| p.busy().saturating_sub(before_run).as_secs_f64();
                    let policy = pulse.map(|p| PolicyActivity {
                        busy_seconds: busy(p),
                        busy_share: busy(p) / seconds,
                        running_seconds: p.working().map(|w| w.as_secs_f64()),
                        queue: p.waiting(),
                    });
                    let next = shared.watch.next();
                    let (oldest, nodes) = summarize(&readings);
                    write(
                        path,
                        &Activity {
                            process: Some(std::process::id()),
                            seconds,
                            iterations,
                            next,
                            oldest,
                            nodes,
                            policy,
                            warnings: warnings.clone(),
                        },
                    );
                }
                let fault = pulse.and_then(Pulse::fault).map(|fault| ("policy", fault.to_owned()));
                if let Some((owner, message)) = fault.or(verdict.stalled.map(|message| ("engine", message))) {
                    let failure = Failure::new(owner, shared.watch.next(), message);
                    shared.fail(failure.clone());
                    if let Err(RecvTimeoutError::Timeout) = rings.recv_timeout(GRACE) {
                        eprintln!("error: {failure}\nthe workers don't answer either, so the process ends; committed iterations are safe");
                        std::process::exit(1);
                    }
                    return;
                }
            }
        };
        // Without the thread the run goes on unwatched.
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(body).ok();
        Watchdog { bell: Some(bell), thread, status }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.bell.take();
        let _ = self.thread.take().map(JoinHandle::join); // it has said what it had to say
        let _ = self.status.take().map(fs::remove_file); // it may never have been written
    }
}

/// Whether another thread of this process computes, waits for a CPU or for a disk. On a machine with too much to do
/// that may take long, and it is no standstill.
fn computes() -> bool {
    let own = fs::read_link("/proc/thread-self").unwrap_or_default();
    let state = |stat: String| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    let others = fs::read_dir("/proc/self/task").into_iter().flatten().flatten().filter(|task| Some(&*task.file_name()) != own.file_name());
    others.filter_map(|task| state(fs::read_to_string(task.path().join("stat")).ok()?)).any(|state| "RD".contains(state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn a_thread_that_computes_is_seen() {
        let seen = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !seen.load(Relaxed) {
                    std::hint::spin_loop()
                }
            });
            let end = Instant::now() + Duration::from_secs(60);
            let mut found = false;
            while !found && Instant::now() < end {
                found = computes();
            }
            seen.store(true, Relaxed);
            assert!(found);
        });
    }
}
