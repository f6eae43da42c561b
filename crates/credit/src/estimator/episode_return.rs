//! The return of the whole trajectory: what GRPO and its relatives compare.

use super::Estimator;
use serde_json::json;
use std::ops::Range;

pub(super) static ESTIMATOR: Estimator = Estimator {
    values: |input| episode_return(input.rewards, input.episodes),
    whole: true,
    // verl-agent's GRPO for agents: each turn counts, an invalid action costs its own row, and one alone keeps its
    // return.
    code: || json!({ "unit": "turn", "invalid_penalty": 0.1, "penalty": "after_return", "singleton": "raw" }),
    ..Estimator::PLAIN
};

/// `R`, the plain sum of a trajectory's rewards, on each of its rows. EMPO2, section 2: the return that GRPO compares.
/// One entry a row; rows outside all of `episodes` have 0.
pub fn episode_return<R: Copy + Into<f64>>(rewards: &[R], episodes: &[Range<usize>]) -> Vec<f64> {
    let mut returns = vec![0.0; rewards.len()];
    for episode in episodes {
        let total: f64 = rewards[episode.clone()].iter().map(|reward| (*reward).into()).sum();
        returns[episode.clone()].fill(total);
    }
    returns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_the_sum_of_its_trajectory() {
        assert_eq!(episode_return(&[0.0f32, 0.0, 10.0, 1.0, 2.0], &[0..3, 3..5]), [10.0, 10.0, 10.0, 3.0, 3.0]);
    }
}
