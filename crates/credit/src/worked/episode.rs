//! Trajectories compared with those of the same task: GRPO, Dr.GRPO, RLOO, DAPO.

use super::*;

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

/// MaxRL: one of four wins, so the mean is 1/4 and the win has (1 - 1/4) / (1/4) = 3; where three of four win it has
/// 1/3. Nothing won is nothing learnt. A return below 0 leaves its group undivided, whatever the mean: 1 and -1 have a
/// mean of 0, and eps alone would make a million of them.
#[test]
fn maxrl_divides_by_the_mean() {
    let settings = AdvantageSettings { scale: Scale::Mean, eps: 0.0, ..Default::default() };
    close(&of_group(&[1.0, 0.0, 0.0, 0.0], &settings).advantage, &[3.0, -1.0, -1.0, -1.0]);
    close(&of_group(&[1.0, 1.0, 1.0, 0.0], &settings).advantage, &[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, -1.0]);
    close(&of_group(&[0.0; 4], &settings).advantage, &[0.0; 4]);
    close(&of_group(&[-3.0, 1.0], &settings).advantage, &[-2.0, 2.0]);
    let settings = AdvantageSettings { scale: Scale::Mean, ..Default::default() };
    close(&of_group(&[1.0, -1.0], &settings).advantage, &[1.0, -1.0]);
    close(&of_group(&[1.0, -1.0, 1.0, -1.0, 1.0, -1.0], &settings).scale, &[1.0; 6]);
    close(&of_group(&[-1e-9, 1.0], &settings).advantage, &[-0.5, 0.5]);
    close(&of_group(&[0.0, 0.0], &settings).advantage, &[0.0; 2]);
    close(&of_group(&[2.0, 0.0], &settings).advantage, &[1.0, -1.0]);
    // From 0 on an advantage is less than the number of members, however small the returns.
    close(&of_group(&[1e-3, 0.0, 0.0], &AdvantageSettings { eps: 0.0, ..settings.clone() }).advantage, &[2.0, -1.0, -1.0]);
    for baseline in [Baseline::LeaveOneOut, Baseline::SecondBest, Baseline::None] {
        let result = of_group(&[1.0, -1.0], &AdvantageSettings { baseline, ..settings.clone() });
        assert!(result.advantage.iter().all(|a| a.abs() <= 2.0), "{baseline:?}: {:?}", result.advantage);
    }
}

/// A penalty after the return: rows of 0.2 and -0.1 have a trajectory's mean of 0.05, beside a trajectory of 0. A row that
/// was dropped, and one without a token where tokens count, is not asked.
#[test]
fn a_value_below_0_within_a_trajectory_divides_nothing() {
    let settings = AdvantageSettings { scale: Scale::Mean, ..Default::default() };
    let of = |dropped: &[bool], tokens: &[u32], settings: &AdvantageSettings| {
        let columns = Columns { trajectory: &[1, 1, 2], dropped, tokens, ..Default::default() };
        advantages(&[0.2, -0.1, 0.0], &[0; 3], &columns, settings)
    };
    close(&of(&[], &[], &settings).advantage, &[0.175, -0.125, -0.025]);
    close(&of(&[false, true, false], &[], &settings).advantage, &[0.99999, 0.0, -0.99999]);
    close(&of(&[], &[1, 0, 1], &AdvantageSettings { unit: Unit::Token, ..settings }).scale, &[0.100001; 3]);
}

/// Without a baseline the advantage of equal values is the values: no deviation divides them.
#[test]
fn equal_values_without_a_baseline_are_not_divided() {
    for eps_in in [EpsIn::Std, EpsIn::Variance, EpsIn::VarianceFloor] {
        let settings = AdvantageSettings { baseline: Baseline::None, eps_in, ..Default::default() };
        close(&of_group(&[1.0, 1.0], &settings).advantage, &[1.0; 2]);
    }
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

/// DAPO's advantage is GRPO's; a task that all trajectories won, or all lost, is dropped.
#[test]
fn dapo() {
    let with = |equal| {
        let settings = AdvantageSettings { equal, ..Default::default() };
        let columns = Columns { trajectory: &[0, 1, 2, 3, 4, 5, 6, 7, 8], ..Default::default() };
        let returns = [1.0, 0.0, 0.0, 1.0, 0.1, 0.1, 0.1, 0.1, 5.0];
        advantages(&returns, &[7, 7, 7, 7, 8, 8, 8, 8, 9], &columns, &settings)
    };
    let (keep, drop) = (with(Equal::Keep), with(Equal::Drop));
    close(&drop.advantage, &[0.866024, -0.866024, -0.866024, 0.866024, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(keep.advantage, drop.advantage);
    assert_eq!(texts(&keep.used), ["yes"; 9]);
    let dull = "dropped_equal_rewards";
    assert_eq!(texts(&drop.used), ["yes", "yes", "yes", "yes", dull, dull, dull, dull, "yes"], "one alone is the business of `singleton`");
}

#[test]
fn a_group_is_dull_by_its_trajectories() {
    let settings = AdvantageSettings { equal: Equal::Drop, scale: Scale::None, ..Default::default() };
    let dull = RowStatus::EqualRewards;
    let used = |values: &[f64], settings: &AdvantageSettings| {
        advantages(values, &[0; 3], &Columns { trajectory: &[1, 1, 2], tokens: &[1, 0, 4], ..Default::default() }, settings).used
    };
    assert_eq!(used(&[4.0, 4.0, 4.0], &settings), [dull; 3]);
    // After a penalty the rows of a trajectory differ; their mean, which is what counts, need not.
    assert_eq!(used(&[5.0, 3.0, 4.0], &settings), [dull; 3]);
    assert_eq!(used(&[5.0, 3.0, 4.0], &AdvantageSettings { unit: Unit::Turn, ..settings.clone() }), [RowStatus::Yes; 3]);
    assert_eq!(used(&[4.0, 3.0, 4.0], &AdvantageSettings { unit: Unit::Token, ..settings }), [dull; 3], "the second row has no tokens");
}

#[test]
fn a_trajectory_is_left_out_as_a_whole() {
    let settings = AdvantageSettings { baseline: Baseline::LeaveOneOut, scale: Scale::None, ..Default::default() };
    let whole = TwoTrajectories::advantages(&[], &[7; 5], &settings);
    close(&whole.advantage, &[10.0, 10.0, 10.0, -10.0, -10.0]);
    let by_turn = TwoTrajectories::advantages(&[], &[7; 5], &AdvantageSettings { unit: Unit::Turn, ..settings });
    close(&by_turn.advantage, &[5.0, 5.0, 5.0, -7.5, -7.5]);
}

#[test]
fn a_row_alone() {
    let alone = |singleton| {
        let settings = AdvantageSettings { singleton, ..Default::default() };
        // The rows of one trajectory are alone too; rows 2 and 3 are company and don't care.
        let columns = Columns { trajectory: &[1, 1, 1, 2], ..Default::default() };
        advantages(&[3.0, 3.0, 1.0, 2.0], &[1, 1, 2, 2], &columns, &settings)
    };
    let half = 0.5f32.sqrt();
    let raw = alone(Singleton::Raw);
    close(&raw.advantage, &[3.0, 3.0, -half, half]);
    assert_eq!((raw.baseline[0], raw.scale[0]), (0.0, 1.0));
    let zero = alone(Singleton::Zero);
    close(&zero.advantage, &[0.0, 0.0, -half, half]);
    assert_eq!((zero.baseline[0], zero.scale[0], zero.used[0]), (3.0, 1.0, RowStatus::Yes));
    let drop = alone(Singleton::Drop);
    close(&drop.advantage, &zero.advantage);
    assert_eq!(texts(&drop.used), ["singleton", "singleton", "yes", "yes"]);
    let reinforce = AdvantageSettings { baseline: Baseline::None, scale: Scale::None, singleton: Singleton::Drop, ..Default::default() };
    let result = of_group(&[3.0], &reinforce);
    assert_eq!((result.advantage[0], result.used[0]), (3.0, RowStatus::Yes), "nothing is compared, so no row is missing");
}

#[test]
fn an_invalid_action_costs() {
    let valid = [true, false, true, true, true];
    let result = |of, penalty| {
        let settings = AdvantageSettings { of, penalty, gamma: 0.5, invalid_penalty: 2.0, ..Default::default() };
        values(&TwoTrajectories::columns(&valid), &[0..3, 3..5], &settings)
    };
    assert_eq!(result(EstimatorName::StepReturn, Penalty::BeforeReturn), [1.5, 3.0, 10.0, 0.0, 0.0]);
    assert_eq!(result(EstimatorName::StepReturn, Penalty::AfterReturn), [2.5, 3.0, 10.0, 0.0, 0.0]);
    assert_eq!(result(EstimatorName::EpisodeReturn, Penalty::BeforeReturn), [8.0, 8.0, 8.0, 0.0, 0.0]);
    assert_eq!(result(EstimatorName::EpisodeReturn, Penalty::AfterReturn), [10.0, 8.0, 10.0, 0.0, 0.0]);
    assert_eq!(result(EstimatorName::Reward, Penalty::BeforeReturn), [0.0, -2.0, 10.0, 0.0, 0.0]);
    assert_eq!(result(EstimatorName::Reward, Penalty::AfterReturn), [0.0, -2.0, 10.0, 0.0, 0.0]);
    // After the return the rows of a trajectory differ: 10, 8, 10 count once, as 28/3.
    let settings = AdvantageSettings { penalty: Penalty::AfterReturn, invalid_penalty: 2.0, scale: Scale::None, ..Default::default() };
    close(&TwoTrajectories::advantages(&valid, &[7; 5], &settings).baseline, &[14.0 / 3.0; 5]);
}

/// Eight losses of 15 turns at -0.1, where one sum rounds to -1.5000001; a win of 11 beside seven of 10.999999:
/// rounding tells nothing.
#[test]
fn rounding_is_no_advantage() {
    let losses = [-1.5f32, -1.5, -1.5, -1.5000001, -1.5, -1.5, -1.5, -1.5].map(f64::from);
    let wins = [11.0f32, 10.999999, 10.999999, 11.0, 11.0, 11.0, 11.0, 11.0].map(f64::from);
    for values in [losses, wins] {
        for baseline in [Baseline::Mean, Baseline::LeaveOneOut] {
            let result = of_group(&values, &AdvantageSettings { baseline, equal: Equal::Drop, ..Default::default() });
            assert_eq!(result.advantage, [0.0; 8], "{baseline:?}");
            assert!(result.used.iter().all(|used| *used == RowStatus::EqualRewards));
        }
    }
    let apart = of_group(&[11.0, 10.9], &AdvantageSettings { equal: Equal::Drop, ..Default::default() });
    assert!(apart.advantage[0] > 0.7 && apart.used[0] == RowStatus::Yes);
}
