//! SQL over a run.

use super::{LogError, Run};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// What a query gives.
#[derive(Clone, Debug)]
pub struct Answer {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

/// A table that a query can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    /// Name and SQL type.
    pub columns: Vec<(String, String)>,
}

/// Asks the run's committed iterations: a table a logged node, `metrics`, and `trajectories`, which joins the nodes row by row.
pub fn query(run: &Run, sql: &str) -> Result<Answer, LogError> {
    let _ = (run, sql);
    Err(LogError::Sql("not there yet".into()))
}

/// The tables that a query can name, with their columns.
pub fn tables(run: &Run) -> Result<Vec<Table>, LogError> {
    let _ = run;
    Err(LogError::Sql("not there yet".into()))
}
