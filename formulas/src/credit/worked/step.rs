//! Turns compared with turns in the same state, or in one like it: GiGPO, EAPO, SLEA-RL.

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
    let groups: Vec<u64> = states.iter().zip(&depths).map(|(state, depth)| state * 10 + depth).collect();
    assert_eq!(sizes(&groups), [2, 1, 2, 2, 2, 2, 2]);
    let settings = AdvantageSettings { of: EstimatorName::StepReturn, gamma: 0.5, scale: Scale::None, ..Default::default() };
    let rewards = [0.0, 0.0, 0.0, 8.0, 0.0, 0.0, 0.0];
    let columns = Columns { reward: &rewards, ..Default::default() };
    let result = advantages(&values(&columns, &episodes, &settings), &groups, &columns, &settings);
    close(&result.advantage, &[0.5, 0.0, 2.0, 4.0, -0.5, -2.0, -4.0]);
    // As published, divided by the deviation: half the distance between two values is 1 / sqrt(2) of it.
    let settings = AdvantageSettings { scale: Scale::Std, eps: 0.0, ..settings };
    let half = 0.5f32.sqrt();
    let result = advantages(&values(&columns, &episodes, &settings), &groups, &columns, &settings);
    close(&result.advantage, &[half, 0.0, half, half, -half, -half, -half]);
}

/// SLEA-RL, Eq. 4 to 6, where s1 and s2 are one cluster: values 9.5, 10 and 0 have mean 6.5 and variance 63.5 / 2.
#[test]
fn grouping_by_cluster() {
    let (clusters, episode) = ([0, 1, 1, 0, 1], AdvantageSettings::default());
    let step = AdvantageSettings { of: EstimatorName::StepReturn, gamma: 0.95, ..Default::default() };
    let episode = TwoTrajectories::advantages(&[], &[7; 5], &episode).advantage;
    let step = TwoTrajectories::advantages(&[], &clusters, &step).advantage;
    let half = 0.5f32.sqrt();
    close(&step, &[half, 0.532414, 0.62115, -half, -1.153563]);
    close(&both(&episode, &step), &[2.0 * half, 1.239521, 1.328257, -2.0 * half, -1.86067]);
}

/// GiGPO as its code has it, without the deviation: the second action is invalid, and costs its own row 0.1.
#[test]
fn gigpo_as_released() {
    let meant =
        |of: &str| AdvantageSettings::resolve(&serde_json::json!({ "preset": "code", "of": of, "gamma": 0.95, "scale": "none" })).unwrap();
    let valid = [true, false, true, true, true];
    let episode = TwoTrajectories::advantages(&valid, &[7; 5], &meant("episode_return"));
    let step = TwoTrajectories::advantages(&valid, &TwoTrajectories::STATES, &meant("step_return"));
    // Returns 10, 9.9, 10, 0, 0, each counted: mean 5.98. Values 9.025 and 0 in s0, 9.4 and 0 in s1, 10 alone in s2.
    close(&episode.advantage, &[4.02, 3.92, 4.02, -5.98, -5.98]);
    close(&step.advantage, &[4.5125, 4.7, 0.0, -4.5125, -4.7]);
}
