//! Summary statistics of episodes.

use flow_env::Extras;
use flow_model::Tally;
use std::collections::BTreeMap;

/// The statistics of a batch of episodes. Branches are counted apart, so that a task counts the same however often its
/// episodes were copied.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// All episodes, including those given up.
    pub episodes: usize,
    /// Episodes that were given up.
    pub failed: usize,
    /// Failed tries that were followed by another.
    pub retried: usize,
    /// Turns of the episodes that weren't given up.
    pub turns: usize,
    /// Episodes that were won.
    pub won: usize,
    /// The sum of the episodes' returns, undiscounted.
    pub score: f64,
    /// Turns whose action was invalid.
    pub invalid: usize,
    /// States that episodes were in, each counted once an episode.
    pub states: usize,
    /// Those of them that an episode was in more than once.
    pub revisited: usize,
    /// Calls of programs whose answers were not read, so that they are no rows.
    pub unread: usize,
    /// What branches of these episodes add.
    pub branches: BranchCounts,
    /// The tokens that the policy read, to play branches as well.
    pub tokens: Tally,
    /// Figures of the servers that generate, by name.
    pub servers: BTreeMap<String, f64>,
    /// Metrics that environments reported at the end of episodes, by name: the sum, and the number of episodes. `score`
    /// is the environment's own.
    pub env_metrics: BTreeMap<String, (f64, usize)>,
}

/// Branches: episodes that were played on from a turn of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchCounts {
    /// All of them, including those given up.
    pub episodes: usize,
    /// Branches that were given up.
    pub failed: usize,
    /// Their own turns.
    pub turns: usize,
}

impl Summary {
    /// The same episodes, with the counts of their branches: `all` counts both.
    pub fn branched(self, all: &Summary) -> Summary {
        let branches =
            BranchCounts { episodes: all.episodes - self.episodes, failed: all.failed - self.failed, turns: all.turns - self.turns };
        let Summary { retried, unread, .. } = *all;
        Summary { branches, retried, unread, tokens: all.tokens.clone(), servers: all.servers.clone(), ..self }
    }

    /// Adds further episodes.
    pub fn add(&mut self, more: &Summary) {
        self.episodes += more.episodes;
        self.failed += more.failed;
        self.retried += more.retried;
        self.turns += more.turns;
        self.won += more.won;
        self.score += more.score;
        self.invalid += more.invalid;
        self.states += more.states;
        self.revisited += more.revisited;
        self.unread += more.unread;
        self.branches.episodes += more.branches.episodes;
        self.branches.failed += more.branches.failed;
        self.branches.turns += more.branches.turns;
        self.tokens.add(&more.tokens);
        self.servers.extend(more.servers.iter().map(|(name, figure)| (name.clone(), *figure)));
        for (name, (sum, episodes)) in &more.env_metrics {
            let total = self.env_metrics.entry(name.clone()).or_default();
            *total = (total.0 + sum, total.1 + episodes);
        }
    }

    /// Adds the metrics that an environment reported at the end of an episode.
    pub fn tell(&mut self, extras: &Extras) {
        self.unread += extras.unread.len();
        let score = extras.score.map(|score| ("score", f64::from(score)));
        for (name, value) in score.into_iter().chain(extras.info.iter().map(|(name, value)| (name.as_str(), *value))) {
            let total = self.env_metrics.entry(name.into()).or_default();
            *total = (total.0 + value, total.1 + 1);
        }
    }
}
