//! Jobs that wait for servers, as many at a time at each as its settings say: as one ends the next one begins. A server
//! that has nothing to do takes a job that waits for another one, so that none is idle before the last job.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

/// Done at the server of that number; false where that can't do it.
type Job = Box<dyn FnOnce(usize) -> bool + Send>;

/// A queue of jobs for each server, and the threads that do them. A thread lives as long as there is something to do.
#[derive(Clone)]
pub struct Pool {
    state: Arc<Mutex<State>>,
    most: usize,
}

struct State {
    queues: Vec<VecDeque<Job>>,
    threads: Vec<usize>,
    /// Jobs that are being done.
    busy: Vec<usize>,
}

impl Pool {
    /// At most `most` jobs at a time at each of `servers`.
    pub fn new(servers: usize, most: usize) -> Pool {
        let queues = (0..servers).map(|_| VecDeque::new()).collect();
        Pool { state: Arc::new(Mutex::new(State { queues, threads: vec![0; servers], busy: vec![0; servers] })), most: most.max(1) }
    }

    /// Jobs that each server does or has waiting.
    pub fn loads(&self) -> Vec<usize> {
        let state = self.state.lock();
        state.queues.iter().zip(&state.busy).map(|(queue, busy)| queue.len() + busy).collect()
    }

    /// Does `job` at the server `at` once there is room for it, or before at one of `others`.
    pub fn push(&self, at: usize, others: &[usize], job: impl FnOnce(usize) -> bool + Send + 'static) {
        let mut state = self.state.lock();
        state.queues[at].push_back(Box::new(job));
        let Some(free) = std::iter::once(&at).chain(others).copied().find(|&i| state.threads[i] < self.most) else { return };
        let shared = self.state.clone();
        // Panics of threads with this name become errors of the job.
        if std::thread::Builder::new().name("policy-server".into()).spawn(move || work(&shared, free)).is_ok() {
            state.threads[free] += 1;
        } else if state.threads.iter().all(|threads| *threads == 0) {
            // Without any thread the caller does it.
            let job = state.queues[at].pop_back();
            drop(state);
            if let Some(job) = job {
                job(at);
            }
        }
    }
}

fn work(shared: &Mutex<State>, at: usize) {
    let mut takes = true;
    loop {
        let job = {
            let mut state = shared.lock();
            let longest = (0..state.queues.len()).filter(|_| takes).max_by_key(|&i| state.queues[i].len()).unwrap_or(at);
            let job = state.queues[at].pop_front().or_else(|| state.queues[longest].pop_front());
            match job {
                None => state.threads[at] -= 1,
                Some(_) => state.busy[at] += 1,
            }
            job
        };
        let Some(job) = job else { return };
        // The caller of a job that panics notices it: the job's end of the channel is dropped.
        takes &= catch_unwind(AssertUnwindSafe(|| job(at))).unwrap_or(true);
        shared.lock().busy[at] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    /// 40 jobs, one of which takes as long as the others together: the others don't wait for it, and never more than
    /// four are at work.
    #[test]
    fn jobs_stay_at_the_bound_until_the_last_one() {
        let (pool, now, most) = (Pool::new(1, 4), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (done, all) = unbounded();
        for i in 0..40 {
            let (now, most, done) = (now.clone(), most.clone(), done.clone());
            pool.push(0, &[], move |_| {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::sleep(Duration::from_millis(if i == 0 { 150 } else { 10 }));
                now.fetch_sub(1, SeqCst);
                done.send(i).is_ok()
            });
        }
        let order: Vec<i32> = all.iter().take(40).collect();
        assert_eq!(most.load(SeqCst), 4);
        assert!(order.iter().position(|i| *i == 0) > Some(30), "{order:?}");
    }

    #[test]
    fn a_job_that_panics_leaves_its_thread_to_the_others() {
        let (pool, (done, all)) = (Pool::new(1, 1), unbounded());
        pool.push(0, &[], |_| panic!("of a job"));
        pool.push(0, &[], move |_| done.send(()).is_ok());
        assert!(all.recv_timeout(Duration::from_secs(10)).is_ok());
    }

    /// 40 jobs for the first of two servers: the other one does about half of them, and a third that can't do any
    /// doesn't keep them.
    #[test]
    fn a_server_with_nothing_to_do_takes_jobs_of_another() {
        let (pool, (done, all)) = (Pool::new(3, 2), unbounded());
        for _ in 0..40 {
            let (done, again) = (done.clone(), pool.clone());
            pool.push(0, &[2, 1], move |at| {
                if at == 2 {
                    again.push(0, &[], move |at| done.send(at).is_ok());
                    return false;
                }
                std::thread::sleep(Duration::from_millis(5));
                done.send(at).is_ok()
            });
        }
        let at: Vec<usize> = (0..40).filter_map(|_| all.recv_timeout(Duration::from_secs(10)).ok()).collect();
        let others = at.iter().filter(|at| **at == 1).count();
        assert!(at.len() == 40 && (8..=32).contains(&others), "{at:?}");
    }
}
