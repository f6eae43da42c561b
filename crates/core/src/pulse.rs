//! How busy something is: since when it works, how long it has worked in all, how much waits for it. Written by the one
//! thread that works, read by any; a reading may be a moment old, which is what a reading is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// One worker's pulse.
#[derive(Debug)]
pub struct Pulse {
    start: Instant,
    /// When the work in hand began, in nanoseconds from `start`; 0 while there is none.
    since: AtomicU64,
    total: AtomicU64,
    beats: AtomicU64,
    waiting: AtomicU64,
    fault: OnceLock<String>,
}

impl Default for Pulse {
    fn default() -> Self {
        let [since, total, beats, waiting] = [(); 4].map(|()| AtomicU64::new(0));
        Pulse { start: Instant::now(), since, total, beats, waiting, fault: OnceLock::new() }
    }
}

impl Pulse {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos().max(1) as u64
    }

    /// Work begins.
    pub fn begin(&self) {
        self.since.store(self.now(), Relaxed);
        self.beats.fetch_add(1, Relaxed);
    }

    /// Work ends; answers with how long it took.
    pub fn end(&self) -> Duration {
        let duration = self.now().saturating_sub(self.since.swap(0, Relaxed));
        self.total.fetch_add(duration, Relaxed);
        self.beats.fetch_add(1, Relaxed);
        Duration::from_nanos(duration)
    }

    /// A sign of life from something that waits.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Relaxed);
    }

    /// It can't go on, though no call waits for it. The first reason counts.
    pub fn fail(&self, why: String) {
        let _ = self.fault.set(why);
    }

    /// Why it can't go on.
    pub fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// One more job waits.
    pub fn queue(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    /// One job fewer waits.
    pub fn unqueue(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// How many jobs wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// For how long the work in hand has gone on; `None` while there is none.
    pub fn working(&self) -> Option<Duration> {
        let since = self.since.load(Relaxed);
        (since > 0).then(|| Duration::from_nanos(self.now().saturating_sub(since)))
    }

    /// How long there was work in all, that in hand with it.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.total.load(Relaxed)) + self.working().unwrap_or_default()
    }

    /// How often work began or ended: two readings that agree saw nothing happen between them.
    pub fn beats(&self) -> u64 {
        self.beats.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_while_it_goes_on_and_afterwards() {
        let pulse = Pulse::default();
        assert_eq!((pulse.working(), pulse.busy(), pulse.beats()), (None, Duration::ZERO, 0));
        pulse.begin();
        std::thread::sleep(Duration::from_millis(5));
        let so_far = pulse.busy();
        assert!(so_far >= Duration::from_millis(5) && pulse.working().is_some());
        let duration = pulse.end();
        assert!(duration >= so_far && pulse.busy() == duration && pulse.working().is_none());
        assert_eq!(pulse.beats(), 2);
        pulse.queue();
        assert_eq!(pulse.waiting(), 1);
        pulse.unqueue();
        assert_eq!(pulse.waiting(), 0);
    }
}
