//! Rows from Parquet: committed iterations only.

use super::index::{Checksum, CommittedFile};
use super::segment::FileRecord;
use super::{pending, LogError, Manifest, Part, Run};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use bytes::Bytes;
use flow_core::row;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::{available_parallelism, scope};

type Builder = ParquetRecordBatchReaderBuilder<Bytes>;

/// The committed rows of `node`: one batch an iteration that has some, sorted by the rows' names, so that they are the
/// same however many workers wrote them.
pub fn read(run: &Run, node: &str) -> Result<Vec<RecordBatch>, LogError> {
    let mut rows = RowReader::open(run, node)?;
    let iterations: Vec<u64> = rows.manifest.committed.iter().map(|committed| committed.iteration).collect();
    let mut all = Vec::new();
    for iteration in iterations {
        all.extend(rows.iteration(iteration)?);
    }
    Ok(all)
}

/// Reads the rows of a node iteration by iteration; a file of many iterations is read once and kept for the next
/// iterations.
pub struct RowReader {
    run: Run,
    node: String,
    manifest: Manifest,
    /// Path and rows of the last file of many iterations.
    loaded: Option<(String, RecordBatch)>,
}

impl RowReader {
    /// Opens the rows that are committed now.
    ///
    /// # Errors
    /// If the run has no such node.
    pub fn open(run: &Run, node: &str) -> Result<RowReader, LogError> {
        let manifest = run.manifest()?;
        manifest.node(node)?;
        Ok(RowReader { run: run.clone(), node: node.into(), manifest, loaded: None })
    }

    /// One batch, sorted by the rows' names, or none.
    ///
    /// # Errors
    /// If a file has changed since its commit.
    pub fn iteration(&mut self, iteration: u64) -> Result<Vec<RecordBatch>, LogError> {
        match self.read_at(iteration) {
            // It may have gone into a larger file since the manifest was read.
            Err(LogError::Missing(_)) => {
                self.manifest = self.run.manifest()?;
                self.read_at(iteration)
            }
            rows => rows,
        }
    }

    fn read_at(&mut self, iteration: u64) -> Result<Vec<RecordBatch>, LogError> {
        let committed = &self.manifest.committed;
        let Ok(at) = committed.binary_search_by_key(&iteration, |i| i.iteration) else { return Ok(Vec::new()) };
        let mut batches = Vec::new();
        for own in committed[at].parts.iter().filter(|p| p.node == self.node) {
            let Some(start) = own.start else {
                batches.extend(part(&self.run, own)?);
                continue;
            };
            if self.loaded.as_ref().is_none_or(|(path, _)| *path != own.path) {
                let whole = with_part_file(&self.run, own, |file| Ok(file.build()?.collect::<Result<Vec<_>, ArrowError>>()?))?;
                let Some(first) = whole.first() else { continue };
                self.loaded = Some((own.path.clone(), concat_batches(&first.schema(), &whole)?));
            }
            let Some((path, whole)) = &self.loaded else { continue };
            if start.saturating_add(own.rows) > whole.num_rows() as u64 {
                return Err(too_few_rows(self.run.root().join(path), own));
            }
            batches.push(whole.slice(start as usize, own.rows as usize));
        }
        Ok(row::sorted(&batches)?.into_iter().collect())
    }
}

fn too_few_rows(path: PathBuf, part: &Part) -> LogError {
    LogError::Damaged { path, why: format!("it hasn't the {} rows that were committed of iteration {}", part.rows, part.iteration) }
}

/// The rows of `node` in one committed iteration: one batch, sorted by the rows' names, or none.
pub fn read_iteration(run: &Run, manifest: &Manifest, node: &str, iteration: u64) -> Result<Vec<RecordBatch>, LogError> {
    RowReader { run: run.clone(), node: node.into(), manifest: manifest.clone(), loaded: None }.read_at(iteration)
}

/// The columns that the log has of `node`, as its first committed file has them; none where there is no row.
pub fn columns(run: &Run, manifest: &Manifest, node: &str) -> Result<Vec<String>, LogError> {
    let Some(part) = manifest.parts(node).next() else { return Ok(Vec::new()) };
    with_part_file(run, part, |file| Ok(file.schema().fields().iter().map(|f| f.name().clone()).collect()))
}

/// The rows of a part, as they lie in its file.
pub(super) fn part(run: &Run, part: &Part) -> Result<Vec<RecordBatch>, LogError> {
    with_part_file(run, part, |file| {
        let stored = file.metadata().file_metadata().num_rows();
        let stored = u64::try_from(stored).unwrap_or(0);
        let start = part.start.unwrap_or(0);
        let complete = part.start.is_some() || stored == part.rows;
        if !complete || start.saturating_add(part.rows) > stored {
            return Err(ParquetError::General(format!("it has {stored} rows, committed were {}", part.rows)));
        }
        // Of a file of many iterations no more than these rows are decoded.
        let rows = part.rows as usize;
        let file = file.with_batch_size(rows.max(1)).with_offset(start as usize).with_limit(rows);
        Ok(file.build()?.collect::<Result<Vec<_>, ArrowError>>()?)
    })
}

/// All rows of a segment's file.
pub(super) fn whole_file(run: &Run, file: &FileRecord) -> Result<Vec<RecordBatch>, LogError> {
    let path = pending::locate(run, &file.path);
    let bytes = file.read(path.clone())?;
    decode(&path, bytes, |file| Ok(file.build()?.collect::<Result<Vec<_>, ArrowError>>()?))
}

/// Applies `take` to the part's file once its checksum is verified: Parquet itself would decode a damaged page to wrong
/// rows without an error.
fn with_part_file<T>(run: &Run, part: &Part, take: impl FnOnce(Builder) -> Result<T, ParquetError>) -> Result<T, LogError> {
    let (path, bytes) = read_committed(run, &CommittedFile { path: part.path.clone(), bytes: part.bytes, sum: Checksum::of(part) })?;
    decode(&path, bytes, take)
}

fn decode<T>(path: &Path, bytes: Vec<u8>, take: impl FnOnce(Builder) -> Result<T, ParquetError>) -> Result<T, LogError> {
    let damaged = |why: String| LogError::Damaged { path: path.into(), why };
    Builder::try_new(Bytes::from(bytes)).and_then(take).map_err(|e| damaged(e.to_string()))
}

/// The path and the bytes of a file with rows, once its checksum is verified.
pub(super) fn read_committed(run: &Run, file: &CommittedFile) -> Result<(PathBuf, Vec<u8>), LogError> {
    let mut path = existing_path(run, file)?;
    let mut read = fs::read(&path);
    if read.as_ref().is_err_and(|e| e.kind() == ErrorKind::NotFound) {
        path = existing_path(run, file)?; // it has got its name meanwhile
        read = fs::read(&path);
    }
    let bytes = read.map_err(LogError::io(&path))?;
    if !file.sum.fits(&bytes) {
        return Err(LogError::Damaged { path, why: "its bytes have changed since it was committed".into() });
    }
    Ok((path, bytes))
}

/// The path of the file, once its checksum is verified.
fn verified_path(run: &Run, file: &CommittedFile) -> Result<PathBuf, LogError> {
    let path = existing_path(run, file)?;
    let mut found = path.clone();
    run.verified(&path, || {
        found = read_committed(run, file)?.0;
        Ok(())
    })?;
    Ok(found)
}

/// The path of the file, once it is known to exist and to have the committed length.
fn existing_path(run: &Run, file: &CommittedFile) -> Result<PathBuf, LogError> {
    let path = pending::locate(run, &file.path);
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() && metadata.len() == file.bytes => Ok(path),
        Ok(metadata) => Err(LogError::Damaged { path, why: format!("it holds {} bytes, committed were {}", metadata.len(), file.bytes) }),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(LogError::Missing(path)),
        Err(e) => Err(LogError::io(&path)(e)),
    }
}

/// The paths of the files, once all checksums are verified, on several threads: DuckDB doesn't check them.
pub(super) fn verified_paths(run: &Run, pieces: &[CommittedFile]) -> Result<Vec<PathBuf>, LogError> {
    let threads = available_parallelism().map_or(1, |n| n.get()).min(pieces.len().div_ceil(8)).max(1);
    let each = pieces.len().div_ceil(threads).max(1);
    let check = |some: &[CommittedFile]| some.iter().map(|file| verified_path(run, file)).collect::<Result<Vec<_>, LogError>>();
    let all = scope(|scope| {
        let rest: Vec<_> = pieces.chunks(each).skip(1).map(|some| scope.spawn(move || check(some))).collect();
        let first = pieces.chunks(each).next().map(check);
        let rest = rest.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Ok(Vec::new())));
        first.into_iter().chain(rest).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(all.concat())
}
