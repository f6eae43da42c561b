//! Turns compared with the whole batch, token by token: REINFORCE++ (Hu et al. 2025; verl's
//! `compute_reinforce_plus_plus_*`).

use super::*;

/// verl's whitening: the mean and the unbiased variance of all response tokens, and 1e-8 added to the variance.
fn whitening(of: EstimatorName) -> AdvantageSettings {
    AdvantageSettings { of, unit: Unit::Token, eps: 1e-8, eps_in: EpsIn::Variance, ..Default::default() }
}

/// Two turns of 2 tokens and 1 token, the second one rewarded with 1; and a turn of 1 token that earns nothing.
fn reinforce(settings: &AdvantageSettings) -> Advantages {
    let columns = Columns { reward: &[0.0, 1.0, 0.0], tokens: &[2, 1, 1], ..Default::default() };
    let value = values(&columns, &[0..2, 2..3], settings);
    assert_eq!(value, [1.0, 1.0, 0.0], "the return to go of every token");
    advantages(&value, &[0; 3], &columns, settings)
}

#[test]
fn reinforce_plus_plus() {
    // Tokens 1, 1, 1, 0: mean 3/4, variance (3/16 + 9/16) / 3 = 1/4.
    let result = reinforce(&whitening(EstimatorName::StepReturn));
    close(&result.advantage, &[0.5, 0.5, -1.5]);
    close(&result.baseline, &[0.75; 3]);
    close(&result.scale, &[0.5; 3]);
    let by_turn = reinforce(&AdvantageSettings { unit: Unit::Turn, ..whitening(EstimatorName::StepReturn) });
    close(&by_turn.advantage, &[0.577350, 0.577350, -1.154701]);
}

#[test]
fn where_eps_stands() {
    let scale = |eps, eps_in, ddof| reinforce(&AdvantageSettings { eps, eps_in, ddof, ..whitening(EstimatorName::StepReturn) }).scale[0];
    assert_eq!(scale(0.5, EpsIn::Std, 1), 1.0);
    assert_eq!(scale(0.75, EpsIn::Variance, 1), 1.0);
    assert_eq!((scale(4.0, EpsIn::VarianceFloor, 1), scale(0.01, EpsIn::VarianceFloor, 1)), (2.0, 0.5));
    // OpenRLHF divides by the number of tokens: 3/16.
    close(&[scale(1e-8, EpsIn::VarianceFloor, 0)], &[0.433013]);
    let none =
        |eps_in| reinforce(&AdvantageSettings { eps: 0.0, scale: Scale::None, eps_in, ..whitening(EstimatorName::StepReturn) }).scale[0];
    assert_eq!((none(EpsIn::Std), none(EpsIn::Variance), none(EpsIn::VarianceFloor)), (1.0, 1.0, 1.0));
}

/// Two tasks with returns 3 and 1, and 4 and 4, in turns of 1, 2, 1 and 1 tokens: less the mean of the task 1, -1, 0, 0.
fn with_baseline(dropped: &[bool]) -> Advantages {
    let task = AdvantageSettings { scale: Scale::None, ..Default::default() };
    let columns = Columns { reward: &[3.0, 1.0, 4.0, 4.0], trajectory: &[0, 1, 2, 3], ..Default::default() };
    let first = advantages(&values(&columns, &[0..1, 1..2, 2..3, 3..4], &task), &[7, 7, 8, 8], &columns, &task);
    close(&first.advantage, &[1.0, -1.0, 0.0, 0.0]);
    let batch = whitening(EstimatorName::Advantage);
    let columns = Columns { named: &[("advantage", &first.advantage)], tokens: &[1, 2, 1, 1], dropped, ..Default::default() };
    advantages(&values(&columns, &[], &batch), &[0; 4], &columns, &batch)
}

#[test]
fn reinforce_plus_plus_with_baseline() {
    // Tokens 1, -1, -1, 0, 0: mean -1/5, variance (1.44 + 2 * 0.64 + 2 * 0.04) / 4 = 0.7.
    close(&with_baseline(&[]).advantage, &[1.434274, -0.956183, 0.239046, 0.239046]);
}

#[test]
fn a_row_dropped_upstream_stays_dropped_and_counts_for_nobody() {
    // Tokens 1, -1, -1: mean -1/3, variance (16/9 + 2 * 4/9) / 2 = 4/3.
    let result = with_baseline(&[false, false, true, true]);
    close(&result.advantage, &[1.154701, -0.577350, 0.0, 0.0]);
    assert_eq!(result.used, [RowStatus::Yes, RowStatus::Yes, RowStatus::Upstream, RowStatus::Upstream]);
    let all = with_baseline(&[true; 4]);
    assert_eq!((all.advantage, all.used), (vec![0.0; 4], vec![RowStatus::Upstream; 4]));
}

#[test]
fn dropped_rows_count_for_no_trajectory() {
    for baseline in [Baseline::Mean, Baseline::LeaveOneOut] {
        let settings = AdvantageSettings { baseline, scale: Scale::None, ..Default::default() };
        let columns = Columns { trajectory: &[1, 1, 2, 3], dropped: &[false, true, false, true], ..Default::default() };
        let result = advantages(&[4.0, 9.0, 2.0, 50.0], &[0; 4], &columns, &settings);
        let half = if baseline == Baseline::Mean { 1.0 } else { 2.0 };
        close(&result.advantage, &[half, 0.0, -half, 0.0]);
    }
}

#[test]
fn a_row_without_tokens_weighs_nothing() {
    let columns = Columns { tokens: &[2, 0, 1], ..Default::default() };
    let settings = AdvantageSettings { scale: Scale::None, ..whitening(EstimatorName::Reward) };
    close(&advantages(&[1.0, 100.0, 4.0], &[0; 3], &columns, &settings).advantage, &[-1.0, 98.0, 2.0]);
    let rest = AdvantageSettings { baseline: Baseline::LeaveOneOut, ..settings.clone() };
    close(&advantages(&[1.0, 100.0, 4.0], &[0; 3], &columns, &rest).advantage, &[-3.0, 98.0, 3.0]);
    let alone = advantages(&[1.0, 100.0], &[0; 2], &Columns { tokens: &[0, 0], ..Default::default() }, &settings);
    assert_eq!(alone.advantage, [0.0, 0.0], "and where no row has any, nothing is compared");
}
