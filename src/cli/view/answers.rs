//! Questions in SQL over some iterations of a run, and the columns that one can ask for.

use super::cells;
use super::runs::ServedRun;
use super::Answer;
use crate::cli::error::{Error, Result};
use arrow::compute::concat_batches;
use flow_log::sql::quoted;
use flow_log::QueryResult;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The most rows of an answer: a page shows no more at a time.
pub const MOST: usize = 500;

/// The columns of a row's name.
pub const NAME: &str = "task, sample, attempt, turn, phase";

/// A table of a run.
pub struct RunTable {
    /// Its name, quoted.
    pub name: String,
    columns: BTreeSet<String>,
}

impl RunTable {
    /// The table called `name`.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn of(served: &ServedRun, name: &str) -> Result<RunTable> {
        let tables = served.tables()?;
        let table = tables.iter().find(|table| table.name == name);
        let table = table.ok_or_else(|| Error::Request(format!("this run has no table `{name}`: name its node in `log`")))?;
        Ok(RunTable { name: quoted(name), columns: table.columns.iter().map(|(column, _)| column.clone()).collect() })
    }

    /// Whether it has a column.
    pub fn has(&self, column: &str) -> bool {
        self.columns.contains(column)
    }

    /// `sql` where the table has `column`, else NULL; under the name `as_name`.
    pub fn maybe(&self, column: &str, sql: &str, as_name: &str) -> String {
        format!("{} AS {as_name}", if self.has(column) { sql } else { "NULL" })
    }

    /// Those of the columns that it has, quoted.
    pub fn having(&self, columns: &[&str]) -> String {
        columns.iter().filter(|column| self.has(column)).map(|column| format!(", {}", quoted(column))).collect()
    }

    /// The columns with names that fit.
    pub fn matching(&self, fits: impl Fn(&str) -> bool) -> Vec<&str> {
        self.columns.iter().map(String::as_str).filter(|column| fits(column)).collect()
    }
}

/// The logged nodes whose tables have a column.
pub fn nodes_with(served: &ServedRun, column: &str) -> Result<Vec<String>> {
    let manifest = served.manifest()?;
    let tables = served.tables()?;
    let has = |table: &&flow_log::Table| table.columns.iter().any(|(name, _)| name == column);
    let logged = |table: &&flow_log::Table| manifest.info.nodes.iter().any(|node| node.id == table.name);
    Ok(tables.iter().filter(logged).filter(has).map(|table| table.name.clone()).collect())
}

/// Asks about one iteration.
pub fn of_iteration(served: &ServedRun, iteration: u64, sql: &str) -> Answer {
    within(served, iteration..=iteration, sql)
}

/// Asks about some iterations.
pub fn within(served: &ServedRun, iterations: RangeInclusive<u64>, sql: &str) -> Answer {
    cells::table(sql, &flow_log::query_within(&served.run, iterations, sql)?, MOST)
}

/// Asks about iterations up to one, or about all.
pub fn up_to(served: &ServedRun, last: Option<u64>, sql: &str) -> Answer {
    let answer = match last {
        Some(last) => flow_log::query_within(&served.run, ..=last, sql)?,
        None => flow_log::query(&served.run, sql)?,
    };
    cells::table(sql, &answer, MOST)
}

/// The rows of one iteration, parted by the values of the first `by` columns, by which they are sorted.
pub fn split(served: &ServedRun, iteration: u64, sql: &str, by: usize) -> Result<Vec<(Vec<Value>, QueryResult)>> {
    let answer = flow_log::query_within(&served.run, iteration..=iteration, sql)?;
    let rows = concat_batches(&answer.schema, &answer.batches)?;
    let name = |row: usize| rows.columns()[..by].iter().map(|column| cells::cell(column, row)).collect::<Result<Vec<Value>>>();
    let mut parts: Vec<(Vec<Value>, usize)> = Vec::new();
    for row in 0..rows.num_rows() {
        let name = name(row)?;
        if parts.last().is_none_or(|(last, _)| *last != name) {
            parts.push((name, row));
        }
    }
    let ends: Vec<usize> = parts.iter().skip(1).map(|(_, start)| *start).chain([rows.num_rows()]).collect();
    let part = |((name, start), end): ((Vec<Value>, usize), usize)| {
        (name, QueryResult { schema: answer.schema.clone(), batches: vec![rows.slice(start, end - start)] })
    };
    Ok(parts.into_iter().zip(ends).map(part).collect())
}

/// The task and the sample in the first two columns.
pub fn episode_name(columns: &[Value]) -> (String, u64) {
    (columns[0].as_str().unwrap_or_default().to_owned(), columns[1].as_u64().unwrap_or_default())
}
