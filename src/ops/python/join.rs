//! What a function made of rows, joined with the rows themselves.

use arrow::array::{Array, RecordBatch, UInt32Array};
use arrow::compute::take;
use flow_core::row::{self, keys, View, NAME};
use flow_credit::rows::rejoin;
use flow_dataflow::Failed;
use std::collections::HashMap;

/// The rows with the columns that a function adds to them.
pub fn with_columns(rows: &[RecordBatch], made: &[RecordBatch], columns: &[&str]) -> Result<Vec<RecordBatch>, Failed> {
    Ok(rejoin(rows, made, columns)?)
}

/// The rows that a function keeps, changes or makes: a column that it says it adds stands as it gives it, any other as it
/// was.
///
/// # Errors
/// A row of a new name that lacks a column, and a change of a column that the function doesn't say it adds: the log would
/// not have it.
pub fn with_rows(rows: &[RecordBatch], made: &[RecordBatch], added: &[&str]) -> Result<Vec<RecordBatch>, Failed> {
    let Some(made) = View::sorted(made)? else { return Ok(vec![]) };
    let made = made.batch()?;
    let Some(rows) = View::sorted(rows)? else { return Ok(vec![made]) };
    let rows = rows.batch()?;
    let place: HashMap<u64, u32> = keys(&rows, &NAME).into_iter().zip(0..).collect();
    let places: Vec<Option<u32>> = keys(&made, &NAME).iter().map(|key| place.get(key).copied()).collect();
    let schema = rows.schema();
    let given = |name: &str| made.column_by_name(name);
    let new = places.iter().position(Option::is_none);
    if let (Some(i), Some(lacks)) = (new, schema.fields().iter().find(|field| given(field.name()).is_none())) {
        let why = "is new, and the function's result lacks its column";
        let help = "a function that makes rows says `needs=\"all\"`, and gives every column of the rows that it gets";
        return Err(format!("the row {} {why} `{}`: {help}", row::described(&made, i), lacks.name()).into());
    }
    let old = UInt32Array::from_iter_values((0u32..).zip(&places).filter(|(_, place)| place.is_some()).map(|(i, _)| i));
    let places = UInt32Array::from_iter(places);
    let unsaid = |name: &str| !added.contains(&name) && !NAME.contains(&name);
    for (field, before) in schema.fields().iter().zip(rows.columns()).filter(|(field, _)| unsaid(field.name())) {
        let Some(now) = given(field.name()) else { continue };
        if *take(now, &old, None)? != *take(&take(before, &places, None)?, &old, None)? {
            let name = field.name();
            return Err(
                format!("the function changes `{name}` of rows and doesn't say so: name it in `adds`, so that the log has it").into()
            );
        }
    }
    let mut columns = Vec::new();
    for (field, before) in schema.fields().iter().zip(rows.columns()) {
        columns.push((field.name().as_str(), given(field.name()).map_or_else(|| take(before, &places, None), |now| Ok(now.clone()))?));
    }
    let made_schema = made.schema();
    for (field, now) in made_schema.fields().iter().zip(made.columns()) {
        if rows.column_by_name(field.name()).is_none() {
            columns.push((field.name().as_str(), now.clone()));
        }
    }
    debug_assert!(columns.iter().all(|(_, column)| column.len() == made.num_rows()));
    Ok(vec![row::batch(columns)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float32Array, StringArray, UInt64Array};
    use std::sync::Arc;

    fn rows(turns: &[u32], rewards: Option<&[f32]>, texts: Option<&[&str]>) -> RecordBatch {
        let n = turns.len();
        let u32s = |values: Vec<u32>| Arc::new(UInt32Array::from(values)) as ArrayRef;
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("iteration", Arc::new(UInt64Array::from(vec![3; n]))),
            ("task", Arc::new(StringArray::from(vec!["a"; n]))),
            ("sample", u32s(vec![0; n])),
            ("attempt", u32s(vec![0; n])),
            ("turn", u32s(turns.to_vec())),
            ("phase", Arc::new(StringArray::from(vec!["play"; n]))),
        ];
        columns.extend(texts.map(|texts| ("response", Arc::new(StringArray::from(texts.to_vec())) as ArrayRef)));
        columns.extend(rewards.map(|rewards| ("reward", Arc::new(Float32Array::from(rewards.to_vec())) as ArrayRef)));
        row::batch(columns).unwrap()
    }

    #[test]
    fn rows_are_kept_dropped_changed_and_made() {
        let before = [rows(&[1, 0], Some(&[0.1, 0.0]), Some(&["b", "a"])), rows(&[2], Some(&[0.2]), Some(&["c"]))];
        let made = with_rows(&before, &[rows(&[2, 0], Some(&[5.0, 4.0]), None)], &["reward"]).unwrap();
        assert_eq!(made, [rows(&[0, 2], Some(&[4.0, 5.0]), Some(&["a", "c"]))], "turn 1 is gone, the texts stay");
        let all = rows(&[0, 7], Some(&[1.0, 2.0]), Some(&["a", "new"]));
        assert_eq!(with_rows(&before, std::slice::from_ref(&all), &["reward"]).unwrap(), std::slice::from_ref(&all));
        assert_eq!(with_rows(&[], std::slice::from_ref(&all), &["reward"]).unwrap(), [all], "a task of which no row was here");
        let error = with_rows(&before, &[rows(&[7], Some(&[1.0]), None)], &["reward"]).unwrap_err().to_string();
        assert!(error.contains("turn 7 is new") && error.contains("`response`"), "{error}");
        let error = with_rows(&before, std::slice::from_ref(&rows(&[0], Some(&[1.0]), None)), &[]).unwrap_err().to_string();
        assert!(error.contains("changes `reward`"), "{error}");
        assert!(with_rows(&before, &[], &[]).unwrap().is_empty(), "it dropped all");
    }
}
