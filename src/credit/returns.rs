//! Returns: what followed a turn, and what its whole trajectory earned.

use std::ops::Range;

/// The trajectories as ranges of rows: an attempt each, and each reflection for itself. Rows are sorted by name, so those of one
/// trajectory follow one another; `same_as_previous(i)` says whether row `i` belongs to the trajectory of row `i - 1` (never asked
/// of row 0).
pub fn episodes(same_as_previous: impl Fn(usize) -> bool, rows: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for i in 1..=rows {
        if i == rows || !same_as_previous(i) {
            ranges.push(start..i);
            start = i;
        }
    }
    ranges
}

/// `G_t = r_t + gamma * G_{t+1}` within each trajectory: the discounted return to go.
/// SLEA-RL, the return below Eq. 4; LaMer, Eq. 3; GiGPO (Feng et al. 2025), the value of a step.
pub fn step_return(rewards: &[f32], episodes: &[Range<usize>], gamma: f64) -> Vec<f64> {
    discounted(rewards.len(), episodes, gamma, |i| f64::from(rewards[i]))
}

/// `R`, the plain sum of a trajectory's rewards, on each of its rows. EMPO2, section 2: the return that GRPO compares.
pub fn episode_return(rewards: &[f32], episodes: &[Range<usize>]) -> Vec<f64> {
    summed(rewards.len(), episodes, |i| f64::from(rewards[i]))
}

/// [`step_return`] of rewards that are made up on the way.
pub(super) fn discounted(rows: usize, episodes: &[Range<usize>], gamma: f64, reward: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut returns = vec![0.0; rows];
    for episode in episodes {
        let mut following = 0.0;
        for i in episode.clone().rev() {
            following = reward(i) + gamma * following;
            returns[i] = following;
        }
    }
    returns
}

/// [`episode_return`] of rewards that are made up on the way.
pub(super) fn summed(rows: usize, episodes: &[Range<usize>], reward: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut returns = vec![0.0; rows];
    for episode in episodes {
        let total: f64 = episode.clone().map(&reward).sum();
        returns[episode.clone()].fill(total);
    }
    returns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fall_into_trajectories() {
        let names = [1, 1, 2, 3, 3, 3];
        assert_eq!(episodes(|i| names[i] == names[i - 1], 6), [0..2, 2..3, 3..6]);
        assert!(episodes(|_| true, 0).is_empty());
        assert_eq!(episodes(|_| false, 2), [0..1, 1..2]);
    }

    #[test]
    fn returns_stop_at_the_end_of_a_trajectory() {
        let rewards = [0.0, 0.0, 10.0, 1.0, 2.0];
        let episodes = [0..3, 3..5];
        assert_eq!(step_return(&rewards, &episodes, 0.5), [2.5, 5.0, 10.0, 2.0, 2.0]);
        assert_eq!(step_return(&rewards, &episodes, 0.0), [0.0, 0.0, 10.0, 1.0, 2.0]);
        assert_eq!(step_return(&rewards, &episodes, 1.0)[0], 10.0);
        assert_eq!(episode_return(&rewards, &episodes), [10.0, 10.0, 10.0, 3.0, 3.0]);
    }
}
