//! Where one episode ends among rows and the next begins: an attempt at a task is an episode, a reflection is a turn of
//! none.

use arrow::array::RecordBatch;
use flow_core::row::{self, RowError};
use std::ops::Range;

/// The trajectories of rows sorted by name, as ranges of rows: the turns of each attempt (equal task, sample and
/// attempt), and each reflection for itself. Reads `task`, `sample`, `attempt` and `phase`.
pub fn episodes(rows: &RecordBatch) -> Result<Vec<Range<usize>>, RowError> {
    let (task, sample, attempt) = (row::texts(rows, "task")?, row::u32s(rows, "sample")?, row::u32s(rows, "attempt")?);
    let reflections = reflections(rows)?;
    let same = |i: usize| {
        let played = !reflections[i] && !reflections[i - 1];
        played && sample.value(i) == sample.value(i - 1) && attempt.value(i) == attempt.value(i - 1) && task.value(i) == task.value(i - 1)
    };
    Ok(crate::episodes(same, rows.num_rows()))
}

/// Which rows are reflections, and so no turns of play. Reads `phase`.
pub fn reflections(rows: &RecordBatch) -> Result<Vec<bool>, RowError> {
    let phases = row::texts(rows, "phase")?;
    Ok((0..rows.num_rows()).map(|i| phases.value(i) != "play").collect())
}
