//! The advantages of turns by published methods, of rows that only have rewards and states.

use super::{compare, mark, measure, value, EarlyTurns, RunningMeans};
use crate::AdvantageSettings;
use arrow::array::{Float32Array, RecordBatch};
use flow_core::row::{self, RowError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a turn of delay costs by the estimators of turns.
const GAMMA: f64 = 0.95;

/// The advantages by GRPO: the return of an episode, compared with those of its task.
pub fn grpo(rows: &RecordBatch) -> Result<Vec<f32>, RowError> {
    judged(rows, &["task"], &AdvantageSettings::default())
}

/// The advantages by GiGPO: GRPO's, and the return of a turn, compared with those in its state.
pub fn gigpo(rows: &RecordBatch) -> Result<Vec<f32>, RowError> {
    let step = AdvantageSettings { of: crate::EstimatorName::StepReturn, gamma: GAMMA, ..Default::default() };
    Ok(grpo(rows)?.iter().zip(judged(rows, &["task", "state"], &step)?).map(|(episode, step)| episode + step).collect())
}

/// The advantages by RTMC: the surprise of one step, where the value of a state is the mean return of the turns in it.
pub fn rtmc(rows: &RecordBatch) -> Result<Vec<f32>, RowError> {
    let step = AdvantageSettings { of: crate::EstimatorName::StepReturn, gamma: GAMMA, ..Default::default() };
    let returns = value(&grouped(rows, &["task", "state"])?, &step)?;
    let (groups, returns) = (row::u64s(&returns[0], "group")?.values(), row::f32s(&returns[0], "return")?.values());
    let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for (group, earned) in groups.iter().zip(returns) {
        let (sum, count) = sums.entry(*group).or_default();
        (*sum, *count) = (*sum + f64::from(*earned), *count + 1.0);
    }
    let mean = |group: &u64| sums.get(group).map_or(0.0, |(sum, count)| (sum / count) as f32);
    let valued = row::with(rows, "value", Arc::new(Float32Array::from_iter_values(groups.iter().map(mean))))?;
    let gae = AdvantageSettings { of: crate::EstimatorName::Gae, gamma: GAMMA, lambda: 0.0, ..Default::default() };
    judged(&valued, &[], &gae)
}

/// The share of rows whose advantages have the same sign (above 0, below 0 or neither) as the known ones.
pub fn same_signs(known: impl Iterator<Item = Option<f32>>, own: &[f32]) -> f64 {
    let sign = |value: f32| (value > 1e-6, value < -1e-6);
    let same: Vec<bool> = known.zip(own).filter_map(|(known, own)| Some(sign(known?) == sign(*own))).collect();
    same.iter().filter(|same| **same).count() as f64 / same.len().max(1) as f64
}

/// The rows with their groups.
fn grouped(rows: &RecordBatch, by: &[&str]) -> Result<Vec<RecordBatch>, RowError> {
    let by: Vec<String> = by.iter().map(|column| (*column).to_owned()).collect();
    measure(&mark(std::slice::from_ref(rows), &by, 0, EarlyTurns::Shared)?)
}

fn judged(rows: &RecordBatch, by: &[&str], with: &AdvantageSettings) -> Result<Vec<f32>, RowError> {
    let compared = compare(&value(&grouped(rows, by)?, with)?, with, &mut RunningMeans::default())?;
    Ok(row::f32s(&compared[0], "advantage")?.values().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, BooleanArray, StringArray, UInt32Array, UInt64Array};

    /// Episodes of 10 and 0, which share two states.
    fn rows() -> RecordBatch {
        let (n, u32s) = (5, |values: [u32; 5]| Arc::new(UInt32Array::from(values.to_vec())) as ArrayRef);
        row::batch(vec![
            ("task", Arc::new(StringArray::from(vec!["a"; n]))),
            ("sample", u32s([0, 0, 0, 1, 1])),
            ("attempt", u32s([0; 5])),
            ("turn", u32s([0, 1, 2, 0, 1])),
            ("phase", Arc::new(StringArray::from(vec!["play"; n]))),
            ("state", Arc::new(UInt64Array::from(vec![7, 8, 9, 7, 8]))),
            ("reward", Arc::new(Float32Array::from(vec![0.0, 0.0, 10.0, 0.0, 0.0]))),
            ("valid", Arc::new(BooleanArray::from(vec![true; n]))),
        ])
        .unwrap()
    }

    /// The sums are those of the tests in `pipelines/gigpo-sokoban.yaml` and `pipelines/gagpo-sokoban.yaml`: of two
    /// values each is 0.707107 deviations from the mean; the surprises are 0, 4.75, 0 and 0, -4.75, whose deviation is
    /// 3.358757.
    #[test]
    fn two_episodes_by_three_estimators() {
        let near = |made: Result<Vec<f32>, RowError>, expected: [f32; 5]| {
            let made = made.unwrap();
            assert!(made.iter().zip(expected).all(|(made, expected)| (made - expected).abs() < 1e-5), "{made:?}");
        };
        let half = 0.5_f32.sqrt();
        near(grpo(&rows()), [half, half, half, -half, -half]);
        near(gigpo(&rows()), [2.0 * half, 2.0 * half, half, -2.0 * half, -2.0 * half]);
        near(rtmc(&rows()), [0.0, 2.0_f32.sqrt(), 0.0, 0.0, -2.0_f32.sqrt()]);
        let known = [Some(0.5), Some(-0.5), None, Some(0.0), Some(-2.0)];
        assert_eq!(same_signs(known.into_iter(), &rtmc(&rows()).unwrap()), 0.5);
    }
}
