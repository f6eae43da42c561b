//! Questions whose answer is one number: of named numbers, or of a run's log.

use super::query::ask;
use super::sql::quoted;
use super::{guard, query, views, Answer, LogError, Run};
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

/// The value of an expression of SQL in which each name of `numbers` is a column, such as `"pass@3" - "pass@1"`.
///
/// ```
/// let numbers = [("pass@1".to_string(), 0.5), ("pass@3".to_string(), 0.75)];
/// assert_eq!(flow::log::value_of(&numbers, r#"("pass@3" - "pass@1") / (1 - "pass@1")"#)?, 0.5);
/// assert!(flow::log::value_of(&numbers, "pass").is_err());
/// # Ok::<(), flow::log::LogError>(())
/// ```
///
/// # Errors
/// What is no expression of these names, is more than an expression, or has no number for a value.
pub fn value_of(numbers: &[(String, f64)], expression: &str) -> Result<f64, LogError> {
    let columns: Vec<String> = numbers.iter().map(|(name, value)| format!("{value:?}::DOUBLE AS {}", quoted(name))).collect();
    let columns = if columns.is_empty() { "1 AS nothing".into() } else { columns.join(", ") };
    let sql = format!("SELECT ({expression}\n)::DOUBLE FROM (SELECT {columns})");
    guard::check(&sql)?;
    let db = views::alone()?;
    let first = |e: LogError| LogError::Sql(e.to_string().lines().next().unwrap_or_default().into());
    single(ask(&db, &sql).map_err(first)?)
}

/// The number that answers `sql` over a run's log, see [`query()`].
///
/// # Errors
/// An answer that is not one row of one column that is a number.
pub fn number(run: &Run, sql: &str) -> Result<f64, LogError> {
    single(query(run, sql)?)
}

fn single(answer: Answer) -> Result<f64, LogError> {
    let rows: usize = answer.batches.iter().map(|b| b.num_rows()).sum();
    let columns = answer.schema.fields().len();
    if rows != 1 || columns != 1 {
        return Err(LogError::Sql(format!("the answer must be one number, and it has {rows} rows of {columns} columns")));
    }
    let value = answer.batches.iter().find(|b| b.num_rows() > 0).map(|b| b.column(0).clone());
    let number = value.and_then(|v| cast(&v, &DataType::Float64).ok()).filter(|v| v.is_valid(0));
    number.map(|v| v.as_primitive::<Float64Type>().value(0)).ok_or_else(|| LogError::Sql("the answer is no number".into()))
}
