//! Episodes that failed: collected while an iteration is played, written with it as the table `errors`.

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use flow_core::row::{self, RowError};
use flow_log::{write_part, LogError, Part, Run};
use std::sync::Arc;

/// An episode that was given up: its name, the turn of its last failure, and the cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lost {
    pub task: String,
    pub sample: u32,
    pub attempt: u32,
    pub turn: u32,
    pub phase: &'static str,
    /// The node that played it.
    pub node: String,
    pub cause: &'static str,
    pub error: String,
    /// How often it was tried.
    pub tries: u32,
}

/// Writes the part that `worker` has of the iteration's table `errors`, if there is something to write.
pub fn write(run: &Run, iteration: u64, worker: usize, lost: &[Lost]) -> Result<Option<Part>, LogError> {
    if lost.is_empty() {
        return Ok(None);
    }
    write_part(run, "errors", iteration, worker, &table(iteration, lost)?).map(Some)
}

fn table(iteration: u64, lost: &[Lost]) -> Result<RecordBatch, RowError> {
    let text = |f: fn(&Lost) -> &str| Arc::new(StringArray::from_iter_values(lost.iter().map(f))) as ArrayRef;
    let u32s = |f: fn(&Lost) -> u32| Arc::new(UInt32Array::from_iter_values(lost.iter().map(f))) as ArrayRef;
    row::batch(vec![
        ("iteration", Arc::new(UInt64Array::from(vec![iteration; lost.len()]))),
        ("task", text(|l| &l.task)),
        ("sample", u32s(|l| l.sample)),
        ("attempt", u32s(|l| l.attempt)),
        ("turn", u32s(|l| l.turn)),
        ("phase", text(|l| l.phase)),
        ("node", text(|l| &l.node)),
        ("cause", text(|l| l.cause)),
        ("error", text(|l| &l.error)),
        ("tries", u32s(|l| l.tries)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_columns_that_it_is_promised_to_have() {
        let lost = Lost {
            task: "t".into(),
            sample: 1,
            attempt: 0,
            turn: 2,
            phase: "play",
            node: "rollout".into(),
            cause: "crash",
            error: "gone".into(),
            tries: 2,
        };
        let rows = table(7, &[lost.clone(), lost]).unwrap();
        let names: Vec<&str> = rows.schema_ref().fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!((names.as_slice(), rows.num_rows()), (row::ERRORS.as_slice(), 2));
    }
}
