//! Numbers that rows find from one iteration to the next, by the values of some columns.

use arrow::array::{ArrayRef, Float32Array, RecordBatch};
use arrow::error::ArrowError;
use flow_core::row::{self, keys, RowError, View, LAST, NAME};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values of some columns in the last row of each key, from the latest iteration that had such rows.
pub struct LastValues {
    by: Vec<String>,
    columns: Vec<String>,
    values: BTreeMap<u64, Vec<f32>>,
}

impl LastValues {
    /// Of `columns`, found by the columns of `by`; there are none yet.
    pub fn new(by: Vec<String>, columns: Vec<String>) -> LastValues {
        LastValues { by, columns, values: BTreeMap::new() }
    }

    /// Takes up rows of one or more iterations, which have the keys and the columns.
    pub fn take(&mut self, rows: &[RecordBatch]) -> Result<(), RowError> {
        let Some(view) = View::sorted(rows)? else { return Ok(()) };
        let rows = view.read(&NAME.into_iter().chain(self.by.iter().chain(&self.columns).map(String::as_str)).collect::<Vec<_>>())?;
        let columns = self.columns.iter().map(|column| Ok(row::f32s(&rows, column)?.values())).collect::<Result<Vec<_>, RowError>>()?;
        for (i, key) in keys(&rows, &self.by).into_iter().enumerate() {
            self.values.insert(key, columns.iter().map(|column| column[i]).collect());
        }
        Ok(())
    }

    /// `rows` with a column `last_NAME` for each column, null where its key has no value.
    pub fn before(&self, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let keys = keys(rows, &self.by);
        let own = rows.schema();
        let mut columns: Vec<(String, ArrayRef, bool)> =
            own.fields().iter().zip(rows.columns()).map(|(field, column)| (field.name().clone(), column.clone(), false)).collect();
        for (n, column) in self.columns.iter().enumerate() {
            let values = Float32Array::from_iter(keys.iter().map(|key| self.values.get(key).map(|values| values[n])));
            columns.push((format!("{LAST}{column}"), Arc::new(values), true));
        }
        RecordBatch::try_from_iter_with_nullable(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, StringArray, UInt32Array, UInt64Array};

    fn rows(iteration: u64, tasks: &[&str], values: &[f32]) -> RecordBatch {
        let n = tasks.len();
        let zeros = || Arc::new(UInt32Array::from(vec![0; n])) as ArrayRef;
        row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![iteration; n])) as ArrayRef),
            ("task", Arc::new(StringArray::from(tasks.to_vec()))),
            ("sample", Arc::new(UInt32Array::from_iter_values(0..n as u32))),
            ("attempt", zeros()),
            ("turn", zeros()),
            ("phase", Arc::new(StringArray::from(vec!["play"; n]))),
            ("derived_x", Arc::new(Float32Array::from(values.to_vec()))),
        ])
        .unwrap()
    }

    fn last(by: &[&str]) -> LastValues {
        LastValues::new(by.iter().map(|name| name.to_string()).collect(), vec!["derived_x".into()])
    }

    fn before(last: &LastValues, rows: &RecordBatch) -> Vec<Option<f32>> {
        let rows = last.before(rows).unwrap();
        let values = rows.column_by_name("last_derived_x").unwrap().as_any().downcast_ref::<Float32Array>().unwrap();
        (0..values.len()).map(|i| values.is_valid(i).then(|| values.value(i))).collect()
    }

    /// A task keeps its value over iterations without it; of several rows the last one in the order of names counts, in
    /// whatever order the log gives them.
    #[test]
    fn a_value_lasts_until_its_key_comes_again() {
        let asked = rows(9, &["a", "b", "c"], &[0.0; 3]);
        let mut by_task = last(&["task"]);
        assert_eq!(before(&by_task, &asked), [None; 3]);
        by_task.take(&[rows(0, &["a", "a", "b"], &[1.0, 2.0, 3.0])]).unwrap();
        by_task.take(&[rows(1, &["b"], &[4.0])]).unwrap();
        by_task.take(&[]).unwrap();
        assert_eq!(before(&by_task, &asked), [Some(2.0), Some(4.0), None]);
        let mut restored = last(&["task"]);
        restored.take(&[rows(1, &["b"], &[4.0]), rows(0, &["a", "a", "b"], &[1.0, 2.0, 3.0])]).unwrap();
        assert_eq!(restored.values, by_task.values, "from the log, its files in any order");
        let mut of_all = last(&[]);
        of_all.take(&[rows(0, &["a", "b"], &[1.0, 5.0])]).unwrap();
        assert_eq!(before(&of_all, &asked), [Some(5.0); 3]);
    }
}
