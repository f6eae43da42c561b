//! Advantages: the value of a row, compared with its group.

use super::columns::Columns;
use super::conventions::{Baseline, Ema, EpsIn, Equal, Penalty, Scale, Singleton, Unit};
use super::estimator::EstimatorInput;
use super::settings::AdvantageSettings;
use crate::stats::{Groups, Sums};
use flow_core::seed::mix;
use std::ops::Range;

/// Whether a row is trained on, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowStatus {
    /// It is.
    Yes,
    /// No row to compare it with, and `singleton: drop`.
    Singleton,
    /// All of its group are worth the same, and `equal: drop`.
    EqualRewards,
    /// A node upstream dropped it, and said why.
    Upstream,
}

impl RowStatus {
    /// The text of column `used`.
    pub fn as_str(self) -> &'static str {
        match self {
            RowStatus::Yes => "yes",
            RowStatus::Singleton => "singleton",
            RowStatus::EqualRewards => "dropped_equal_rewards",
            RowStatus::Upstream => "dropped_upstream",
        }
    }
}

/// One entry a row: `advantage = (value - baseline) / scale`, all in the unit of the rewards, except an advantage that
/// was divided by a deviation: it has no unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advantages {
    /// The compared value.
    pub value: Vec<f32>,
    /// The baseline.
    pub baseline: Vec<f32>,
    /// What the difference was divided by.
    pub scale: Vec<f32>,
    /// The result.
    pub advantage: Vec<f32>,
    /// Whether the row is trained on.
    pub used: Vec<RowStatus>,
    /// The running mean of its group after the iteration, by `baseline: ema`; else empty.
    pub running: Vec<f32>,
}

/// Stage 1, with whole trajectories on hand: the value of each row, by the estimator that `settings.of` names.
pub fn values(columns: &Columns, episodes: &[Range<usize>], settings: &AdvantageSettings) -> Vec<f64> {
    let estimator = settings.of.estimator();
    let fine = |i: usize| if columns.invalid(i) { settings.invalid_penalty } else { 0.0 };
    let before = settings.penalty == Penalty::BeforeReturn;
    let reward = |(i, reward): (usize, &f32)| f64::from(*reward) - if before { fine(i) } else { 0.0 };
    let rewards: Vec<f64> = columns.reward.iter().enumerate().map(reward).collect();
    let mut values = (estimator.values)(&EstimatorInput { columns, episodes, rewards: &rewards, discounts: settings.discounts() });
    if !before && estimator.rewards {
        values.iter_mut().enumerate().for_each(|(i, value)| *value -= fine(i));
    }
    values
}

/// What the rows of a complete group have in common.
#[derive(Clone, Copy)]
struct GroupTerms {
    baseline: f64,
    scale: f64,
    alone: bool,
}

/// Stage 2, with whole groups on hand and rows sorted by name: GRPO's `(R - mean) / (std + eps)` and its relatives
/// (SLEA-RL, section 3 and Eq. 5; EAPO, Eq. 4 and 14; the other conventions are named in [`AdvantageSettings`]).
pub fn advantages(values: &[f64], groups: &[u64], columns: &Columns, settings: &AdvantageSettings) -> Advantages {
    let groups = &Groups::of(groups);
    let by_trajectory = settings.of.estimator().whole && settings.unit == Unit::Trajectory;
    let count = |row: usize| match settings.unit {
        _ if columns.dropped(row) => 0.0,
        Unit::Token => f64::from(columns.tokens[row]),
        Unit::Trajectory | Unit::Turn => 1.0,
    };
    let members = by_trajectory.then(|| Members::new(values, groups, columns));
    let mut sums = vec![Sums::default(); groups.len()];
    groups.index().iter().zip(columns.reward).for_each(|(group, reward)| sums[*group as usize].made_of(f64::from(*reward)));
    match &members {
        Some(members) => members.each(|group, value| sums[group as usize].add(value, 1.0)),
        None => groups.index().iter().zip(values).enumerate().for_each(|(i, (group, value))| sums[*group as usize].add(*value, count(i))),
    }
    // A group with a value below 0, also within a trajectory: its mean says nothing of its size.
    let mut below = vec![false; if settings.scale == Scale::Mean { groups.len() } else { 0 }];
    if !below.is_empty() {
        let rows = groups.index().iter().zip(values).enumerate().filter(|(i, _)| count(*i) > 0.0);
        rows.for_each(|(_, (group, value))| below[*group as usize] |= *value < 0.0);
    }
    let mut result = Advantages {
        value: values.iter().map(|value| *value as f32).collect(),
        baseline: Vec::with_capacity(values.len()),
        scale: Vec::with_capacity(values.len()),
        advantage: Vec::with_capacity(values.len()),
        used: Vec::with_capacity(values.len()),
        running: Vec::new(),
    };
    for (i, (value, group)) in values.iter().zip(groups.index()).enumerate() {
        let sums = &sums[*group as usize];
        let below = below.get(*group as usize) == Some(&true);
        let GroupTerms { mut baseline, mut scale, alone } = share(sums, below, settings);
        let dropped = columns.dropped(i);
        if settings.baseline == Baseline::Ema {
            // In f32, as it is logged: a resumed run goes on from the log.
            let (before, after) = (columns.running(i), running(columns.running(i), sums, settings.decay) as f32);
            baseline = if settings.ema == Ema::Before { before } else { f64::from(after) };
            result.running.push(after);
        }
        if dropped {
            (baseline, scale) = (*value, 1.0);
        } else if alone && settings.singleton != Singleton::Raw || sums.all_equal() && settings.baseline.within() {
            // No row to compare with, or differences by rounding only.
            baseline = *value;
        } else if !alone && matches!(settings.baseline, Baseline::LeaveOneOut | Baseline::SecondBest) {
            let own = members.as_ref().map_or((*value, count(i)), |members| (members.of_row(i), 1.0));
            baseline = match settings.baseline {
                Baseline::LeaveOneOut => sums.mean_without(own.0, own.1),
                _ if own.0 > sums.second_best() => sums.second_best(),
                _ => *value,
            };
        }
        result.baseline.push(baseline as f32);
        result.scale.push(scale as f32);
        result.advantage.push(((value - baseline) / scale) as f32);
        result.used.push(if dropped {
            RowStatus::Upstream
        } else if alone && settings.singleton == Singleton::Drop {
            RowStatus::Singleton
        } else if sums.all_equal() && settings.equal == Equal::Drop {
            RowStatus::EqualRewards
        } else {
            RowStatus::Yes
        });
    }
    result
}

/// A running mean after an iteration: decay * before + (1 - decay) * mean, and as before where the iteration has no
/// value.
fn running(before: f64, sums: &Sums, decay: f64) -> f64 {
    if sums.members() == 0 {
        before
    } else {
        decay * before + (1.0 - decay) * sums.mean()
    }
}

/// `below`: whether one of the group's values is below 0.
fn share(sums: &Sums, below: bool, settings: &AdvantageSettings) -> GroupTerms {
    let compared = settings.baseline.within() || settings.scale != Scale::None;
    if compared && sums.members() < 2 {
        return GroupTerms { baseline: 0.0, scale: 1.0, alone: true };
    }
    let baseline = if settings.baseline == Baseline::Mean { sums.mean() } else { 0.0 };
    let variance = if sums.all_equal() { 0.0 } else { sums.variance(settings.ddof) };
    let divisor = match settings.scale {
        // Values without a baseline, divided by eps alone, would be a million times as large.
        Scale::Std if sums.all_equal() && !settings.baseline.within() => 1.0,
        Scale::Std => divisor(variance, settings),
        Scale::Mean if !below => sums.mean() + settings.eps,
        Scale::Mean | Scale::None => 1.0,
    };
    GroupTerms { baseline, scale: if divisor == 0.0 { 1.0 } else { divisor }, alone: false }
}

fn divisor(variance: f64, settings: &AdvantageSettings) -> f64 {
    match settings.eps_in {
        EpsIn::Std => variance.sqrt() + settings.eps,
        EpsIn::Variance => (variance + settings.eps).sqrt(),
        EpsIn::VarianceFloor => variance.max(settings.eps).sqrt(),
    }
}

/// The trajectories of each group: what counts once when the unit is the trajectory.
struct Members {
    index: Groups,
    group: Vec<u32>,
    sums: Vec<Sums>,
}

impl Members {
    fn new(values: &[f64], groups: &Groups, columns: &Columns) -> Members {
        let pairs: Vec<u64> =
            groups.index().iter().zip(columns.trajectory).map(|(group, trajectory)| mix(u64::from(*group), *trajectory)).collect();
        let index = Groups::of(&pairs);
        let mut group = vec![0; index.len()];
        let mut sums = vec![Sums::default(); index.len()];
        for (i, ((member, its_group), value)) in index.index().iter().zip(groups.index()).zip(values).enumerate() {
            group[*member as usize] = *its_group;
            sums[*member as usize].add(*value, if columns.dropped(i) { 0.0 } else { 1.0 });
        }
        Members { index, group, sums }
    }
    /// The group and the value of each trajectory that has rows left.
    fn each(&self, mut see: impl FnMut(u32, f64)) {
        self.group.iter().zip(&self.sums).filter(|(_, sums)| sums.members() > 0).for_each(|(group, sums)| see(*group, sums.mean()));
    }
    /// The value of the trajectory of a row that wasn't dropped.
    fn of_row(&self, row: usize) -> f64 {
        self.sums[self.index.index()[row] as usize].mean()
    }
}
