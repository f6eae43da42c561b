//! Episodes that fail: which are retried, which are given up, and when there are too many.
//!
//! Seeds follow from names, so an episode that is retried from its start plays as if it had never failed. It is retried
//! only when all the others are done: if it breaks a process that they share, it breaks few of them.

use super::summary::Summary;
use flow_env::Fault;

/// How often an episode is tried, and how many may fail.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// How often an episode is played, at most, before it is given up.
    pub tries: u32,
    /// The share of an iteration's episodes that may be given up, from 0 to 1.
    pub max_failed: f64,
}

/// The episodes of an iteration that wait for a try, and the failed ones. An episode is known by its index, from 0.
pub struct Retries {
    policy: RetryPolicy,
    /// Episodes that were played before in the same iteration, and how many of them were given up.
    before: (usize, usize),
    /// How often each has failed.
    failures: Vec<u32>,
    /// Episodes to be started next.
    due: Vec<usize>,
    /// Episodes to be retried when all others are done.
    later: Vec<usize>,
    /// Failed tries that were followed by another.
    pub retried: usize,
    given_up: Vec<GivenUp>,
    /// The number of episodes given up.
    lost: usize,
}

/// An episode that was given up: its name, the turn of its last failure, and the cause. In the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailedEpisode {
    /// The task's name.
    pub task: String,
    /// Which of the task's trajectories.
    pub sample: u32,
    /// Which attempt within it.
    pub attempt: u32,
    /// The turn of its last failure.
    pub turn: u32,
    /// The kind of failure, as [`flow_env::Cause::name`] has it.
    pub cause: &'static str,
    /// The fault.
    pub error: String,
    /// How often it was tried.
    pub tries: u32,
    /// Its number in the sampler; 0 for a reflection.
    pub number: usize,
}

/// An episode that has failed in its last try.
#[derive(Clone, Debug)]
pub struct GivenUp {
    /// Its index.
    pub episode: usize,
    /// The turn of its last failure.
    pub turn: u32,
    /// Why.
    pub fault: Fault,
    /// How often it was tried.
    pub tries: u32,
}

impl Retries {
    /// No episode is known yet; `before` is what the iteration's earlier episodes came to.
    pub fn new(policy: RetryPolicy, before: &Summary) -> Retries {
        let before = (before.episodes + before.branches.episodes, before.failed + before.branches.failed);
        Retries { policy, before, failures: vec![], due: vec![], later: vec![], retried: 0, given_up: vec![], lost: 0 }
    }

    /// Adds an episode to be started, and returns its index.
    pub fn more(&mut self) -> usize {
        self.due.push(self.failures.len());
        self.failures.push(0);
        self.failures.len() - 1
    }

    /// The episodes given up since the last call.
    pub fn given_up(&mut self) -> Vec<GivenUp> {
        std::mem::take(&mut self.given_up)
    }

    /// The episodes to start now, in order; `idle` says that none is being played.
    pub fn start(&mut self, idle: bool) -> Vec<usize> {
        let mut now = std::mem::take(&mut self.due);
        // Once so many wait that giving them up would end the run, there is nothing left to gain by waiting.
        if idle && now.is_empty() || self.many(self.lost + self.later.len()) {
            now.append(&mut self.later);
        }
        now.sort_unstable();
        now
    }

    /// Records a failure in a turn of an episode, which is given up or will be retried.
    pub fn failed(&mut self, episode: usize, turn: u32, fault: Fault) {
        self.failures[episode] += fault.own as u32;
        let tries = self.failures[episode];
        if fault.own && (tries >= self.policy.tries || fault.cause.lasting()) {
            self.given_up.push(GivenUp { episode, turn, fault, tries });
            self.lost += 1;
            return;
        }
        self.retried += 1;
        if tries > 0 {
            self.later.push(episode);
        } else {
            self.due.push(episode);
        }
    }

    /// Whether more were given up than the policy allows.
    pub fn too_many(&self) -> bool {
        self.many(self.lost)
    }

    fn many(&self, failed: usize) -> bool {
        let (episodes, before) = self.before;
        (failed + before) as f64 > self.policy.max_failed * (self.failures.len() + episodes) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_env::Cause;

    fn tries(most: u32, max_failed: f64) -> Retries {
        four(RetryPolicy { tries: most, max_failed }, &Summary::default())
    }

    fn four(policy: RetryPolicy, before: &Summary) -> Retries {
        let mut tries = Retries::new(policy, before);
        (0..4).for_each(|i| assert_eq!(tries.more(), i));
        tries
    }

    #[test]
    fn the_reason_waits_and_the_victims_go_on() {
        let mut tries = tries(2, 0.5);
        assert_eq!(tries.start(true), [0, 1, 2, 3]);
        let fault = Fault::new(Cause::Crash, "gone");
        tries.failed(1, 3, fault.clone());
        tries.failed(3, 3, fault.of_another());
        assert_eq!(tries.start(false), [3], "the other has been tried once, too, but not failed");
        assert_eq!(tries.start(false), [0; 0]);
        assert_eq!(tries.start(true), [1]);
        tries.failed(1, 2, fault.clone());
        assert_eq!(tries.start(true), [0; 0], "two tries are all");
        let given_up = tries.given_up();
        assert_eq!((tries.retried, given_up.len(), given_up[0].tries, given_up[0].turn), (2, 1, 2, 2));
        assert!(tries.given_up().is_empty());
    }

    #[test]
    fn the_share_that_may_fail_may_be_reached_but_not_passed() {
        let mut tries = tries(1, 0.5);
        for (episode, too_many) in [(0, false), (1, false), (2, true)] {
            tries.failed(episode, 0, Fault::new(Cause::Panic, "no"));
            assert_eq!(tries.too_many(), too_many, "{episode}");
        }
        let before = Summary { episodes: 4, failed: 1, ..Summary::default() };
        let mut tries = four(RetryPolicy { tries: 1, max_failed: 0.25 }, &before);
        for (episode, too_many) in [(0, false), (1, true)] {
            tries.failed(episode, 0, Fault::new(Cause::Panic, "no"));
            assert_eq!(tries.too_many(), too_many, "two of eight are a quarter: {episode}");
        }
    }

    #[test]
    fn what_would_end_the_run_is_not_waited_for() {
        let mut tries = tries(2, 0.25);
        tries.start(true);
        tries.failed(0, 0, Fault::new(Cause::Timeout, "late"));
        assert_eq!(tries.start(false), [0; 0]);
        tries.failed(1, 0, Fault::new(Cause::Timeout, "late"));
        assert_eq!(tries.start(false), [0, 1]);
    }
}
