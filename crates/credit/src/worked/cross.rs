//! Attempts compared across their trial: LaMer.

use super::*;
use proptest::prelude::*;

/// Two samples of a task. The first one earns 0, 0.5, fails, reflects, and earns 0, 10; the second one wins at once
/// with 0, 4.
struct TwoTrials;
impl TwoTrials {
    const REWARDS: [f32; 7] = [0.0, 0.5, 0.0, 0.0, 10.0, 0.0, 4.0];
    const REFLECTION: [bool; 7] = [false, false, true, false, false, false, false];
    const TRIALS: [u64; 7] = [1, 1, 1, 1, 1, 2, 2];
    const TRAJECTORIES: [u64; 7] = [10, 10, 11, 12, 12, 20, 20];
    const EPISODES: [std::ops::Range<usize>; 4] = [0..2, 2..3, 3..5, 5..7];

    fn columns(valid: &[bool]) -> Columns<'_> {
        Columns {
            reward: &Self::REWARDS,
            valid,
            trial: &Self::TRIALS,
            reflection: &Self::REFLECTION,
            trajectory: &Self::TRAJECTORIES,
            ..Default::default()
        }
    }
    fn values(valid: &[bool], settings: &AdvantageSettings) -> Vec<f32> {
        values(&Self::columns(valid), &Self::EPISODES, settings).into_iter().map(|v| v as f32).collect()
    }
    fn advantages(groups: &[u64], settings: &AdvantageSettings) -> Advantages {
        let columns = Self::columns(&[]);
        advantages(&values(&columns, &Self::EPISODES, settings), groups, &columns, settings)
    }
}

fn across(boundary: Boundary) -> AdvantageSettings {
    AdvantageSettings { of: EstimatorName::CrossEpisodeReturn, gamma: 0.95, boundary, ..Default::default() }
}

#[test]
fn returns_across_attempts() {
    close(&TwoTrials::values(&[], &across(Boundary::Paper)), &[6.175, 6.2, 9.5, 9.5, 10.0, 3.8, 4.0]);
    close(&TwoTrials::values(&[], &across(Boundary::Code)), &[5.89, 6.2, 9.5, 9.5, 10.0, 3.8, 4.0]);
}

/// Three attempts of one turn each that earn 1, 2 and 4, with gamma_attempt 0.5: 1 + 0.5 * 2 + 0.25 * 4, 2 + 0.5 * 4, 4.
#[test]
fn an_attempt_further_on_counts_less_each_time() {
    for boundary in [Boundary::Paper, Boundary::Code] {
        let reflection = [false, true, false, true, false];
        let columns = Columns { reward: &[1.0, 0.0, 2.0, 0.0, 4.0], trial: &[7; 5], reflection: &reflection, ..Default::default() };
        let settings = AdvantageSettings { gamma_attempt: 0.5, ..across(boundary) };
        assert_eq!(values(&columns, &[0..1, 1..2, 2..3, 3..4, 4..5], &settings), [3.0, 4.0, 4.0, 4.0, 4.0]);
    }
}

/// A trial may end with a reflection that nothing follows, or hold no reflection at all.
#[test]
fn reflections_can_be_last_or_missing() {
    let columns = Columns { reward: &[1.0, 0.0, 2.0], trial: &[7, 7, 8], reflection: &[false, true, false], ..Default::default() };
    assert_eq!(values(&columns, &[0..1, 1..2, 2..3], &across(Boundary::Paper)), [1.0, 0.0, 2.0]);
    let columns = Columns { reward: &[1.0, 2.0], trial: &[7, 7], ..Default::default() };
    assert_eq!(values(&columns, &[0..1, 1..2], &AdvantageSettings { gamma_attempt: 0.5, ..across(Boundary::Code) }), [2.0, 2.0]);
}

#[test]
fn a_reflection_pays_its_penalty_alone() {
    let valid = [true, true, false, true, true, true, true];
    for penalty in [Penalty::BeforeReturn, Penalty::AfterReturn] {
        let fined = |of| AdvantageSettings { of, invalid_penalty: 0.5, penalty, ..across(Boundary::Paper) };
        close(&TwoTrials::values(&valid, &fined(EstimatorName::CrossEpisodeReturn)), &[6.175, 6.2, 9.0, 9.5, 10.0, 3.8, 4.0]);
        close(&TwoTrials::values(&valid, &fined(EstimatorName::EpisodeReturn)), &[0.5, 0.5, -0.5, 10.0, 10.0, 4.0, 4.0]);
        close(&TwoTrials::values(&valid, &fined(EstimatorName::StepReturn)), &[0.475, 0.5, -0.5, 9.5, 10.0, 3.8, 4.0]);
    }
}

/// The rows of all attempts and reflections of a task: mean (6.175 + 6.2 + 9.5 + 9.5 + 10 + 3.8 + 4) / 7 = 7.025.
#[test]
fn grpo_and_rloo_compare_all_rows_of_the_task() {
    let settings = AdvantageSettings { scale: Scale::None, ..across(Boundary::Paper) };
    let expected = [-0.85, -0.825, 2.475, 2.475, 2.975, -3.225, -3.025];
    close(&TwoTrials::advantages(&[7; 7], &settings).advantage, &expected);
    let turn = AdvantageSettings { unit: Unit::Turn, ..settings.clone() };
    close(&TwoTrials::advantages(&[7; 7], &turn).advantage, &expected);
    // Less the mean of the other six is 7/6 of that.
    let rloo = AdvantageSettings { baseline: Baseline::LeaveOneOut, ..settings.clone() };
    close(&TwoTrials::advantages(&[7; 7], &rloo).advantage, &expected.map(|a| a * 7.0 / 6.0));
    // Squares sum to 42.05625: variance 7.009375, deviation 2.647522.
    let grpo = TwoTrials::advantages(&[7; 7], &across(Boundary::Paper));
    close(&grpo.scale, &[2.647523; 7]);
    close(&grpo.advantage, &expected.map(|a| a / 2.647523));
}

/// Eight samples that all win at once, in three turns. By the return of each attempt they are equal; by the return
/// across attempts their first turns would be worse than their last ones: 9.025, 9.5 and 10 have mean 9.508333 and,
/// each eight times, deviation 0.406648.
#[test]
fn samples_that_all_win_at_once_are_equal_by_their_episodes() {
    let rewards = [0.0f32, 0.0, 10.0].repeat(8);
    let trials: Vec<u64> = (0..24).map(|i| i / 3).collect();
    let attempts: Vec<std::ops::Range<usize>> = (0..8).map(|i| i * 3..i * 3 + 3).collect();
    let columns = Columns { reward: &rewards, trial: &trials, trajectory: &trials, ..Default::default() };
    let by = |settings: AdvantageSettings| advantages(&values(&columns, &attempts, &settings), &[7; 24], &columns, &settings).advantage;
    assert_eq!(by(AdvantageSettings::default()), [0.0; 24]);
    close(&by(across(Boundary::Paper)), &[-1.188577, -0.020493, 1.20907].repeat(8));
}

/// GiGPO in LaMer's code, without the deviation: the episode's part compares what each attempt earned, a reflection
/// nothing, once a row; the step's part the rows in one state, of any attempt, and all reflections of the task.
#[test]
fn gigpo_as_released_with_lamer() {
    let meant =
        |of: &str| AdvantageSettings::resolve(&serde_json::json!({ "preset": "code", "of": of, "gamma": 0.95, "scale": "none" })).unwrap();
    let episode = TwoTrials::advantages(&[7; 7], &meant("episode_return"));
    // 0.5, 0.5, 0, 10, 10, 4, 4: mean 29/7.
    close(&episode.advantage, &[-3.642857, -3.642857, -4.142857, 5.857143, 5.857143, -0.142857, -0.142857]);
    // Both attempts and the other sample begin in s0: 5.89, 9.5, 3.8 have mean 19.19/3. The second turns are in s1, s2,
    // s1: 6.2 and 4 have mean 5.1. The reflection is alone.
    let states = [0, 1, 9, 0, 2, 0, 1];
    let step = TwoTrials::advantages(&states, &meant("cross_episode_return"));
    close(&step.advantage, &[-0.506667, 1.1, 0.0, 3.103333, 0.0, -2.596667, -1.1]);
    let both = both(&episode.advantage, &step.advantage);
    close(&both, &[-4.149524, -2.542857, -4.142857, 8.960476, 5.857143, -2.739524, -1.242857]);
}

/// By unit: trajectory a reflection is a trajectory of its own: 0.5, 0, 10 and 4 have mean 3.625.
#[test]
fn a_reflection_leaves_its_attempt_alone() {
    let settings = AdvantageSettings { scale: Scale::None, ..Default::default() };
    let result = TwoTrials::advantages(&[7; 7], &settings);
    close(&result.advantage, &[-3.125, -3.125, -3.625, 6.375, 6.375, 0.375, 0.375]);
}

/// A trial's attempts, each the rewards of its turns; all but the last are followed by a reflection.
type Trials = Vec<Vec<Vec<f32>>>;

fn trials() -> impl Strategy<Value = Trials> {
    let rewards = prop::collection::vec(-10.0..10.0f32, 1..5);
    prop::collection::vec(prop::collection::vec(rewards, 1..4), 1..4)
}

/// The value of every turn and of every reflection, trial by trial and attempt by attempt: (turns, reflection).
fn across_trials(trials: &Trials, settings: &AdvantageSettings) -> Vec<Vec<(Vec<f64>, Option<f64>)>> {
    let (mut reward, mut trial, mut reflection, mut episodes) = (vec![], vec![], vec![], vec![]);
    for (id, attempts) in trials.iter().enumerate() {
        for (n, turns) in attempts.iter().enumerate() {
            episodes.push(reward.len()..reward.len() + turns.len());
            reward.extend(turns);
            reflection.resize(reward.len(), false);
            if n + 1 < attempts.len() {
                episodes.push(reward.len()..reward.len() + 1);
                reward.push(0.0);
                reflection.push(true);
            }
            trial.resize(reward.len(), id as u64);
        }
    }
    let columns = Columns { reward: &reward, trial: &trial, reflection: &reflection, ..Default::default() };
    let mut computed = values(&columns, &episodes, settings).into_iter();
    let attempt = |(n, turns): (usize, &Vec<f32>), attempts: usize, computed: &mut std::vec::IntoIter<f64>| {
        (computed.by_ref().take(turns.len()).collect(), if n + 1 < attempts { computed.next() } else { None })
    };
    trials.iter().map(|attempts| attempts.iter().enumerate().map(|a| attempt(a, attempts.len(), &mut computed)).collect()).collect()
}

fn alike(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9 * (1.0 + a.abs().max(b.abs()))
}

proptest! {
    /// Eq. 3 and 4 as they are written, sums of powers.
    #[test]
    fn the_pass_agrees_with_the_equations(trials in trials(), gamma in 0.0..=1.0f64, gamma_attempt in 0.0..=1.0f64) {
        let computed = across_trials(&trials, &AdvantageSettings { gamma, gamma_attempt, ..across(Boundary::Paper) });
        let within = |turns: &[f32]| turns.iter().enumerate().map(|(l, r)| gamma.powi(l as i32) * f64::from(*r)).sum::<f64>();
        for (attempts, computed) in trials.iter().zip(computed) {
            let later = |n: usize| (n + 1..attempts.len()).map(|m| gamma_attempt.powi((m - n) as i32) * within(&attempts[m])).sum::<f64>();
            for (n, (values, reflection)) in computed.iter().enumerate() {
                for (t, value) in values.iter().enumerate() {
                    prop_assert!(alike(*value, within(&attempts[n][t..]) + later(n)));
                }
                if let Some(reflection) = reflection {
                    prop_assert!(alike(*reflection, within(&attempts[n + 1]) + later(n + 1)));
                }
            }
        }
    }

    /// The released pass: a turn's later attempts are gamma^(turns left) times the paper's value.
    #[test]
    fn the_boundaries_differ_by_the_turns_left(trials in trials(), gamma in 0.0..=1.0f64, gamma_attempt in 0.0..=1.0f64) {
        let settings = |boundary, gamma_attempt| AdvantageSettings { gamma, gamma_attempt, ..across(boundary) };
        let alone = across_trials(&trials, &settings(Boundary::Paper, 0.0));
        let code = across_trials(&trials, &settings(Boundary::Code, gamma_attempt));
        for (alone, code) in alone.iter().zip(&code) {
            for (n, (values, _)) in code.iter().enumerate() {
                let next = code.get(n + 1).map_or(0.0, |(values, _)| values[0]);
                for (t, value) in values.iter().enumerate() {
                    let left = (values.len() - 1 - t) as i32;
                    prop_assert!(alike(*value, alone[n].0[t] + gamma.powi(left) * gamma_attempt * next));
                }
            }
        }
    }

    /// With one attempt a trial, with gamma_attempt 0, and between the boundaries with gamma 1, nothing differs.
    #[test]
    fn where_attempts_do_not_matter(trials in trials(), gamma in 0.0..=1.0f64, gamma_attempt in 0.0..=1.0f64) {
        let first: Trials = trials.iter().map(|attempts| attempts[..1].to_vec()).collect();
        let step = AdvantageSettings { of: EstimatorName::StepReturn, gamma, ..Default::default() };
        for boundary in [Boundary::Paper, Boundary::Code] {
            let settings = AdvantageSettings { gamma, gamma_attempt, ..across(boundary) };
            prop_assert_eq!(across_trials(&first, &settings), across_trials(&first, &step));
            let blind = across_trials(&trials, &AdvantageSettings { gamma_attempt: 0.0, ..settings });
            let turns = |computed: Vec<Vec<(Vec<f64>, Option<f64>)>>| computed.into_iter().flatten().map(|(turns, _)| turns).collect::<Vec<_>>();
            prop_assert_eq!(turns(blind), turns(across_trials(&trials, &step)));
        }
        let whole = |boundary| across_trials(&trials, &AdvantageSettings { gamma: 1.0, gamma_attempt, ..across(boundary) });
        for (paper, code) in whole(Boundary::Paper).iter().flatten().zip(whole(Boundary::Code).iter().flatten()) {
            prop_assert!(paper.0.iter().zip(&code.0).all(|(a, b)| alike(*a, *b)));
        }
    }
}
