//! The return to go of each response token, with rewards of tokens among what is summed: REINFORCE++ (Hu 2025, Eq. 3
//! and 4; verl's `compute_reinforce_plus_plus_outcome_advantage`).
//!
//! A turn's reward comes with the last token of its response, and what `token_rewards` says (a divergence from the
//! reference, charged where it was run up) with each: so a token answers for how far it and those after it stray, and
//! not for those before it.

use super::{step_return, Estimator};
use serde_json::json;

pub(super) static ESTIMATOR: Estimator = Estimator {
    values: |input| {
        let own = input.columns.named("token_rewards");
        let rewards: Vec<f64> = input.rewards.iter().zip(own).map(|(reward, own)| reward + f64::from(*own)).collect();
        step_return(&rewards, input.episodes, input.discounts.gamma)
    },
    tokens: Some("token_rewards"),
    // verl's whitening.
    code: || json!({ "unit": "token", "eps": 1e-8, "eps_in": "variance" }),
    ..Estimator::PLAIN
};

#[cfg(test)]
mod tests {
    use super::super::{Discounts, EstimatorInput};
    use super::*;
    use crate::conventions::Boundary;
    use crate::Columns;

    /// A turn of two tokens and one of one, which earns 1; each token strays by 0.1, 0.2 and 0.4 times a weight of 1:
    /// 0.3, 0.4 and 0.6. With one charge a turn the first token would answer for 0.1 less, and the second for 0.1 more.
    #[test]
    fn a_token_answers_for_what_follows_it() {
        let columns = Columns { named: &[("token_rewards", &[-0.1, -0.2, -0.4])], ..Default::default() };
        let discounts = Discounts { gamma: 1.0, gamma_attempt: 1.0, boundary: Boundary::Paper, lambda: 1.0 };
        let actual = (ESTIMATOR.values)(&EstimatorInput {
            columns: &columns,
            episodes: std::slice::from_ref(&(0..3)),
            rewards: &[0.0, 0.0, 1.0],
            discounts,
        });
        assert!(actual.iter().zip([0.3, 0.4, 0.6]).all(|(a, b)| (a - b).abs() < 1e-6), "{actual:?}");
    }
}
