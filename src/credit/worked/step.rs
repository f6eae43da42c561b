//! Turns compared with turns in the same state: GiGPO and EAPO.

use super::*;

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
    let columns = Columns { reward: &rewards, ..Default::default() };
    let result = advantages(&values(&columns, &episodes, &settings), &groups, &columns, &settings);
    close(&result.advantage, &[0.5, 0.0, 2.0, 4.0, -0.5, -2.0, -4.0]);
}
