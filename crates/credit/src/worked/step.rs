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

/// Sample 0 earns 0, 1, 8 and sample 1 0, 0. Sample 2 is a copy of sample 0 at turn 1 and earns 0, 4; sample 3 one of
/// sample 2 at turn 2 and earns 2. With a discount of a half: sample 2 sees 4 and 2, mean 3, behind its first answer,
/// which is worth 1.5; sample 0's own there is worth 1 + 8 / 2. Their mean, 3.25, is what sample 0 sees behind its turn
/// 0; its own sample alone would say 5.
#[test]
fn a_turn_is_worth_the_mean_of_what_was_played_from_it_on() {
    let (rewards, episodes) = ([0.0, 1.0, 8.0, 0.0, 0.0, 0.0, 4.0, 2.0], [0..3, 3..5, 5..7, 7..8]);
    let prompt = [10, 11, 12, 20, 21, 11, 32, 32];
    let columns = Columns { reward: &rewards, prompt: &prompt, ..Default::default() };
    let settings = |of, gamma| AdvantageSettings { of, gamma, scale: Scale::None, singleton: Singleton::Zero, ..Default::default() };
    let tree = settings(EstimatorName::TreeReturn, 0.5);
    let returns = values(&columns, &episodes, &tree);
    assert_eq!(returns, [1.625, 5.0, 8.0, 0.0, 0.0, 1.5, 4.0, 2.0]);
    // The answers to one prompt compared: two of them at each of the two that were copied.
    close(&advantages(&returns, &prompt, &columns, &tree).advantage, &[0.0, 1.75, 0.0, 0.0, 0.0, -1.75, 1.0, -1.0]);
    let alone = values(&columns, &episodes, &settings(EstimatorName::StepReturn, 0.5));
    assert_eq!(alone, [2.5, 5.0, 8.0, 0.0, 0.0, 2.0, 4.0, 2.0]);
    assert_eq!(values(&Columns { prompt: &[], ..columns }, &episodes, &tree), alone, "where nothing is copied");
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
