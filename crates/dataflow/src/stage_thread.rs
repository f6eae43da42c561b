//! A background thread next to a timely worker: it receives jobs and sends back answers. Each answer wakes the operator
//! that waits for it, and so does the end of the thread, however it ends; otherwise the operator would never learn of
//! it.

use super::failure::{Failed, ThreadGone};
use crossbeam_channel::{unbounded, Receiver, Sender, TryRecvError};
use timely::scheduling::SyncActivator;

/// The operator's end.
pub(super) struct StageThread<J, A> {
    jobs: Sender<J>,
    answers: Receiver<Result<A, Failed>>,
}

/// The thread's end.
pub(super) struct ThreadReplies<A> {
    /// None once the thread is over.
    answers: Option<Sender<Result<A, Failed>>>,
    wake: SyncActivator,
}

impl<J: Send + 'static, A: Send + 'static> StageThread<J, A> {
    /// Starts a thread that works on jobs until it returns. Where it can't be started, [`StageThread::answer`] says so.
    pub fn start(name: &str, wake: SyncActivator, body: impl FnOnce(Receiver<J>, ThreadReplies<A>) + Send + 'static) -> StageThread<J, A> {
        let (jobs, inbox) = unbounded();
        let (outbox, answers) = unbounded();
        let back = ThreadReplies { answers: Some(outbox), wake };
        // Without the thread the channel of its answers is closed.
        let _ = std::thread::Builder::new().name(name.into()).spawn(move || body(inbox, back));
        StageThread { jobs, answers }
    }

    /// Sends a job. If the thread is gone, [`StageThread::answer`] reports it.
    pub fn send(&self, job: J) {
        let _ = self.jobs.send(job);
    }

    /// The next answer, if there is one: the result of a job, or [`ThreadGone`].
    pub fn answer(&self) -> Option<Result<A, Failed>> {
        match self.answers.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(ThreadGone.into())),
        }
    }
}

impl<A> ThreadReplies<A> {
    /// Sends an answer; false if the receiver is gone.
    pub fn send(&self, answer: Result<A, Failed>) -> bool {
        let sent = self.answers.as_ref().is_some_and(|answers| answers.send(answer).is_ok());
        let _ = self.wake.activate(); // an operator that is gone needs no waking: the run is over
        sent
    }
}

impl<A> Drop for ThreadReplies<A> {
    fn drop(&mut self) {
        self.answers.take(); // first, so that whoever is woken finds the channel closed
        let _ = self.wake.activate();
    }
}
