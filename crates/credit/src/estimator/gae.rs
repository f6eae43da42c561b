//! Generalised advantage estimation (Schulman et al. 2016), at the level of turns.

use super::Estimator;
use serde_json::json;
use std::ops::Range;

pub(super) const ESTIMATOR: Estimator = Estimator {
    values: |input| {
        let (gamma, lambda) = (input.discounts.gamma, input.discounts.lambda);
        gae(input.columns.named("value"), input.episodes, gamma, lambda, input.rewards, |row| input.columns.cut(row))
    },
    needs: &["value"],
    target: Some(|advantages, columns| targets(advantages, columns.named("value"))),
    // verl's whitening, and its lambda.
    code: || json!({ "unit": "token", "eps": 1e-8, "eps_in": "variance", "lambda": 1.0 }),
    ..Estimator::PLAIN
};

/// A_t = d_t + gamma * lambda * A_{t+1} with d_t = r_t + gamma * V_{t+1} - V_t within each trajectory (Eq. 12 and 16).
/// Nothing is expected after the end of an episode. After the last turn of one that was `cut` as much is expected as
/// before that turn: the state it was cut in has no row and so no value of its own. `values` are the critic's and
/// `rewards` the environment's, one a row each.
pub fn gae(values: &[f32], episodes: &[Range<usize>], gamma: f64, lambda: f64, rewards: &[f64], cut: impl Fn(usize) -> bool) -> Vec<f64> {
    let mut advantages = vec![0.0; values.len()];
    for episode in episodes {
        let bootstrap = episode.end.checked_sub(1).filter(|last| episode.contains(last) && cut(*last));
        let (mut advantage, mut next) = (0.0, bootstrap.map_or(0.0, |last| f64::from(values[last])));
        for i in episode.clone().rev() {
            let value = f64::from(values[i]);
            advantage = rewards[i] + gamma * next - value + gamma * lambda * advantage;
            advantages[i] = advantage;
            next = value;
        }
    }
    advantages
}

/// What the critic should have expected: A + V, before any comparison of the advantages (PPO's code: OpenAI Baselines,
/// verl).
pub fn targets(advantages: &[f64], values: &[f32]) -> Vec<f64> {
    advantages.iter().zip(values).map(|(advantage, value)| advantage + f64::from(*value)).collect()
}

/// The share of the targets' variance that the critic's values explain: 1 - Var(target - value) / Var(target), at most
/// 1, and 0 for a critic that knows a constant. `None` where all targets are equal.
pub fn explained_variance(values: &[f32], targets: &[f32]) -> Option<f64> {
    let variance = |deviation: &dyn Fn(usize) -> f64| {
        let mean = (0..targets.len()).map(deviation).sum::<f64>() / targets.len() as f64;
        (0..targets.len()).map(|i| (deviation(i) - mean).powi(2)).sum::<f64>()
    };
    let whole = variance(&|i| f64::from(targets[i]));
    let left = variance(&|i| f64::from(targets[i]) - f64::from(values[i]));
    (whole > 0.0).then(|| 1.0 - left / whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step_return;

    const REWARDS: [f64; 5] = [0.0, 0.0, 10.0, 1.0, 2.0];
    const VALUES: [f32; 5] = [1.0, 2.0, 4.0, 0.5, 3.0];
    const EPISODES: [Range<usize>; 2] = [0..3, 3..5];

    fn estimate(gamma: f64, lambda: f64) -> Vec<f64> {
        gae(&VALUES, &EPISODES, gamma, lambda, &REWARDS, |_| false)
    }

    #[test]
    fn as_worked_by_hand() {
        // d = 0 + 0.5 * 2 - 1 = 0, 0 + 0.5 * 4 - 2 = 0, 10 - 4 = 6; then 1 + 0.5 * 3 - 0.5 = 2, 2 - 3 = -1.
        let advantages = estimate(0.5, 0.5);
        assert_eq!(advantages, [0.375, 1.5, 6.0, 1.75, -1.0]);
        assert_eq!(targets(&advantages, &VALUES), [1.375, 3.5, 10.0, 2.25, 2.0]);
        assert_eq!(estimate(0.5, 0.0), [0.0, 0.0, 6.0, 2.0, -1.0], "lambda 0: the surprise of one turn");
    }

    /// Reward 0, V 1, gamma 1: what is cut is as good as it was. By gamma 0.5 the second episode has d = 1 + 0.5 * 3 -
    /// 0.5 = 2 and 2 + 0.5 * 3 - 3 = 0.5.
    #[test]
    fn an_episode_that_was_cut_goes_on_in_the_critics_eyes() {
        for (cut, advantage) in [(true, 0.0), (false, -1.0)] {
            assert_eq!(gae(&[1.0, 1.0], &[0..1, 1..2], 1.0, 0.95, &[0.0, 0.0], |_| cut), [advantage; 2]);
        }
        let advantages = gae(&VALUES, &EPISODES, 0.5, 0.5, &REWARDS, |row| row == 4);
        assert_eq!(advantages, [0.375, 1.5, 6.0, 2.0 + 0.25 * 0.5, 0.5]);
        assert_eq!(targets(&advantages, &VALUES)[4], 3.5, "2 + 0.5 * 3");
    }

    #[test]
    fn a_critic_explains_what_it_knows() {
        assert_eq!(explained_variance(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]), Some(0.75));
        assert_eq!(explained_variance(&[7.0; 3], &[2.0, 4.0, 6.0]), Some(0.0));
        assert_eq!(explained_variance(&[7.0], &[2.0]), None);
    }

    #[test]
    fn lambda_1_compares_with_the_return() {
        let returns = step_return(&REWARDS, &EPISODES, 0.9);
        for ((advantage, target), (value, whole)) in
            estimate(0.9, 1.0).iter().zip(targets(&estimate(0.9, 1.0), &VALUES)).zip(VALUES.iter().zip(returns))
        {
            assert!((advantage - (whole - f64::from(*value))).abs() < 1e-9 && (target - whole).abs() < 1e-9);
        }
    }
}
