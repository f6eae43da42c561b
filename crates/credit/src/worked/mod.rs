//! The numbers worked out by hand, and properties that hold for any rows. One file each for comparisons of
//! trajectories, of turns and of whole batches, and for credit across attempts.

mod baselines;
mod batch;
mod cross;
mod episode;
mod properties;
mod step;

use super::*;
use crate::stats::sizes;

fn close(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    for (f, w) in actual.iter().zip(expected) {
        assert!((f - w).abs() <= 1e-5 * w.abs().max(1.0), "{actual:?}, expected {expected:?}");
    }
}

fn texts(used: &[RowStatus]) -> Vec<&'static str> {
    used.iter().map(|used| used.as_str()).collect()
}

/// Advantages of trajectories of one turn each, in one group.
fn of_group(values: &[f64], settings: &AdvantageSettings) -> Advantages {
    let trajectory: Vec<u64> = (0..values.len() as u64).collect();
    advantages(values, &vec![0; values.len()], &Columns { trajectory: &trajectory, ..Default::default() }, settings)
}

/// The sum of two advantages.
fn both(episode: &[f32], step: &[f32]) -> Vec<f32> {
    let mut sum = episode.to_vec();
    add_weighted(&mut sum, step, &vec![1.0; step.len()]);
    sum
}

/// Trajectory 1 in s0, s1, s2 with rewards 0, 0, 10; trajectory 2 in s0, s1 with 0, 0.
struct TwoTrajectories;
impl TwoTrajectories {
    const REWARDS: [f32; 5] = [0.0, 0.0, 10.0, 0.0, 0.0];
    const STATES: [u64; 5] = [0, 1, 2, 0, 1];
    const TRAJECTORIES: [u64; 5] = [1, 1, 1, 2, 2];

    fn columns(valid: &[bool]) -> Columns<'_> {
        Columns { reward: &Self::REWARDS, valid, trajectory: &Self::TRAJECTORIES, ..Default::default() }
    }
    fn advantages(valid: &[bool], groups: &[u64], settings: &AdvantageSettings) -> Advantages {
        let episodes = episodes(|i| Self::TRAJECTORIES[i] == Self::TRAJECTORIES[i - 1], 5);
        let columns = Self::columns(valid);
        advantages(&values(&columns, &episodes, settings), groups, &columns, settings)
    }
    fn gigpo(unit: Unit, scale: Scale) -> Vec<f32> {
        let episode = AdvantageSettings { unit, scale, ..Default::default() };
        let step = AdvantageSettings { of: EstimatorName::StepReturn, gamma: 0.95, ..episode.clone() };
        let episode = Self::advantages(&[], &[7; 5], &episode);
        let step = Self::advantages(&[], &Self::STATES, &step);
        close(&step.value, &[9.025, 9.5, 10.0, 0.0, 0.0]);
        both(&episode.advantage, &step.advantage)
    }
}
