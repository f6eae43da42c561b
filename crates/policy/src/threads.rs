//! Spreads independent jobs over threads, so that the results don't depend on their number.

use flow_model::{PolicyError, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Runs `run` once a job, on up to `threads` threads with a `state` of their own, and gives the results in the order of
/// the jobs. Each thread computes alone: libtorch's own threads stay unused, so a result depends on its job and on
/// nothing else.
pub fn spread<S: Send, J: Sync, T: Send>(
    threads: usize,
    state: impl Fn() -> S,
    jobs: &[J],
    run: impl Fn(&S, &J) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = threads.min(jobs.len());
    if threads <= 1 {
        let state = state();
        return jobs.iter().map(|job| run(&state, job)).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<T>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = |state: S| {
        tch::set_num_threads(1);
        while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < jobs.len()) {
            let result = run(&state, &jobs[i]);
            if let Ok(mut place) = results[i].lock() {
                *place = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads)
            .map(|i| {
                let (state, work) = (state(), &work);
                std::thread::Builder::new().name(format!("policy-{i}")).spawn_scoped(scope, move || work(state))
            })
            .collect();
        work(state());
        for helper in helpers {
            match helper.map(|helper| helper.join()) {
                Ok(Ok(())) => {}
                Ok(Err(panic)) => return Err(PolicyError::Torch(crate::panics::panic_text(panic.as_ref()))),
                Err(error) => return Err(PolicyError::Torch(format!("no thread: {error}"))),
            }
        }
        Ok(())
    })?;
    let lost = || Err(PolicyError::Torch("a job was lost".into()));
    results.into_iter().map(|place| place.into_inner().ok().flatten().unwrap_or_else(lost)).collect()
}
