//! Turns that servers were asked for and haven't answered yet. An episode goes on as soon as its own answer is there,
//! so that as many requests are in flight as there are episodes that wait, until the last one.

use super::turn::{Answerer, PromptMemory};
use crossbeam_channel::{unbounded, Receiver, Sender};
use flow_model::{PolicyError, Reply, Request, RowFault};
use flow_serve::Answered;
use std::collections::BTreeMap;
use std::time::Duration;

/// A turn that was asked of the policy.
pub struct AskedTurn {
    pub request: Request,
    /// Where a program calls: how long its answer may be, and the texts that end it.
    pub limits: Option<(Option<usize>, Vec<String>)>,
    pub prompt_memory: PromptMemory,
    /// See the column `fork`.
    pub fork: String,
    pub answered_by: Option<Answerer>,
}

/// A turn with its answer, and the number of its episode.
pub type AnsweredTurn = (usize, AskedTurn, Result<Reply, RowFault>);

/// The turns that wait, by the numbers of their episodes.
pub struct PendingTurns {
    asked: BTreeMap<usize, AskedTurn>,
    /// Where answers go.
    pub to: Sender<Answered>,
    from: Receiver<Answered>,
    /// Answers that have arrived.
    arrived: Vec<Answered>,
}

impl Default for PendingTurns {
    fn default() -> Self {
        let (to, from) = unbounded();
        PendingTurns { asked: BTreeMap::new(), to, from, arrived: vec![] }
    }
}

impl PendingTurns {
    pub fn insert(&mut self, episode: usize, turn: AskedTurn) {
        self.asked.insert(episode, turn);
    }

    pub fn contains(&self, episode: &usize) -> bool {
        self.asked.contains_key(episode)
    }

    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Waits for an answer at most so long, and says whether one has arrived.
    pub fn wait(&mut self, patience: Duration) -> bool {
        if self.arrived.is_empty() {
            self.arrived.extend(self.from.recv_timeout(patience));
        }
        !self.arrived.is_empty()
    }

    /// The turns whose answers have arrived, in the order of their episodes. Doesn't wait.
    ///
    /// # Errors
    /// If nothing can be answered any more.
    pub fn take(&mut self) -> Result<Vec<AnsweredTurn>, PolicyError> {
        self.arrived.extend(self.from.try_iter());
        let mut turns = Vec::new();
        for (episode, answer) in self.arrived.drain(..) {
            let answer = answer?;
            turns.extend(self.asked.remove(&episode).map(|turn| (episode, turn, answer)));
        }
        turns.sort_by_key(|(episode, ..)| *episode);
        Ok(turns)
    }
}
