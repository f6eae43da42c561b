//! The discounted return from a turn on: the value of a step in GiGPO, SLEA-RL and EAPO.

use super::Estimator;
use serde_json::json;
use std::ops::Range;

pub(super) static ESTIMATOR: Estimator = Estimator {
    values: |input| step_return(input.rewards, input.episodes, input.discounts.gamma),
    // GiGPO's: a step alone in its state has the advantage 0.
    code: || json!({ "unit": "turn", "invalid_penalty": 0.1, "penalty": "after_return", "singleton": "zero" }),
    ..Estimator::PLAIN
};

/// `G_t = r_t + gamma * G_{t+1}` within each trajectory: the discounted return to go.
/// SLEA-RL, the return below Eq. 4; LaMer, Eq. 3; GiGPO (Feng et al. 2025), the value of a step.
/// One entry a row; rows outside all of `episodes` have 0.
pub fn step_return<R: Copy + Into<f64>>(rewards: &[R], episodes: &[Range<usize>], gamma: f64) -> Vec<f64> {
    let mut returns = vec![0.0; rewards.len()];
    for episode in episodes {
        let mut following = 0.0;
        for i in episode.clone().rev() {
            following = rewards[i].into() + gamma * following;
            returns[i] = following;
        }
    }
    returns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_stop_at_the_end_of_a_trajectory() {
        let rewards = [0.0f32, 0.0, 10.0, 1.0, 2.0];
        let episodes = [0..3, 3..5];
        assert_eq!(step_return(&rewards, &episodes, 0.5), [2.5, 5.0, 10.0, 2.0, 2.0]);
        assert_eq!(step_return(&rewards, &episodes, 0.0), [0.0, 0.0, 10.0, 1.0, 2.0]);
        assert_eq!(step_return(&rewards, &episodes, 1.0)[0], 10.0);
    }
}
