//! What episodes came to, in numbers.

/// What a batch of episodes came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// All that were to be played, with those that were given up.
    pub episodes: usize,
    /// Episodes that were given up.
    pub failed: usize,
    /// Tries that failed and were followed by another.
    pub retried: usize,
    /// Turns of the episodes that weren't given up.
    pub turns: usize,
    /// Episodes that were won.
    pub won: usize,
    /// The sum of the episodes' returns, undiscounted.
    pub score: f64,
    /// Turns whose action was invalid.
    pub invalid: usize,
}

impl Summary {
    /// Adds further episodes.
    pub fn add(&mut self, more: &Summary) {
        self.episodes += more.episodes;
        self.failed += more.failed;
        self.retried += more.retried;
        self.turns += more.turns;
        self.won += more.won;
        self.score += more.score;
        self.invalid += more.invalid;
    }
}
