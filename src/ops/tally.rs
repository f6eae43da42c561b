//! What episodes came to, in figures.

use crate::dataflow::Figure;

/// What a batch of episodes came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// All that were to be played, with those that were given up.
    pub episodes: usize,
    pub failed: usize,
    /// Tries that failed and were followed by another.
    pub retried: usize,
    pub turns: usize,
    pub won: usize,
    pub score: f64,
    pub invalid: usize,
}

impl Tally {
    /// Takes in what further episodes came to.
    pub fn add(&mut self, more: &Tally) {
        self.episodes += more.episodes;
        self.failed += more.failed;
        self.retried += more.retried;
        self.turns += more.turns;
        self.won += more.won;
        self.score += more.score;
        self.invalid += more.invalid;
    }

    /// The figures that progress and `metrics` show. An episode that failed is not won, and has no return.
    pub fn figures(&self) -> [(&'static str, Figure); 6] {
        [
            ("success", Figure::share(self.won as f64, self.episodes)),
            ("return", Figure::share(self.score, self.episodes - self.failed)),
            ("turns", Figure::Sum(self.turns as f64)),
            ("invalid", Figure::share(self.invalid as f64, self.turns)),
            ("failed", Figure::Sum(self.failed as f64)),
            ("retried", Figure::Sum(self.retried as f64)),
        ]
    }
}
