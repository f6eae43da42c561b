//! The columns that credit reads.

/// What is known of each row, a slice a column, all as long as there are rows. A column may be left empty where the
/// settings (or, for `valid` and `dropped`, the rows) have no use for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Columns<'a> {
    /// The reward of the turn; for a comparison, where it may be left empty, the scale of rounding differences.
    pub reward: &'a [f32],
    /// Whether the action could be carried out; empty: all could.
    pub valid: &'a [bool],
    /// The further columns that the estimator needs, by their names.
    pub named: &'a [(&'a str, &'a [f32])],
    /// An id of the row's trajectory, for `unit: trajectory`: of its attempt, or of the reflection that it is.
    pub trajectory: &'a [u64],
    /// An id of the row's trial, which is all attempts of one sample at a task, for `of: cross_episode_return`.
    pub trial: &'a [u64],
    /// An id of the prompt that the row answers, for `of: tree_return`; empty: each answers one of its own.
    pub prompt: &'a [u64],
    /// Whether the row is a reflection, for `of: cross_episode_return`; empty: none is.
    pub reflection: &'a [bool],
    /// How many tokens the response has, for `unit: token`.
    pub tokens: &'a [u32],
    /// Which turn the row is a token of, for estimators of tokens; equal neighbours are of the same one.
    pub turn: &'a [u64],
    /// Whether the row is the last turn of an episode that was cut before its end; empty: none is.
    pub cut: &'a [bool],
    /// The running mean of the row's group before the iteration, for `baseline: ema`; empty: 0.
    pub running: &'a [f32],
    /// Whether a node upstream dropped the row; empty: none did.
    pub dropped: &'a [bool],
}

impl<'a> Columns<'a> {
    /// The further column of that name; empty where it wasn't given.
    pub fn named(&self, name: &str) -> &'a [f32] {
        self.named.iter().find(|(known, _)| *known == name).map_or(&[], |(_, column)| column)
    }
    pub(super) fn invalid(&self, row: usize) -> bool {
        self.valid.get(row) == Some(&false)
    }
    pub(super) fn cut(&self, row: usize) -> bool {
        self.cut.get(row) == Some(&true)
    }
    pub(super) fn reflection(&self, row: usize) -> bool {
        self.reflection.get(row) == Some(&true)
    }
    pub(super) fn running(&self, row: usize) -> f64 {
        self.running.get(row).map_or(0.0, |running| f64::from(*running))
    }
    pub(super) fn dropped(&self, row: usize) -> bool {
        self.dropped.get(row) == Some(&true)
    }
}
