//! The policy thread: one thread owns the tensors of a process, and everyone else sends it jobs.

use crate::panics::guarded;
use crate::pause::at_pauses;
use crate::state::{ModelFacts, PolicyState};
use crate::{FoundDevice, Hardware};
use crossbeam_channel::{bounded, select, unbounded, Receiver, Sender};
use flow_core::pulse::Pulse;
use flow_model::{ModelSettings, PolicyError, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often trainers are looked at while nothing is asked of them.
const LOOK: Duration = Duration::from_secs(1);

type PolicyJob = Box<dyn FnOnce(&RefCell<PolicyState>) + Send>;

/// The way to the thread, which ends with the last of them.
#[derive(Clone)]
pub struct PolicyThread {
    jobs: Sender<PolicyJob>,
    /// Jobs that need a version of the weights and nothing else: a long update makes room for them at its pauses.
    reads: Sender<PolicyJob>,
    pub pulse: Arc<Pulse>,
}

/// A thread that has made its models.
pub struct Started {
    pub thread: PolicyThread,
    pub facts: BTreeMap<String, ModelFacts>,
    pub device: FoundDevice,
}

impl PolicyThread {
    /// Starts the thread, and waits until it has made the models.
    ///
    /// # Errors
    /// If a model can't be made: the first one that can't.
    pub fn start(models: &BTreeMap<String, ModelSettings>, words: &[String], seed: u64, hardware: Hardware) -> Result<Started> {
        let ((jobs, queue), (reads, read_queue)) = (unbounded::<PolicyJob>(), unbounded::<PolicyJob>());
        let (ready, made) = bounded(1);
        let (models, words, pulse) = (models.clone(), words.to_vec(), Arc::new(Pulse::default()));
        let beat = pulse.clone();
        let body = move || match guarded(|| PolicyState::new(&models, &words, seed, hardware)) {
            Err(error) => drop(ready.send(Err(error))),
            Ok(state) => {
                drop(ready.send(Ok((state.facts(), state.device().clone()))));
                work(state, &queue, &read_queue, &beat);
            }
        };
        std::thread::Builder::new().name("policy".into()).spawn(body).map_err(|e| PolicyError::Torch(format!("no thread: {e}")))?;
        let (facts, device) = made.recv().map_err(|_| PolicyError::Gone)??;
        Ok(Started { thread: PolicyThread { jobs, reads, pulse }, facts, device })
    }

    /// Runs `work` on the thread, after the jobs queued before it, and waits for its result.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce(&RefCell<PolicyState>) -> Result<T> + Send + 'static) -> Result<T> {
        self.send(&self.jobs, work)
    }

    /// Runs `work`, which asks for a version of the weights that is there, at the next pause of whatever is being done.
    pub fn read<T: Send + 'static>(&self, work: impl FnOnce(&PolicyState) -> Result<T> + Send + 'static) -> Result<T> {
        self.send(&self.reads, move |state| work(&state.borrow()))
    }

    fn send<T: Send + 'static>(
        &self,
        queue: &Sender<PolicyJob>,
        work: impl FnOnce(&RefCell<PolicyState>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (done, answer) = bounded(1);
        let job: PolicyJob = Box::new(move |state| drop(done.send(guarded(|| work(state)))));
        self.pulse.queue();
        queue.send(job).map_err(|_| PolicyError::Gone)?;
        answer.recv().map_err(|_| PolicyError::Gone)?
    }
}

/// Does jobs until the last way to the thread is gone.
fn work(state: PolicyState, queue: &Receiver<PolicyJob>, read_queue: &Receiver<PolicyJob>, beat: &Arc<Pulse>) {
    let state = Rc::new(RefCell::new(state));
    let (meanwhile, read, pulse) = (read_queue.clone(), state.clone(), beat.clone());
    at_pauses(move || {
        read.borrow().account();
        for job in meanwhile.try_iter() {
            pulse.unqueue();
            job(&read);
        }
    });
    let mut looked = Instant::now();
    loop {
        // Both queues end together, with the last handle.
        let job = select! {
            recv(queue) -> job => job.map(Some),
            recv(read_queue) -> job => job.map(Some),
            default(LOOK) => Ok(None),
        };
        let Ok(job) = job else { break };
        if let Some(job) = job {
            beat.unqueue();
            beat.begin();
            state.borrow().account();
            job(&state);
            beat.end();
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            state.borrow().watch().unwrap_or_else(|why| beat.fail(why.to_string()));
        }
    }
}
