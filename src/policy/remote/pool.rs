//! Jobs that wait for a server, as many at a time as its settings say: as one ends the next one begins.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

type Job = Box<dyn FnOnce() + Send>;

/// A queue of jobs, and the threads that do them. A thread lives as long as there is something to do.
#[derive(Clone)]
pub struct Pool {
    state: Arc<Mutex<State>>,
    most: usize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
}

impl Pool {
    /// At most `most` jobs at a time.
    pub fn new(most: usize) -> Pool {
        Pool { state: Arc::default(), most: most.max(1) }
    }

    /// Does `job` once there is room for it.
    pub fn push(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.queue.push_back(Box::new(job));
        if state.threads == self.most {
            return;
        }
        let shared = self.state.clone();
        // Panics of threads with this name become errors of whoever waits for the job.
        if std::thread::Builder::new().name("policy-server".into()).spawn(move || work(&shared)).is_ok() {
            state.threads += 1;
        } else if state.threads == 0 {
            // Without any thread the caller does it.
            let job = state.queue.pop_back();
            drop(state);
            job.into_iter().for_each(|job| job());
        }
    }
}

fn work(shared: &Mutex<State>) {
    loop {
        let job = {
            let mut state = shared.lock();
            let job = state.queue.pop_front();
            if job.is_none() {
                state.threads -= 1;
            }
            job
        };
        let Some(job) = job else { return };
        // Whoever waits for it sees that it is gone: the job's end of the channel is dropped.
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    /// 40 jobs, one of which takes as long as the others together: the others don't wait for it, and never more than four are at work.
    #[test]
    fn jobs_stay_at_the_bound_until_the_last_one() {
        let (pool, now, most) = (Pool::new(4), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (done, all) = unbounded();
        for i in 0..40 {
            let (now, most, done) = (now.clone(), most.clone(), done.clone());
            pool.push(move || {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::sleep(Duration::from_millis(if i == 0 { 150 } else { 10 }));
                now.fetch_sub(1, SeqCst);
                let _ = done.send(i);
            });
        }
        let order: Vec<i32> = all.iter().take(40).collect();
        assert_eq!(most.load(SeqCst), 4);
        assert!(order.iter().position(|i| *i == 0) > Some(30), "{order:?}");
    }

    #[test]
    fn a_job_that_panics_leaves_its_thread_to_the_others() {
        let (pool, (done, all)) = (Pool::new(1), unbounded());
        pool.push(|| panic!("of a job"));
        pool.push(move || done.send(()).unwrap_or_default());
        assert!(all.recv_timeout(Duration::from_secs(10)).is_ok());
    }
}
