//! A thread beside a worker: jobs go to it and answers come back, and each answer wakes the operator that waits for it. So does the
//! end of the thread, however it comes about: an operator that nobody wakes would never learn of it.

use super::failure::{Failed, Gone};
use crossbeam_channel::{unbounded, Receiver, Sender, TryRecvError};
use timely::scheduling::SyncActivator;

/// The operator's end.
pub(super) struct Beside<J, A> {
    jobs: Sender<J>,
    answers: Receiver<Result<A, Failed>>,
}

/// The thread's end.
pub(super) struct Back<A> {
    /// None once the thread is over.
    answers: Option<Sender<Result<A, Failed>>>,
    wake: SyncActivator,
}

impl<J: Send + 'static, A: Send + 'static> Beside<J, A> {
    /// Starts a thread that works on jobs until it returns. Where it can't be started, [`Beside::answer`] says so.
    pub fn start(name: &str, wake: SyncActivator, body: impl FnOnce(Receiver<J>, Back<A>) + Send + 'static) -> Beside<J, A> {
        let (jobs, inbox) = unbounded();
        let (outbox, answers) = unbounded();
        let back = Back { answers: Some(outbox), wake };
        // Without the thread the channel of its answers is closed.
        let _ = std::thread::Builder::new().name(name.into()).spawn(move || body(inbox, back));
        Beside { jobs, answers }
    }

    /// Hands over a job. If the thread is gone, [`Beside::answer`] says so.
    pub fn send(&self, job: J) {
        let _ = self.jobs.send(job);
    }

    /// An answer, if there is one: what came of a job, or [`Gone`].
    pub fn answer(&self) -> Option<Result<A, Failed>> {
        match self.answers.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Gone.into())),
        }
    }
}

impl<A> Back<A> {
    /// Sends an answer; whether anybody still waits for one.
    pub fn send(&self, answer: Result<A, Failed>) -> bool {
        let sent = self.answers.as_ref().is_some_and(|answers| answers.send(answer).is_ok());
        let _ = self.wake.activate(); // an operator that is gone needs no waking: the run is over
        sent
    }
}

impl<A> Drop for Back<A> {
    fn drop(&mut self) {
        self.answers.take(); // first, so that whoever is woken finds the channel closed
        let _ = self.wake.activate();
    }
}
