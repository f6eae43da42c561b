//! Several advantages of the same rows, joined by the rows' names: the columns `advantage` and `used`.

use super::join::{partners, JoinError};
use crate::add_weighted;
use arrow::array::{Float32Array, RecordBatch, StringArray};
use flow_core::row::{self, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The terms of a row's sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// All inputs, each by its weight. A row that one of them drops is dropped.
    #[default]
    All,
    /// The inputs that use the row, by weights that are divided by their sum: their weighted mean (HGPO, arXiv
    /// 2602.22817). An `advantage` with `singleton: drop` so says nothing of a row that it has nothing to compare with.
    /// A row is dropped that all of them drop.
    Used,
}

/// The first input's batches with the weighted sum of all inputs' advantages as `advantage`, or by [`Over::Used`] the
/// weighted mean over inputs that use the row, and in `used` the first reason against a row. As many weights as inputs;
/// whole rows of each.
pub fn combine(inputs: &[Vec<RecordBatch>], weights: &[f32], over: Over) -> Result<Vec<RecordBatch>, JoinError> {
    let views = inputs.iter().map(|batches| View::sorted(batches)).collect::<Result<Vec<_>, _>>()?;
    let views: Vec<View> = views.into_iter().flatten().collect();
    let Some(first) = views.first() else { return Ok(vec![]) };
    if views.len() != weights.len() {
        return Err(JoinError::Missing);
    }
    let parts = views.iter().map(|view| partners(first, view, &["advantage", "used"])).collect::<Result<Vec<_>, _>>()?;
    let mut sum = vec![0f32; first.len()];
    let mut total = vec![0f32; first.len()];
    let mut used: Vec<Option<&str>> = vec![None; first.len()];
    for (rows, weight) in parts.iter().zip(weights) {
        let why = row::texts(rows, "used")?;
        let counts = |i: usize| if over == Over::All || why.value(i) == "yes" { *weight } else { 0.0 };
        let weights: Vec<f32> = (0..first.len()).map(counts).collect();
        add_weighted(&mut sum, row::f32s(rows, "advantage")?.values(), &weights);
        total.iter_mut().zip(&weights).for_each(|(total, weight)| *total += weight);
        for (i, used) in used.iter_mut().enumerate() {
            let stronger = match over {
                Over::All => *used == Some("yes"),
                Over::Used => why.value(i) == "yes",
            };
            if used.is_none() || stronger {
                *used = Some(why.value(i));
            }
        }
    }
    if over == Over::Used {
        sum.iter_mut().zip(total).filter(|(_, total)| *total != 0.0).for_each(|(sum, total)| *sum /= total);
    }
    let used = StringArray::from_iter_values(used.iter().map(|used| used.unwrap_or("yes")));
    Ok(first.with(vec![("advantage", Arc::new(Float32Array::from(sum))), ("used", Arc::new(used))])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::UInt32Array;

    fn rows(samples: Vec<u32>, advantages: Vec<f32>, used: Vec<&str>) -> RecordBatch {
        row::batch(vec![
            ("sample", Arc::new(UInt32Array::from(samples))),
            ("advantage", Arc::new(Float32Array::from(advantages))),
            ("used", Arc::new(StringArray::from(used))),
        ])
        .unwrap()
    }

    #[test]
    fn rows_are_joined_by_name() {
        let (first, second) = (rows(vec![0, 1], vec![1.0, 2.0], vec!["yes", "a"]), rows(vec![1, 0], vec![20.0, 10.0], vec!["b", "c"]));
        let sum = combine(&[vec![first], vec![second]], &[1.0, 0.5], Over::All).unwrap();
        assert_eq!(row::f32s(&sum[0], "advantage").unwrap().values(), &[6.0, 12.0]);
        assert_eq!(row::texts(&sum[0], "used").unwrap(), &StringArray::from(vec!["c", "a"]), "the first reason stands");
    }

    /// Weights 1, 2 and 3, as HGPO's (k + 1)^1: (1 * 6 + 2 * 3 + 3 * -1) / 6 = 1.5; without the last (6 + 6) / 3 = 4;
    /// alone -1.
    #[test]
    fn inputs_that_say_nothing_are_left_out() {
        let input = |advantages: Vec<f32>, used: Vec<&str>| vec![rows(vec![0, 1, 2, 3], advantages, used)];
        let inputs = [
            input(vec![6.0, 6.0, 0.0, 0.0], vec!["yes", "yes", "singleton", "singleton"]),
            input(vec![3.0, 3.0, 0.0, 0.0], vec!["yes", "yes", "singleton", "b"]),
            input(vec![-1.0, 0.0, -1.0, 0.0], vec!["yes", "singleton", "yes", "singleton"]),
        ];
        let mean = combine(&inputs, &[1.0, 2.0, 3.0], Over::Used).unwrap();
        assert_eq!(row::f32s(&mean[0], "advantage").unwrap().values(), &[1.5, 4.0, -1.0, 0.0]);
        assert_eq!(row::texts(&mean[0], "used").unwrap(), &StringArray::from(vec!["yes", "yes", "yes", "singleton"]));
        let mean = combine(&inputs[..1], &[0.0], Over::Used).unwrap();
        assert_eq!(row::f32s(&mean[0], "advantage").unwrap().values(), &[0.0; 4], "without a weight there is no mean");
    }

    #[test]
    fn other_rows_are_refused() {
        let yes = |sample, advantage| vec![rows(vec![sample], vec![advantage], vec!["yes"])];
        let error = combine(&[yes(0, 1.0), yes(1, 1.0)], &[1.0, 1.0], Over::All).unwrap_err();
        assert_eq!(error.to_string(), "the inputs hold different rows: `sample` differs (1 rows and 1)");
        assert!(matches!(combine(&[yes(0, 1.0), vec![]], &[1.0, 1.0], Over::Used), Err(JoinError::Missing)));
        assert!(combine(&[vec![], vec![]], &[1.0, 1.0], Over::Used).unwrap().is_empty());
    }
}
