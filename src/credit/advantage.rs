//! Advantages: the value of a row, compared with its group.

use super::group::Groups;
use super::returns::{discounted, summed};
use super::settings::{AdvantageSettings, Baseline, Of, Penalty, Scale, Singleton, Unit};
use crate::seed::mix;
use std::ops::Range;

/// Whether a row is trained on, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    Yes,
    /// Nobody to compare it with, and `singleton: drop`.
    Singleton,
}

impl Used {
    /// The text of column `used`.
    pub fn as_str(self) -> &'static str {
        match self {
            Used::Yes => "yes",
            Used::Singleton => "singleton",
        }
    }
}

/// One entry a row: `advantage = (value - baseline) / scale`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advantages {
    pub value: Vec<f32>,
    pub baseline: Vec<f32>,
    pub scale: Vec<f32>,
    pub advantage: Vec<f32>,
    pub used: Vec<Used>,
}

/// Stage 1, with whole trajectories on hand: the value of each row.
pub fn values(rewards: &[f32], valid: &[bool], episodes: &[Range<usize>], settings: &AdvantageSettings) -> Vec<f64> {
    let rows = rewards.len();
    let fine = |i: usize| if valid[i] { 0.0 } else { settings.invalid_penalty };
    let before = settings.penalty == Penalty::BeforeReturn;
    let reward = |i: usize| f64::from(rewards[i]) - if before { fine(i) } else { 0.0 };
    let mut values = match settings.of {
        Of::EpisodeReturn => summed(rows, episodes, reward),
        Of::StepReturn => discounted(rows, episodes, settings.gamma, reward),
        Of::Reward => (0..rows).map(reward).collect(),
    };
    if !before {
        values.iter_mut().enumerate().for_each(|(i, value)| *value -= fine(i));
    }
    values
}

/// What a group's members add up to, measured from the first of them.
///
/// The first value as origin makes equal values exactly equal to their mean. It is also what lets one pass do: a
/// member is at most about `sqrt(n)` deviations away from the mean, so little can cancel in the sum of squares.
#[derive(Clone, Copy, Default)]
struct Sums {
    members: u32,
    origin: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, value: f64) {
        if self.members == 0 {
            self.origin = value;
        }
        let offset = value - self.origin;
        self.members += 1;
        self.sum += offset;
        self.squares += offset * offset;
    }
    fn mean(&self) -> f64 {
        self.origin + self.sum / f64::from(self.members)
    }
    fn mean_without(&self, value: f64) -> f64 {
        self.origin + (self.sum - (value - self.origin)) / f64::from(self.members - 1)
    }
    fn deviation(&self, ddof: u8) -> f64 {
        let n = f64::from(self.members);
        let left = (n - f64::from(ddof)).max(1.0);
        ((self.squares - self.sum * self.sum / n).max(0.0) / left).sqrt()
    }
}

/// What the rows of a group share once it is whole.
#[derive(Clone, Copy)]
struct Shared {
    baseline: f64,
    scale: f64,
    alone: bool,
}

/// Stage 2, with whole groups on hand and rows sorted by name: GRPO's `(R - mean) / (std + eps)` and its relatives
/// (SLEA-RL, section 3 and Eq. 5; EAPO, Eq. 4 and 14; the other conventions are named in [`AdvantageSettings`]).
///
/// `trajectories` holds an id of each row's trajectory, for `unit: trajectory`; other settings don't read it.
pub fn advantages(values: &[f64], groups: &[u64], trajectories: &[u64], settings: &AdvantageSettings) -> Advantages {
    advantages_in(values, &Groups::of(groups), trajectories, settings)
}

/// [`advantages`] where the groups are already numbered.
pub fn advantages_in(values: &[f64], groups: &Groups, trajectories: &[u64], settings: &AdvantageSettings) -> Advantages {
    let by_trajectory = settings.of == Of::EpisodeReturn && settings.unit == Unit::Trajectory;
    let members = by_trajectory.then(|| Members::of(values, groups, trajectories));
    let mut sums = vec![Sums::default(); groups.len()];
    match &members {
        Some(members) => members.group.iter().zip(&members.value).for_each(|(group, value)| sums[*group as usize].add(*value)),
        None => groups.index().iter().zip(values).for_each(|(group, value)| sums[*group as usize].add(*value)),
    }
    let mut result = Advantages {
        value: values.iter().map(|value| *value as f32).collect(),
        baseline: Vec::with_capacity(values.len()),
        scale: Vec::with_capacity(values.len()),
        advantage: Vec::with_capacity(values.len()),
        used: Vec::with_capacity(values.len()),
    };
    for (i, (value, group)) in values.iter().zip(groups.index()).enumerate() {
        let Shared { mut baseline, scale, alone } = share(&sums[*group as usize], settings);
        if alone && settings.singleton != Singleton::Raw {
            baseline = *value;
        } else if !alone && settings.baseline == Baseline::LeaveOneOut {
            let own = members.as_ref().map_or(*value, |members| members.value[members.of_row.index()[i] as usize]);
            baseline = sums[*group as usize].mean_without(own);
        }
        result.baseline.push(baseline as f32);
        result.scale.push(scale as f32);
        result.advantage.push(((value - baseline) / scale) as f32);
        result.used.push(if alone && settings.singleton == Singleton::Drop { Used::Singleton } else { Used::Yes });
    }
    result
}

fn share(sums: &Sums, settings: &AdvantageSettings) -> Shared {
    let compared = settings.baseline != Baseline::None || settings.scale != Scale::None;
    if compared && sums.members == 1 {
        return Shared { baseline: 0.0, scale: 1.0, alone: true };
    }
    let baseline = if settings.baseline == Baseline::Mean { sums.mean() } else { 0.0 };
    let divisor = if settings.scale == Scale::Std { sums.deviation(settings.ddof) + settings.eps } else { 1.0 };
    Shared { baseline, scale: if divisor == 0.0 { 1.0 } else { divisor }, alone: false }
}

/// The trajectories of each group: what counts once when the unit is the trajectory.
struct Members {
    of_row: Groups,
    group: Vec<u32>,
    value: Vec<f64>,
}

impl Members {
    fn of(values: &[f64], groups: &Groups, trajectories: &[u64]) -> Members {
        let pairs: Vec<u64> =
            groups.index().iter().zip(trajectories).map(|(group, trajectory)| mix(u64::from(*group), *trajectory)).collect();
        let of_row = Groups::of(&pairs);
        let mut group = vec![0; of_row.len()];
        let mut sums = vec![Sums::default(); of_row.len()];
        for ((member, its_group), value) in of_row.index().iter().zip(groups.index()).zip(values) {
            group[*member as usize] = *its_group;
            sums[*member as usize].add(*value);
        }
        Members { of_row, group, value: sums.iter().map(Sums::mean).collect() }
    }
}
