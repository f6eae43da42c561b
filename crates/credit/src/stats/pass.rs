//! pass@k over several attempts, with its interval.

use super::{bootstrap, wilson, Interval};
use std::collections::BTreeMap;

/// All attempts of one sample at a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// An id of the task.
    pub task: u64,
    /// The index of the first attempt that was won, from 0; `None` if none was.
    pub won_at: Option<u32>,
}

/// pass@k: the share of trials that were won within their first `k` attempts (LaMer, Table 1: success under k
/// attempts). 0 without trials.
pub fn pass_at(trials: &[Trial], k: u32) -> f64 {
    let won = trials.iter().filter(|trial| trial.within(k)).count();
    won as f64 / trials.len().max(1) as f64
}

/// [`pass_at`] with its interval of 95% by [`bootstrap`] over tasks: the trials of a task are no independent witnesses.
/// Where all tasks have one share, such as 0 of n, resamples don't differ, and it is [`wilson`]'s over tasks.
pub fn pass_interval(trials: &[Trial], k: u32, seed: u64) -> Interval {
    let mut tasks: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for trial in trials {
        let (won, all) = tasks.entry(trial.task).or_default();
        *won += f64::from(u8::from(trial.within(k)));
        *all += 1.0;
    }
    let tasks: Vec<(f64, f64)> = tasks.into_values().collect();
    let value = pass_at(trials, k);
    let alike = tasks.iter().all(|(won, all)| won * tasks[0].1 == tasks[0].0 * all);
    let (low, high) = if alike { wilson(value, tasks.len()) } else { bootstrap(&tasks, RESAMPLES, 0.95, seed) };
    Interval { value, low, high }
}

impl Trial {
    fn within(&self, k: u32) -> bool {
        self.won_at.is_some_and(|attempt| attempt < k)
    }
}

/// Resamples of [`pass_interval`]: enough for the second digit of a percentage.
const RESAMPLES: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(task: u64, won_at: Option<u32>) -> Trial {
        Trial { task, won_at }
    }

    #[test]
    fn within_so_many_attempts() {
        let trials = [trial(1, Some(0)), trial(1, Some(2)), trial(2, None), trial(2, Some(1)), trial(3, None)];
        assert_eq!([0, 1, 2, 3, 4].map(|k| pass_at(&trials, k)), [0.0, 0.2, 0.4, 0.6, 0.6]);
        assert_eq!(pass_at(&[], 1), 0.0);
    }

    /// None of four tasks, all four, each half of the time, one alone, and no task at all.
    #[test]
    fn tasks_that_end_alike_have_an_interval() {
        let of = |tasks: u64, won: &[bool]| {
            let trials: Vec<Trial> = (0..tasks).flat_map(|task| won.iter().map(move |won| trial(task, won.then_some(0)))).collect();
            let Interval { value, low, high } = pass_interval(&trials, 1, 3);
            [value, low, high].map(|x| (x * 1000.0).round() / 1000.0)
        };
        assert_eq!(of(4, &[false]), [0.0, 0.0, 0.49]);
        assert_eq!(of(4, &[true, true]), [1.0, 0.51, 1.0], "more trials of a task are no more tasks");
        assert_eq!(of(4, &[true, false]), [0.5, 0.15, 0.85]);
        assert_eq!(of(1, &[true]), [1.0, 0.207, 1.0]);
        assert_eq!(of(0, &[true]), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn the_interval_is_that_of_the_draws() {
        let trials = [trial(1, Some(0)), trial(2, None)];
        assert_eq!(pass_interval(&trials, 1, 7), Interval { value: 0.5, low: 0.0, high: 1.0 });
    }

    /// A share of 0.3 of 100 tasks has the standard error sqrt(0.21 / 100) = 0.0458, so that 95% lie in 0.3 +- 0.0898.
    #[test]
    fn the_interval_agrees_with_the_normal_one() {
        let trials: Vec<Trial> = (0..100).map(|task| trial(task, (task < 30).then_some(0))).collect();
        let Interval { value, low, high } = pass_interval(&trials, 1, 1);
        assert_eq!(value, 0.3);
        assert!((low - 0.21).abs() <= 0.0101 && (high - 0.39).abs() <= 0.0101, "{low} to {high}");
        assert_eq!(pass_interval(&trials, 1, 1), pass_interval(&trials, 1, 1));
    }

    /// Ten trials of each of ten tasks say no more than one of each where a task's trials all end alike.
    #[test]
    fn trials_of_a_task_are_one_witness() {
        let each = |n: u64| (0..10).flat_map(|task| (0..n).map(move |_| trial(task, (task < 5).then_some(0)))).collect::<Vec<_>>();
        assert_eq!(pass_interval(&each(10), 1, 3), pass_interval(&each(1), 1, 3));
    }
}
