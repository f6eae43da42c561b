//! Rows from Parquet: committed iterations only.

use super::{LogError, Manifest, Part, Run};
use crate::row;
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The committed rows of `node`: one batch an iteration that has some, sorted by the rows' names, so that they are the same
/// however many workers wrote them.
pub fn read(run: &Run, node: &str) -> Result<Vec<RecordBatch>, LogError> {
    let manifest = run.manifest()?;
    manifest.node(node)?;
    let mut rows = Vec::new();
    for iteration in &manifest.committed {
        rows.extend(read_iteration(run, &manifest, node, iteration.iteration)?);
    }
    Ok(rows)
}

/// The rows of `node` in one committed iteration: one batch, sorted by the rows' names, or none.
pub fn read_iteration(run: &Run, manifest: &Manifest, node: &str, iteration: u64) -> Result<Vec<RecordBatch>, LogError> {
    let Ok(at) = manifest.committed.binary_search_by_key(&iteration, |i| i.iteration) else { return Ok(Vec::new()) };
    let mut batches = Vec::new();
    for part in manifest.committed[at].parts.iter().filter(|p| p.node == node) {
        batches.extend(read_part(run, part)?);
    }
    Ok(row::sorted(&batches)?.into_iter().collect())
}

/// The columns that the log has of `node`, as its first committed file has them; none where there is no row.
pub fn columns(run: &Run, manifest: &Manifest, node: &str) -> Result<Vec<String>, LogError> {
    let Some(part) = manifest.parts(node).next() else { return Ok(Vec::new()) };
    let path = whole(run, part)?;
    let file = File::open(&path).map_err(LogError::io(&path))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file);
    let reader = reader.map_err(|e| LogError::Damaged { path: path.clone(), why: e.to_string() })?;
    Ok(reader.schema().fields().iter().map(|f| f.name().clone()).collect())
}

fn read_part(run: &Run, part: &Part) -> Result<Vec<RecordBatch>, LogError> {
    let path = whole(run, part)?;
    let file = File::open(&path).map_err(LogError::io(&path))?;
    let damaged = |why: String| LogError::Damaged { path: path.clone(), why };
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| damaged(e.to_string()))?;
    let reader = reader.with_batch_size(part.rows.max(1) as usize).build().map_err(|e| damaged(e.to_string()))?;
    reader.collect::<Result<Vec<_>, ArrowError>>().map_err(|e| damaged(e.to_string()))
}

/// Where the part lies, once it is known to be there and as long as it was when it was committed.
pub(super) fn whole(run: &Run, part: &Part) -> Result<PathBuf, LogError> {
    let path = run.root().join(Path::new(&part.path));
    match fs::metadata(&path) {
        Ok(found) if found.len() == part.bytes => Ok(path),
        Ok(found) => Err(LogError::Damaged { path, why: format!("it holds {} bytes, committed were {}", found.len(), part.bytes) }),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(LogError::Missing(path)),
        Err(e) => Err(LogError::io(&path)(e)),
    }
}

/// The committed files of `node`, each checked by [`whole`].
pub(super) fn files(run: &Run, manifest: &Manifest, node: &str) -> Result<Vec<PathBuf>, LogError> {
    manifest.parts(node).map(|part| whole(run, part)).collect()
}
