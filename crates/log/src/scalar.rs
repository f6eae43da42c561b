//! Questions whose answer is one number: of named numbers, or of a run's log.

use super::query::{self, ask};
use super::sql::quoted;
use super::{guard, views, LogError, QueryResult, Run, RunInfo, AUDIT};
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

/// The value of an expression of SQL with each name of `numbers` as a column, such as `"pass@3" - "pass@1"`.
///
/// ```
/// let numbers = [("pass@1".to_string(), 0.5), ("pass@3".to_string(), 0.75)];
/// assert_eq!(flow_log::value_of(&numbers, r#"("pass@3" - "pass@1") / (1 - "pass@1")"#)?, 0.5);
/// assert!(flow_log::value_of(&numbers, "pass").is_err());
/// # Ok::<(), flow_log::LogError>(())
/// ```
///
/// # Errors
/// What is no expression of these names, is more than an expression, or has no number for a value.
pub fn value_of(numbers: &[(String, f64)], expression: &str) -> Result<f64, LogError> {
    let columns: Vec<String> = numbers.iter().map(|(name, value)| format!("{value:?}::DOUBLE AS {}", quoted(name))).collect();
    let columns = if columns.is_empty() { "1 AS nothing".into() } else { columns.join(", ") };
    let sql = format!("SELECT ({expression}\n)::DOUBLE FROM (SELECT {columns})");
    guard::check(&sql)?;
    let db = views::empty_database()?;
    let first = |e: LogError| LogError::Sql(e.to_string().lines().next().unwrap_or_default().into());
    single(ask(&db, &sql).map_err(first)?)
}

/// The value of an expression of each of these rows of numbers, which are called `names`; NaN where it has none.
///
/// # Errors
/// As [`value_of`].
pub fn values_of(names: &[String], rows: &[Vec<f64>], expression: &str) -> Result<Vec<f64>, LogError> {
    let columns: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let row = |(i, row): (usize, &Vec<f64>)| {
        let numbers: Vec<String> =
            row.iter().map(|n| if n.is_finite() { format!("{n:?}::DOUBLE") } else { "NULL::DOUBLE".into() }).collect();
        format!("({i}, {})", numbers.join(", "))
    };
    if rows.is_empty() || names.is_empty() {
        return Ok(Vec::new());
    }
    let values: Vec<String> = rows.iter().enumerate().map(row).collect();
    let sql = format!(
        "SELECT ({expression}\n)::DOUBLE FROM (VALUES {}) AS drawn(\"which of them\", {}) ORDER BY \"which of them\"",
        values.join(", "),
        columns.join(", ")
    );
    guard::check(&sql)?;
    let answer = ask(&views::empty_database()?, &sql)?;
    let mut all = Vec::with_capacity(rows.len());
    for batch in &answer.batches {
        let column = cast(batch.column(0), &DataType::Float64)?;
        all.extend(column.as_primitive::<Float64Type>().iter().map(|value| value.unwrap_or(f64::NAN)));
    }
    Ok(all)
}

/// Whether `sql` can be asked of the log of a run that is as `info` says, before there is one; `audited`: once it has
/// been audited.
///
/// # Errors
/// What is wrong with it, as [`super::query()`] would say.
pub fn parses(info: &RunInfo, sql: &str, audited: bool) -> Result<(), LogError> {
    guard::check(sql)?;
    let nodes = info.nodes.iter().map(|node| node.id.as_str()).chain(["errors"]).map(|id| (id, Vec::new())).collect();
    let db = views::connect(info, &nodes, &[], &(0..=u64::MAX), &|_| true)?;
    if audited && info.nodes.iter().all(|node| node.id != "audit") {
        let columns: Vec<String> = AUDIT.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        db.execute_batch(&format!("CREATE TABLE audit ({})", columns.join(", ")))?;
    }
    db.prepare(sql).map(drop).map_err(|e| query::explained(&db, sql, &e.to_string()))
}

/// The numbers that answer these questions over a run's log, see [`super::query()`]. The log is opened, and its
/// checksums verified, once for all of them.
///
/// # Errors
/// If the log can't be read; and for each question, an answer that is not one row of one column that is a number.
pub fn numbers(run: &Run, questions: &[&str]) -> Result<Vec<Result<f64, LogError>>, LogError> {
    Ok(query::answers(run, questions)?.into_iter().map(|answer| answer.and_then(single)).collect())
}

fn single(answer: QueryResult) -> Result<f64, LogError> {
    let rows: usize = answer.batches.iter().map(|b| b.num_rows()).sum();
    let columns = answer.schema.fields().len();
    if rows != 1 || columns != 1 {
        return Err(LogError::Sql(format!("the answer must be one number, and it has {rows} rows of {columns} columns")));
    }
    let value = answer.batches.iter().find(|b| b.num_rows() > 0).map(|b| b.column(0).clone());
    let number = value.and_then(|v| cast(&v, &DataType::Float64).ok()).filter(|v| v.is_valid(0));
    number.map(|v| v.as_primitive::<Float64Type>().value(0)).ok_or_else(|| LogError::Sql("the answer is no number".into()))
}
