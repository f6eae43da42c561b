//! Returns across the attempts of a trial: what an attempt that fails is good for.

use super::{Estimator, EstimatorInput};
use crate::conventions::Boundary;
use serde_json::json;

pub(super) static ESTIMATOR: Estimator = Estimator {
    values: cross_episode_return,
    settings: &["gamma_attempt", "boundary"],
    // LaMer's code takes the penalty for an invalid action from the episode's part alone.
    code: || json!({ "unit": "turn", "boundary": "code" }),
    ..Estimator::PLAIN
};

/// LaMer, Eq. 4: `G_t^(n) = g_t^(n) + sum over m > n of gamma_attempt^(m - n) * g_0^(m)` for turn `t` of attempt `n`,
/// where `g` is the step_return within an attempt (Eq. 3). By `boundary: code` the attempts after its own also count
/// gamma times less for each turn left (the released code's one pass from the end of the trial).
///
/// A reflection has its own reward and the return after it, `G_0^(n+1)`, undiscounted; nothing before it has its
/// reward. `episodes` are attempts and reflections in the order of the rows' names; those of one trial follow one
/// another.
fn cross_episode_return(input: &EstimatorInput) -> Vec<f64> {
    let EstimatorInput { columns, episodes, rewards, discounts } = input;
    let mut returns = vec![0.0; rewards.len()];
    // The return of the attempt that comes next, from its first turn on.
    let mut next = 0.0;
    let mut trial = None;
    for episode in episodes.iter().rev() {
        let id = columns.trial.get(episode.start);
        if trial != id {
            (trial, next) = (id, 0.0);
        }
        if columns.reflection(episode.start) {
            episode.clone().for_each(|i| returns[i] = rewards[i] + next);
            continue;
        }
        let later = discounts.gamma_attempt * next;
        let (mut following, across) = match discounts.boundary {
            Boundary::Paper => (0.0, later),
            Boundary::Code => (later, 0.0),
        };
        for i in episode.clone().rev() {
            let within = rewards[i] + following;
            following = discounts.gamma * within;
            returns[i] = within + across;
        }
        next = returns[episode.start];
    }
    returns
}
