//! What must hold for any rows.

use super::*;
use flow_core::seed::Random;
use proptest::prelude::*;

/// A row as it comes: small ids, so that groups and trajectories meet.
#[derive(Clone, Debug)]
struct SampleRow {
    value: f64,
    group: u64,
    trajectory: u64,
    tokens: u32,
}

fn rows() -> impl Strategy<Value = Vec<SampleRow>> {
    let row = (-100.0..100.0f64, 0..6u64, 0..5u64, 1..9u32);
    prop::collection::vec(row.prop_map(|(value, group, trajectory, tokens)| SampleRow { value, group, trajectory, tokens }), 1..60)
}

fn any_settings() -> impl Strategy<Value = AdvantageSettings> {
    let baseline = prop_oneof![Just(Baseline::Mean), Just(Baseline::LeaveOneOut)];
    let scale = prop_oneof![Just(Scale::Std), Just(Scale::None)];
    let of = prop_oneof![Just(EstimatorName::EpisodeReturn), Just(EstimatorName::StepReturn)];
    let unit = prop_oneof![Just(Unit::Trajectory), Just(Unit::Turn), Just(Unit::Token)];
    let eps_in = prop_oneof![Just(EpsIn::Std), Just(EpsIn::Variance), Just(EpsIn::VarianceFloor)];
    (baseline, scale, of, unit, eps_in).prop_map(|(baseline, scale, of, unit, eps_in)| AdvantageSettings {
        baseline,
        scale,
        of,
        unit,
        eps_in,
        eps: 0.1,
        ..Default::default()
    })
}

fn compare(rows: &[SampleRow], settings: &AdvantageSettings) -> Advantages {
    let values: Vec<f64> = rows.iter().map(|row| row.value).collect();
    let groups: Vec<u64> = rows.iter().map(|row| row.group).collect();
    let trajectory: Vec<u64> = rows.iter().map(|row| row.trajectory).collect();
    let tokens: Vec<u32> = rows.iter().map(|row| row.tokens).collect();
    advantages(&values, &groups, &Columns { trajectory: &trajectory, tokens: &tokens, ..Default::default() }, settings)
}

fn raised(rows: &[SampleRow], constant: f64) -> Vec<SampleRow> {
    rows.iter().map(|row| SampleRow { value: row.value + constant, ..row.clone() }).collect()
}

/// For each group the sum of its advantages, each multiplied by `times` of its row.
fn sums(rows: &[SampleRow], advantages: &Advantages, times: impl Fn(&SampleRow) -> f64) -> Vec<f64> {
    let members = |group| rows.iter().zip(&advantages.advantage).filter(move |(row, _)| row.group == group);
    (0..6).map(|group| members(group).map(|(row, a)| times(row) * f64::from(*a)).sum()).collect()
}

proptest! {
    #[test]
    fn order_does_not_matter(rows in rows(), settings in any_settings(), seed: u64) {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        Random::new(seed).shuffle(&mut order);
        let shuffled: Vec<_> = order.iter().map(|i| rows[*i].clone()).collect();
        let (straight, shuffled) = (compare(&rows, &settings), compare(&shuffled, &settings));
        let straight: Vec<f32> = order.iter().map(|i| straight.advantage[*i]).collect();
        close(&shuffled.advantage, &straight);
    }

    #[test]
    fn a_constant_for_all_changes_nothing(rows in rows(), settings in any_settings(), constant in -100.0..100.0f64) {
        close(&compare(&raised(&rows, constant), &settings).advantage, &compare(&rows, &settings).advantage);
    }

    #[test]
    fn a_constant_shows_where_nothing_is_subtracted(rows in rows(), settings in any_settings(), constant in 1.0..100.0f64) {
        let settings = AdvantageSettings { baseline: Baseline::None, singleton: Singleton::Raw, ..settings };
        let (before, after) = (compare(&rows, &settings), compare(&raised(&rows, constant), &settings));
        let expected: Vec<f32> = before.advantage.iter().zip(&before.scale).map(|(a, scale)| a + constant as f32 / scale).collect();
        prop_assert!(expected.iter().zip(&after.advantage).all(|(w, a)| (w - a).abs() < 1e-3 * w.abs().max(1.0)), "{:?} and {:?}", expected, after.advantage);
        prop_assert!(before.advantage.iter().zip(&after.advantage).all(|(a, b)| a < b));
    }

    #[test]
    fn a_group_sums_to_zero(rows in rows(), settings in any_settings()) {
        let settings = AdvantageSettings { unit: Unit::Turn, ..settings };
        let sums = sums(&rows, &compare(&rows, &settings), |_| 1.0);
        prop_assert!(sums.iter().all(|sum| sum.abs() < 1e-3), "{:?}", sums);
    }

    #[test]
    fn the_tokens_of_a_group_sum_to_zero(rows in rows(), settings in any_settings()) {
        let settings = AdvantageSettings { unit: Unit::Token, baseline: Baseline::Mean, ..settings };
        let sums = sums(&rows, &compare(&rows, &settings), |row| f64::from(row.tokens));
        prop_assert!(sums.iter().all(|sum| sum.abs() < 1e-2), "{:?}", sums);
    }

    #[test]
    fn leaving_one_out_stretches_the_distance_from_the_mean(rows in rows()) {
        let settings = AdvantageSettings { of: EstimatorName::Reward, scale: Scale::None, ..Default::default() };
        let mean = compare(&rows, &settings);
        let others = compare(&rows, &AdvantageSettings { baseline: Baseline::LeaveOneOut, ..settings });
        let expected: Vec<f32> = rows.iter().zip(&mean.advantage).map(|(row, a)| {
            let n = rows.iter().filter(|other| other.group == row.group).count() as f32;
            if n > 1.0 { a * n / (n - 1.0) } else { 0.0 }
        }).collect();
        close(&others.advantage, &expected);
    }

    #[test]
    fn a_token_is_a_row_of_its_own(rows in rows(), settings in any_settings()) {
        let settings = AdvantageSettings { unit: Unit::Token, baseline: Baseline::Mean, singleton: Singleton::Raw, ..settings };
        let tokens: Vec<SampleRow> = rows.iter().flat_map(|row| vec![SampleRow { tokens: 1, ..row.clone() }; row.tokens as usize]).collect();
        let apart = compare(&tokens, &AdvantageSettings { of: EstimatorName::Reward, ..settings.clone() });
        let together = compare(&rows, &settings);
        let of_row = |i: usize| apart.advantage[rows[..i].iter().map(|row| row.tokens as usize).sum::<usize>()];
        let company = |row: &SampleRow| rows.iter().filter(|other| other.group == row.group).count() > 1;
        for (i, _) in rows.iter().enumerate().filter(|(_, row)| company(row)) {
            close(&[together.advantage[i]], &[of_row(i)]);
        }
    }

    #[test]
    fn one_pass_agrees_with_the_definition(rows in rows(), offset in -1e4..1e4f64) {
        let rows = raised(&rows, offset);
        let settings = AdvantageSettings { of: EstimatorName::Reward, eps: 0.1, ..Default::default() };
        let expected: Vec<f32> = rows.iter().map(|row| {
            let group: Vec<f64> = rows.iter().filter(|other| other.group == row.group).map(|other| other.value).collect();
            let mean = group.iter().sum::<f64>() / group.len() as f64;
            let variance = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (group.len() - 1).max(1) as f64;
            ((row.value - mean) / (variance.sqrt() + 0.1)) as f32
        }).collect();
        close(&compare(&rows, &settings).advantage, &expected);
    }
}
