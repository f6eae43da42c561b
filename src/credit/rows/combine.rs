//! Several advantages of the same rows, joined by the rows' names: the columns `advantage` and `used`.

use super::join::{partners, JoinError};
use crate::credit::add_weighted;
use crate::row::{self, View};
use arrow::array::{Float32Array, RecordBatch, StringArray};
use std::sync::Arc;

/// The first input's batches with the weighted sum of all inputs' advantages as `advantage`, and in `used` the first reason against a row.
/// As many weights as inputs; whole rows of each.
pub fn combine(inputs: &[Vec<RecordBatch>], weights: &[f32]) -> Result<Vec<RecordBatch>, JoinError> {
    let views = inputs.iter().map(|batches| View::sorted(batches)).collect::<Result<Vec<_>, _>>()?;
    let views: Vec<View> = views.into_iter().flatten().collect();
    let Some(first) = views.first() else { return Ok(vec![]) };
    if views.len() != weights.len() {
        return Err(JoinError::Missing);
    }
    let mut sum = vec![0f32; first.len()];
    let mut used: Vec<Option<String>> = vec![None; first.len()];
    for (view, weight) in views.iter().zip(weights) {
        let rows = partners(first, view, &["advantage", "used"])?;
        add_weighted(&mut sum, row::f32s(&rows, "advantage")?.values(), *weight);
        let why = row::texts(&rows, "used")?;
        for (i, used) in used.iter_mut().enumerate().filter(|(i, used)| used.is_none() && why.value(*i) != "yes") {
            *used = Some(why.value(i).into());
        }
    }
    let used = StringArray::from_iter_values(used.iter().map(|used| used.as_deref().unwrap_or("yes")));
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
        let sum = combine(&[vec![first], vec![second]], &[1.0, 0.5]).unwrap();
        assert_eq!(row::f32s(&sum[0], "advantage").unwrap().values(), &[6.0, 12.0]);
        assert_eq!(row::texts(&sum[0], "used").unwrap(), &StringArray::from(vec!["c", "a"]), "the first reason stands");
    }

    #[test]
    fn other_rows_are_refused() {
        let yes = |sample, advantage| vec![rows(vec![sample], vec![advantage], vec!["yes"])];
        let error = combine(&[yes(0, 1.0), yes(1, 1.0)], &[1.0, 1.0]).unwrap_err();
        assert_eq!(error.to_string(), "the inputs hold different rows: `sample` differs (1 rows and 1)");
        assert!(matches!(combine(&[yes(0, 1.0), vec![]], &[1.0, 1.0]), Err(JoinError::Missing)));
        assert!(combine(&[vec![], vec![]], &[1.0, 1.0]).unwrap().is_empty());
    }
}
