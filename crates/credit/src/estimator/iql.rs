//! Implicit Q-learning (Kostrikov et al. 2022), of a critic that values each token: the value before the last token of
//! a response, the one that closes it, is Q(s, a), and those before it, of the state and of an action that is half
//! said, are V.
//!
//! What should have been expected of an action is its reward and what the next state promises (Eq. 6); of a state, what
//! the action that was taken there promises. For that one an expectile is asked (`expectile` of the objective `value`,
//! Eq. 5), so that V goes towards the best of the actions that were taken. The released code has two networks, and a
//! slow copy of one as V's target; here one has both, and the values that stand in the rows are those of the
//! iteration's beginning.

use super::{gae, Estimator};
use std::ops::Range;

pub(super) const ESTIMATOR: Estimator = Estimator {
    values: |input| {
        let values = input.columns.named("value");
        let targets = targets(values, input.columns.turn, input.episodes, input.discounts.gamma, input.rewards);
        targets.iter().zip(values).map(|(target, value)| target - f64::from(*value)).collect()
    },
    tokens: Some("token_values"),
    ..gae::ESTIMATOR
};

/// Of each token what should have been expected before it: r + gamma * V(s') of the last of a turn, where V(s') is the
/// value before the first token of the next turn of the episode and 0 after the last one; Q(s, a) of the others, the
/// value before the turn's last token. `turn` says which turn a token is of, and `rewards` come with the last token of
/// each.
fn targets(values: &[f32], turn: &[u64], episodes: &[Range<usize>], gamma: f64, rewards: &[f64]) -> Vec<f64> {
    let mut targets = vec![0.0; values.len()];
    for episode in episodes {
        let mut action = 0.0;
        for i in episode.clone().rev() {
            let ends = i + 1 == episode.end;
            if ends || turn[i] != turn[i + 1] {
                let next = if ends { 0.0 } else { f64::from(values[i + 1]) };
                targets[i] = rewards[i] + gamma * next;
                action = f64::from(values[i]);
            } else {
                targets[i] = action;
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An episode of two turns, of three tokens and of two, and one of a single turn of one token; gamma 0.5. The first
    /// turn: Q is 4, and should have been 1 + 0.5 * 6, as the next state has 6. The second: Q is 8, and should have
    /// been 10.
    #[test]
    fn as_worked_by_hand() {
        let values = [1.0, 2.0, 4.0, 6.0, 8.0, 3.0];
        let rewards = [0.0, 0.0, 1.0, 0.0, 10.0, -1.0];
        let actual = targets(&values, &[0, 0, 0, 1, 1, 2], &[0..5, 5..6], 0.5, &rewards);
        assert_eq!(actual, [4.0, 4.0, 4.0, 8.0, 10.0, -1.0]);
    }
}
