//! Reads the inputs that several operators share: versions of the weights, and tasks.

use arrow::array::RecordBatch;
use flow_core::row::{self, RowError};

/// The newest version of the weights in these batches, at least `had`.
pub fn newest(had: u64, batches: Option<&Vec<RecordBatch>>) -> Result<u64, RowError> {
    let mut version = had;
    for batch in batches.into_iter().flatten() {
        let versions = row::u64s(batch, "version")?;
        version = versions.values().iter().copied().fold(version, u64::max);
    }
    Ok(version)
}

/// The tasks' names, sorted.
pub fn names(batches: &[RecordBatch]) -> Result<Vec<String>, RowError> {
    let mut names = Vec::new();
    for batch in batches {
        names.extend(row::texts(batch, "task")?.iter().flatten().map(String::from));
    }
    names.sort();
    Ok(names)
}
