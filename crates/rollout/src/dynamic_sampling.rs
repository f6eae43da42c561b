//! Dynamic sampling (DAPO, Yu et al. 2025, section 3.2 and the constraint of Eq. 11): a task whose trajectories all
//! have the same return has no advantage to learn from, so further tasks are played in its place.

use super::batch::Played;
use super::error::RolloutError;
use arrow::array::RecordBatch;
use flow_core::row::{self, RowError};
use flow_credit::rows::{episodes, reflections};
use flow_credit::stats::equal;

/// The result of dynamic sampling: all rows, including those of tasks whose returns are all equal.
pub struct Sampled {
    /// The rows of all tasks that were played.
    pub played: Played,
    /// Tasks whose returns weren't all equal.
    pub telling: usize,
    /// The number of rounds, each with as many tasks as were still missing.
    pub rounds: usize,
}

/// Applies the rewards that `advantage` will compare.
pub type Weigh<'a> = dyn Fn(&[RecordBatch]) -> Result<Vec<RecordBatch>, RolloutError> + 'a;

/// Plays tasks in order, in rounds of as many as are still missing, until `target` of them have returns that are not
/// all equal, or no task is left. So no more than `target` ever have, and which ones follows from the order alone.
///
/// The rows of `play` have the columns `task`, `sample`, `attempt`, `turn`, `phase` and `reward`; errors of `play` and
/// `weigh` are passed on.
pub fn resample(
    tasks: &[String],
    target: usize,
    mut play: impl FnMut(&[String]) -> Result<Played, RolloutError>,
    weigh: &Weigh,
) -> Result<Sampled, RolloutError> {
    let mut sampled = Sampled { played: Played::default(), telling: 0, rounds: 0 };
    let mut left = tasks;
    while sampled.telling < target && !left.is_empty() {
        let (now, later) = left.split_at(left.len().min(target - sampled.telling));
        let played = play(now)?;
        sampled.telling += telling(&weigh(&played.rows)?)?;
        sampled.played.add(played);
        sampled.rounds += 1;
        left = later;
    }
    Ok(sampled)
}

/// How many tasks have trajectories whose returns, as `advantage` would compare them, are not all equal up to rounding
/// ([`equal`]).
pub fn telling(rows: &[RecordBatch]) -> Result<usize, RowError> {
    let Some(rows) = row::sorted(rows)? else { return Ok(0) };
    let reflections = reflections(&rows)?;
    let (tasks, mut episodes) = (row::texts(&rows, "task")?, episodes(&rows)?);
    episodes.retain(|episode| !reflections[episode.start]);
    let rewards = row::f32s(&rows, "reward")?.values();
    let returns: Vec<f32> = flow_credit::episode_return(rewards, &episodes).iter().map(|r| *r as f32).collect();
    let same_task = |i: usize| tasks.value(episodes[i].start) == tasks.value(episodes[i - 1].start);
    let of_episode = |i: usize| returns[episodes[i].start];
    let size = |i: usize| rewards[episodes[i].clone()].iter().fold(0.0, |most: f32, reward| most.max(reward.abs()));
    let varied = |task: &std::ops::Range<usize>| {
        let bounds = task.clone().map(of_episode).fold((f32::MAX, f32::MIN), |(low, high), r| (low.min(r), high.max(r)));
        let size = task.clone().map(size).fold(0.0, f32::max);
        !equal(f64::from(bounds.0), f64::from(bounds.1), f64::from(size))
    };
    Ok(flow_credit::episodes(same_task, episodes.len()).iter().filter(|task| varied(task)).count())
}

#[cfg(test)]
mod tests {
    use super::super::summary::Summary;
    use super::*;
    use arrow::array::{Float32Array, StringArray, UInt32Array};
    use std::sync::Arc;

    /// Two trajectories of three turns each. Both earn 1 on a task that ends in s, though in another order, so that
    /// their sums differ in the last digit; on others the second one earns more.
    fn played(tasks: &[String]) -> Result<Played, RolloutError> {
        let n = 6 * tasks.len();
        let each = |f: &dyn Fn(u32) -> u32| Arc::new(UInt32Array::from_iter_values((0..n as u32).map(|i| f(i % 6))));
        let reward = |i: usize| match i % 6 {
            3.. if tasks[i / 6].ends_with('t') => 2.0,
            other => [0.1, 0.7, 0.2, 0.2, 0.1, 0.7000001][other],
        };
        let rows = row::batch(vec![
            ("task", Arc::new(StringArray::from_iter_values((0..n).map(|i| &tasks[i / 6])))),
            ("sample", each(&|i| i / 3)),
            ("attempt", each(&|_| 0)),
            ("turn", each(&|i| i % 3)),
            ("phase", Arc::new(StringArray::from(vec!["play"; n]))),
            ("reward", Arc::new(Float32Array::from_iter_values((0..n).map(reward)))),
        ]);
        let (rows, summary) = (vec![rows?], Summary { episodes: n / 3, ..Default::default() });
        Ok(Played { rows, summary, ..Default::default() })
    }

    fn as_paid(rows: &[RecordBatch]) -> Result<Vec<RecordBatch>, RolloutError> {
        Ok(rows.to_vec())
    }

    /// The tasks of each round, and what came of them: a task that ends in s is dull, one that ends in t tells.
    fn rounds(tasks: &[&str], target: usize) -> (Vec<Vec<String>>, Sampled) {
        let tasks: Vec<String> = tasks.iter().map(|t| t.to_string()).collect();
        let mut rounds = Vec::new();
        let sampled = resample(
            &tasks,
            target,
            |now| {
                rounds.push(now.to_vec());
                played(now)
            },
            &as_paid,
        );
        (rounds, sampled.unwrap())
    }

    #[test]
    fn dull_tasks_are_made_up_for_and_kept() {
        let (rounds, sampled) = rounds(&["1s", "2t", "3s", "4s", "5t", "6t", "7t"], 3);
        assert_eq!(rounds, [vec!["1s", "2t", "3s"], vec!["4s", "5t"], vec!["6t"]]);
        assert_eq!((sampled.telling, sampled.rounds, sampled.played.summary.episodes), (3, 3, 12));
        assert_eq!(sampled.played.rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 6 * 6, "the rows of dull tasks too");
    }

    /// Two samples that fail with -1 and reflect; what a reflection earns is no return.
    #[test]
    fn reflections_tell_nothing() {
        let u32s = |values: [u32; 4]| Arc::new(UInt32Array::from(values.to_vec()));
        let rows = row::batch(vec![
            ("task", Arc::new(StringArray::from(vec!["a"; 4]))),
            ("sample", u32s([0, 0, 1, 1])),
            ("attempt", u32s([0; 4])),
            ("turn", u32s([0, 1, 0, 1])),
            ("phase", Arc::new(StringArray::from(vec!["play", "reflect", "play", "reflect"]))),
            ("reward", Arc::new(Float32Array::from(vec![-1.0, 0.0, -1.0, 0.5]))),
        ]);
        assert_eq!(telling(&[rows.unwrap()]).unwrap(), 0);
    }

    #[test]
    fn tasks_run_out() {
        let (rounds, sampled) = rounds(&["1s", "2s", "3t"], 2);
        assert_eq!(rounds, [vec!["1s", "2s"], vec!["3t"]]);
        assert_eq!((sampled.telling, sampled.rounds), (1, 2));
        assert_eq!(resample(&[], 2, played, &as_paid).unwrap().rounds, 0);
    }
}
