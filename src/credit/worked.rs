//! The numbers worked out by hand, and what must hold for any rows.

use super::*;
use crate::seed::Random;
use proptest::prelude::*;

fn close(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    for (f, w) in found.iter().zip(wanted) {
        assert!((f - w).abs() <= 1e-5 * w.abs().max(1.0), "found {found:?}, wanted {wanted:?}");
    }
}

/// Advantages of trajectories of one turn each, in one group.
fn of_group(values: &[f64], settings: &AdvantageSettings) -> Advantages {
    let trajectories: Vec<u64> = (0..values.len() as u64).collect();
    advantages(values, &vec![0; values.len()], &trajectories, settings)
}

const R: [f64; 4] = [1.0, 0.0, 0.0, 1.0];

#[test]
fn grpo() {
    let result = of_group(&R, &AdvantageSettings::default());
    close(&result.advantage, &[0.866024, -0.866024, -0.866024, 0.866024]);
    close(&result.baseline, &[0.5; 4]);
    close(&result.scale, &[0.577351; 4]);
    assert_eq!(result.value, [1.0, 0.0, 0.0, 1.0]);
    assert!(result.used.iter().all(|used| used.as_str() == "yes"));
}

#[test]
fn grpo_without_scale_is_dr_grpo() {
    let settings = AdvantageSettings { scale: Scale::None, ..Default::default() };
    close(&of_group(&R, &settings).advantage, &[0.5, -0.5, -0.5, 0.5]);
}

#[test]
fn rloo() {
    let settings = AdvantageSettings { baseline: Baseline::LeaveOneOut, scale: Scale::None, ..Default::default() };
    let result = of_group(&R, &settings);
    close(&result.advantage, &[0.666667, -0.666667, -0.666667, 0.666667]);
    close(&result.baseline, &[0.333333, 0.666667, 0.666667, 0.333333]);
}

#[test]
fn population_deviation_and_eps() {
    let settings = AdvantageSettings { ddof: 0, eps: 0.5, ..Default::default() };
    close(&of_group(&R, &settings).advantage, &[0.5, -0.5, -0.5, 0.5]);
    let settings = AdvantageSettings { eps: 0.0, ..Default::default() };
    let equal = of_group(&[0.1, 0.1, 0.1], &settings);
    assert_eq!((equal.advantage, equal.scale), (vec![0.0; 3], vec![1.0; 3]), "nothing is divided by 0");
}

/// Trajectory 1 in s0, s1, s2 with rewards 0, 0, 10; trajectory 2 in s0, s1 with 0, 0.
struct TwoTrajectories;
impl TwoTrajectories {
    const REWARDS: [f32; 5] = [0.0, 0.0, 10.0, 0.0, 0.0];
    const STATES: [u64; 5] = [0, 1, 2, 0, 1];
    const TRAJECTORIES: [u64; 5] = [1, 1, 1, 2, 2];

    fn advantages(valid: &[bool; 5], groups: &[u64], settings: &AdvantageSettings) -> Advantages {
        let episodes = episodes(|i| Self::TRAJECTORIES[i] == Self::TRAJECTORIES[i - 1], 5);
        advantages(&values(&Self::REWARDS, valid, &episodes, settings), groups, &Self::TRAJECTORIES, settings)
    }
    fn gigpo(unit: Unit, scale: Scale) -> Vec<f32> {
        let episode = AdvantageSettings { unit, scale, ..Default::default() };
        let step = AdvantageSettings { of: Of::StepReturn, gamma: 0.95, ..episode.clone() };
        let states = group_ids(&[&[7; 5], &Self::STATES], 5);
        let episode = Self::advantages(&[true; 5], &[7; 5], &episode);
        let step = Self::advantages(&[true; 5], &states, &step);
        close(&step.value, &[9.025, 9.5, 10.0, 0.0, 0.0]);
        weighted_sum(&[(&episode.advantage, 1.0), (&step.advantage, 1.0)])
    }
}

#[test]
fn gigpo_without_scale() {
    close(&TwoTrajectories::gigpo(Unit::Turn, Scale::None), &[8.5125, 8.75, 4.0, -10.5125, -10.75]);
    // As published the two episodes weigh the same: mean 5 in place of 6.
    close(&TwoTrajectories::gigpo(Unit::Trajectory, Scale::None), &[9.5125, 9.75, 5.0, -9.5125, -9.75]);
}

#[test]
fn gigpo_with_scale() {
    // Any two different values lie half their distance, 1 / sqrt(2) deviations, from their mean.
    let half = 0.5f32.sqrt();
    close(&TwoTrajectories::gigpo(Unit::Trajectory, Scale::Std), &[2.0 * half, 2.0 * half, half, -2.0 * half, -2.0 * half]);
}

#[test]
fn a_trajectory_is_left_out_as_a_whole() {
    let settings = AdvantageSettings { baseline: Baseline::LeaveOneOut, scale: Scale::None, ..Default::default() };
    let whole = TwoTrajectories::advantages(&[true; 5], &[7; 5], &settings);
    close(&whole.advantage, &[10.0, 10.0, 10.0, -10.0, -10.0]);
    let by_turn = TwoTrajectories::advantages(&[true; 5], &[7; 5], &AdvantageSettings { unit: Unit::Turn, ..settings });
    close(&by_turn.advantage, &[5.0, 5.0, 5.0, -7.5, -7.5]);
}

#[test]
fn grouping_by_visitation_depth() {
    // States a, b, a, a: the three visits to a are three groups, each met by one visit of the second trajectory.
    let states = [1, 2, 1, 1, 1, 1, 1];
    let episodes = [0..4, 4..7];
    let depths: Vec<u64> = visitation_depth(&states, &episodes).into_iter().map(u64::from).collect();
    assert_eq!(depths, [0, 0, 1, 2, 0, 1, 2]);
    let groups = group_ids(&[&[7; 7], &states, &depths], 7);
    assert_eq!(sizes(&groups), [2, 1, 2, 2, 2, 2, 2]);
    let settings = AdvantageSettings { of: Of::StepReturn, gamma: 0.5, scale: Scale::None, ..Default::default() };
    let rewards = [0.0, 0.0, 0.0, 8.0, 0.0, 0.0, 0.0];
    let value = values(&rewards, &[true; 7], &episodes, &settings);
    let result = advantages(&value, &groups, &[1, 1, 1, 1, 2, 2, 2], &settings);
    close(&result.advantage, &[0.5, 0.0, 2.0, 4.0, -0.5, -2.0, -4.0]);
}

#[test]
fn a_row_alone() {
    let alone = |singleton| {
        let settings = AdvantageSettings { singleton, ..Default::default() };
        // The rows of one trajectory are alone too; rows 2 and 3 are company and don't care.
        advantages(&[3.0, 3.0, 1.0, 2.0], &[1, 1, 2, 2], &[1, 1, 1, 2], &settings)
    };
    let half = 0.5f32.sqrt();
    let raw = alone(Singleton::Raw);
    close(&raw.advantage, &[3.0, 3.0, -half, half]);
    assert_eq!((raw.baseline[0], raw.scale[0]), (0.0, 1.0));
    let zero = alone(Singleton::Zero);
    close(&zero.advantage, &[0.0, 0.0, -half, half]);
    assert_eq!((zero.baseline[0], zero.scale[0], zero.used[0]), (3.0, 1.0, Used::Yes));
    let drop = alone(Singleton::Drop);
    close(&drop.advantage, &zero.advantage);
    assert_eq!(drop.used.map_to_text(), ["singleton", "singleton", "yes", "yes"]);
    let reinforce = AdvantageSettings { baseline: Baseline::None, scale: Scale::None, singleton: Singleton::Drop, ..Default::default() };
    let result = of_group(&[3.0], &reinforce);
    assert_eq!((result.advantage[0], result.used[0]), (3.0, Used::Yes), "nothing is compared, so nobody is missed");
}

trait MapToText {
    fn map_to_text(&self) -> Vec<&'static str>;
}
impl MapToText for Vec<Used> {
    fn map_to_text(&self) -> Vec<&'static str> {
        self.iter().map(|used| used.as_str()).collect()
    }
}

#[test]
fn an_invalid_action_costs() {
    let valid = [true, false, true, true, true];
    let found = |of, penalty| {
        let settings = AdvantageSettings { of, penalty, gamma: 0.5, invalid_penalty: 2.0, ..Default::default() };
        values(&TwoTrajectories::REWARDS, &valid, &[0..3, 3..5], &settings)
    };
    assert_eq!(found(Of::StepReturn, Penalty::BeforeReturn), [1.5, 3.0, 10.0, 0.0, 0.0]);
    assert_eq!(found(Of::StepReturn, Penalty::AfterReturn), [2.5, 3.0, 10.0, 0.0, 0.0]);
    assert_eq!(found(Of::EpisodeReturn, Penalty::BeforeReturn), [8.0, 8.0, 8.0, 0.0, 0.0]);
    assert_eq!(found(Of::EpisodeReturn, Penalty::AfterReturn), [10.0, 8.0, 10.0, 0.0, 0.0]);
    assert_eq!(found(Of::Reward, Penalty::BeforeReturn), [0.0, -2.0, 10.0, 0.0, 0.0]);
    assert_eq!(found(Of::Reward, Penalty::AfterReturn), [0.0, -2.0, 10.0, 0.0, 0.0]);
    // After the return the rows of a trajectory differ: 10, 8, 10 count once, as 28/3.
    let settings = AdvantageSettings { penalty: Penalty::AfterReturn, invalid_penalty: 2.0, scale: Scale::None, ..Default::default() };
    close(&TwoTrajectories::advantages(&valid, &[7; 5], &settings).baseline, &[14.0 / 3.0; 5]);
}

/// Rows as they come: a value and small ids of group and trajectory, so that they meet.
fn rows() -> impl Strategy<Value = Vec<(f64, u64, u64)>> {
    prop::collection::vec((-100.0..100.0f64, 0..6u64, 0..5u64), 1..60)
}

fn any_settings() -> impl Strategy<Value = AdvantageSettings> {
    let baseline = prop_oneof![Just(Baseline::Mean), Just(Baseline::LeaveOneOut)];
    let scale = prop_oneof![Just(Scale::Std), Just(Scale::None)];
    let of = prop_oneof![Just(Of::EpisodeReturn), Just(Of::StepReturn)];
    let unit = prop_oneof![Just(Unit::Trajectory), Just(Unit::Turn)];
    (baseline, scale, of, unit).prop_map(|(baseline, scale, of, unit)| AdvantageSettings {
        baseline,
        scale,
        of,
        unit,
        eps: 0.1,
        ..Default::default()
    })
}

fn compare(rows: &[(f64, u64, u64)], settings: &AdvantageSettings) -> Advantages {
    let column = |f: fn(&(f64, u64, u64)) -> u64| rows.iter().map(f).collect::<Vec<_>>();
    let values: Vec<f64> = rows.iter().map(|row| row.0).collect();
    advantages(&values, &column(|r| r.1), &column(|r| r.2), settings)
}

proptest! {
    #[test]
    fn order_does_not_matter(rows in rows(), settings in any_settings(), seed: u64) {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        Random::new(seed).shuffle(&mut order);
        let shuffled: Vec<_> = order.iter().map(|i| rows[*i]).collect();
        let (straight, shuffled) = (compare(&rows, &settings), compare(&shuffled, &settings));
        let straight: Vec<f32> = order.iter().map(|i| straight.advantage[*i]).collect();
        close(&shuffled.advantage, &straight);
    }

    #[test]
    fn a_constant_for_all_changes_nothing(rows in rows(), settings in any_settings(), constant in -100.0..100.0f64) {
        let raised: Vec<_> = rows.iter().map(|(value, group, trajectory)| (value + constant, *group, *trajectory)).collect();
        close(&compare(&raised, &settings).advantage, &compare(&rows, &settings).advantage);
    }

    #[test]
    fn a_group_sums_to_zero(rows in rows(), settings in any_settings()) {
        let settings = AdvantageSettings { unit: Unit::Turn, ..settings };
        let result = compare(&rows, &settings);
        for group in 0..6 {
            let sum: f64 = rows.iter().zip(&result.advantage).filter(|(row, _)| row.1 == group).map(|(_, a)| f64::from(*a)).sum();
            prop_assert!(sum.abs() < 1e-3, "group {} sums to {}", group, sum);
        }
    }

    #[test]
    fn one_pass_agrees_with_the_definition(rows in rows(), offset in -1e6..1e6f64) {
        let rows: Vec<_> = rows.iter().map(|row| (row.0 + offset, row.1, row.2)).collect();
        let settings = AdvantageSettings { of: Of::Reward, eps: 0.1, ..Default::default() };
        let wanted: Vec<f32> = rows.iter().map(|row| {
            let group: Vec<f64> = rows.iter().filter(|other| other.1 == row.1).map(|other| other.0).collect();
            let mean = group.iter().sum::<f64>() / group.len() as f64;
            let variance = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (group.len() - 1).max(1) as f64;
            ((row.0 - mean) / (variance.sqrt() + 0.1)) as f32
        }).collect();
        close(&compare(&rows, &settings).advantage, &wanted);
    }
}
