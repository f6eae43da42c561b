//! Rows from Parquet: committed iterations only.

use super::index::{read_file, Piece, Sum};
use super::segment::FileAt;
use super::{LogError, Manifest, Part, Run};
use crate::row;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::{available_parallelism, scope};

type Builder = ParquetRecordBatchReaderBuilder<Bytes>;

/// The committed rows of `node`: one batch an iteration that has some, sorted by the rows' names, so that they are the same
/// however many workers wrote them.
pub fn read(run: &Run, node: &str) -> Result<Vec<RecordBatch>, LogError> {
    let mut rows = Rows::open(run, node)?;
    let iterations: Vec<u64> = rows.manifest.committed.iter().map(|made| made.iteration).collect();
    let mut all = Vec::new();
    for iteration in iterations {
        all.extend(rows.iteration(iteration)?);
    }
    Ok(all)
}

/// The rows of a node, asked iteration by iteration: a file of many of them is read once for those that are asked one after the other.
pub struct Rows {
    run: Run,
    node: String,
    manifest: Manifest,
    /// The last file of many iterations, whole.
    held: Option<(String, RecordBatch)>,
}

impl Rows {
    /// As they are committed now.
    ///
    /// # Errors
    /// If the run has no such node.
    pub fn open(run: &Run, node: &str) -> Result<Rows, LogError> {
        let manifest = run.manifest()?;
        manifest.node(node)?;
        Ok(Rows { run: run.clone(), node: node.into(), manifest, held: None })
    }

    /// One batch, sorted by the rows' names, or none.
    ///
    /// # Errors
    /// If a file isn't what was committed.
    pub fn iteration(&mut self, iteration: u64) -> Result<Vec<RecordBatch>, LogError> {
        match self.of(iteration) {
            // It may have gone into a larger file since the manifest was read.
            Err(LogError::Missing(_)) => {
                self.manifest = self.run.manifest()?;
                self.of(iteration)
            }
            rows => rows,
        }
    }

    fn of(&mut self, iteration: u64) -> Result<Vec<RecordBatch>, LogError> {
        let committed = &self.manifest.committed;
        let Ok(at) = committed.binary_search_by_key(&iteration, |i| i.iteration) else { return Ok(Vec::new()) };
        let mut batches = Vec::new();
        for own in committed[at].parts.iter().filter(|p| p.node == self.node) {
            let Some(start) = own.start else {
                batches.extend(part(&self.run, own)?);
                continue;
            };
            if self.held.as_ref().is_none_or(|(path, _)| *path != own.path) {
                let whole = opened(&self.run, own, |file| Ok(file.build()?.collect::<Result<Vec<_>, ArrowError>>()?))?;
                let Some(first) = whole.first() else { continue };
                self.held = Some((own.path.clone(), concat_batches(&first.schema(), &whole)?));
            }
            let Some((path, whole)) = &self.held else { continue };
            if start.saturating_add(own.rows) > whole.num_rows() as u64 {
                return Err(short(self.run.root().join(path), own));
            }
            batches.push(whole.slice(start as usize, own.rows as usize));
        }
        Ok(row::sorted(&batches)?.into_iter().collect())
    }
}

fn short(path: PathBuf, part: &Part) -> LogError {
    LogError::Damaged { path, why: format!("it hasn't the {} rows that were committed of iteration {}", part.rows, part.iteration) }
}

/// The rows of `node` in one committed iteration: one batch, sorted by the rows' names, or none.
pub fn read_iteration(run: &Run, manifest: &Manifest, node: &str, iteration: u64) -> Result<Vec<RecordBatch>, LogError> {
    Rows { run: run.clone(), node: node.into(), manifest: manifest.clone(), held: None }.of(iteration)
}

/// The columns that the log has of `node`, as its first committed file has them; none where there is no row.
pub fn columns(run: &Run, manifest: &Manifest, node: &str) -> Result<Vec<String>, LogError> {
    let Some(part) = manifest.parts(node).next() else { return Ok(Vec::new()) };
    opened(run, part, |file| Ok(file.schema().fields().iter().map(|f| f.name().clone()).collect()))
}

/// The rows of a part, as they lie in its file.
pub(super) fn part(run: &Run, part: &Part) -> Result<Vec<RecordBatch>, LogError> {
    opened(run, part, |file| {
        let found = file.metadata().file_metadata().num_rows();
        let found = u64::try_from(found).unwrap_or(0);
        let start = part.start.unwrap_or(0);
        let whole = part.start.is_some() || found == part.rows;
        if !whole || start.saturating_add(part.rows) > found {
            return Err(ParquetError::General(format!("it has {found} rows, committed were {}", part.rows)));
        }
        // Of a file of many iterations no more than these rows are decoded.
        let rows = part.rows as usize;
        let file = file.with_batch_size(rows.max(1)).with_offset(start as usize).with_limit(rows);
        Ok(file.build()?.collect::<Result<Vec<_>, ArrowError>>()?)
    })
}

/// All rows of a segment's file.
pub(super) fn whole_file(run: &Run, file: &FileAt) -> Result<Vec<RecordBatch>, LogError> {
    let bytes = read_file(run.root(), file)?;
    let path = run.root().join(&file.path);
    decoded(&path, bytes, |file| Ok(file.build()?.collect::<Result<Vec<_>, ArrowError>>()?))
}

/// What `take` finds in the part's file, whose bytes must be those that were committed: of a damaged page the rows could be
/// read without a word, and could be any.
fn opened<T>(run: &Run, part: &Part, take: impl FnOnce(Builder) -> Result<T, ParquetError>) -> Result<T, LogError> {
    let (path, bytes) = committed(run, &Piece { path: part.path.clone(), bytes: part.bytes, sum: Sum::of(part) })?;
    decoded(&path, bytes, take)
}

fn decoded<T>(path: &Path, bytes: Vec<u8>, take: impl FnOnce(Builder) -> Result<T, ParquetError>) -> Result<T, LogError> {
    let damaged = |why: String| LogError::Damaged { path: path.into(), why };
    Builder::try_new(Bytes::from(bytes)).and_then(take).map_err(|e| damaged(e.to_string()))
}

/// Where a file with rows lies, and its bytes, once they are known to be those that were committed.
pub(super) fn committed(run: &Run, piece: &Piece) -> Result<(PathBuf, Vec<u8>), LogError> {
    let path = whole(run, piece)?;
    let bytes = fs::read(&path).map_err(LogError::io(&path))?;
    if !piece.sum.fits(&bytes) {
        return Err(LogError::Damaged { path, why: "its bytes are not those that were committed".into() });
    }
    Ok((path, bytes))
}

/// Where it lies, once it is known to be there and as long as it was when it was committed.
fn whole(run: &Run, piece: &Piece) -> Result<PathBuf, LogError> {
    let path = run.root().join(Path::new(&piece.path));
    match fs::metadata(&path) {
        Ok(found) if found.is_file() && found.len() == piece.bytes => Ok(path),
        Ok(found) => Err(LogError::Damaged { path, why: format!("it holds {} bytes, committed were {}", found.len(), piece.bytes) }),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(LogError::Missing(path)),
        Err(e) => Err(LogError::io(&path)(e)),
    }
}

/// The files, once all of them are known to be what was committed: read through on several threads, for DuckDB doesn't know their sums.
pub(super) fn checked(run: &Run, pieces: &[Piece]) -> Result<Vec<PathBuf>, LogError> {
    let threads = available_parallelism().map_or(1, |n| n.get()).min(pieces.len().div_ceil(8)).max(1);
    let each = pieces.len().div_ceil(threads).max(1);
    let check = |some: &[Piece]| some.iter().map(|piece| committed(run, piece).map(|(path, _)| path)).collect::<Result<Vec<_>, _>>();
    let all = scope(|scope| {
        let rest: Vec<_> = pieces.chunks(each).skip(1).map(|some| scope.spawn(move || check(some))).collect();
        let first = pieces.chunks(each).next().map(check);
        let rest = rest.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Ok(Vec::new())));
        first.into_iter().chain(rest).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(all.concat())
}
