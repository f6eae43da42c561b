//! A segment: consecutive iterations whose small files were merged into one file a node.

use super::{Iteration, LogError, Metrics, Part, SavedWeights};
use crate::chain;
use flow_core::seed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Iterations that follow one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Segment {
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
    /// A file with a line of [`IterationDetails`] for each iteration.
    pub details: FileRecord,
    /// The rows of each node, in the order of the iterations and within one in that of their names.
    pub files: BTreeMap<String, FileRecord>,
    /// The nodes whose files were left as they are, large enough or of unequal columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<String>,
}

/// A file, as it was when it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    /// Relative to the run's folder.
    pub path: String,
    /// Rows or lines.
    pub rows: u64,
    pub bytes: u64,
    /// [`flow_core::seed::lanes`] of it.
    pub sum: u64,
}

impl FileRecord {
    /// A file of `rows` rows or lines, at `path`.
    pub fn of(path: String, rows: usize, bytes: &[u8]) -> FileRecord {
        FileRecord { path, rows: rows as u64, bytes: bytes.len() as u64, sum: seed::lanes(bytes) }
    }

    /// Its bytes, in the file at `path`, once their checksum is verified.
    pub fn read(&self, path: PathBuf) -> Result<Vec<u8>, LogError> {
        let bytes = fs::read(&path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => LogError::Missing(path.clone()),
            _ => LogError::io(&path)(e),
        })?;
        if bytes.len() as u64 != self.bytes || seed::lanes(&bytes) != self.sum {
            return Err(LogError::Damaged { path, why: "its bytes have changed since it was committed".into() });
        }
        Ok(bytes)
    }
}

/// What a segment stores of an iteration beside its rows.
#[derive(Serialize, Deserialize)]
pub(super) struct IterationDetails {
    pub iteration: u64,
    /// How many rows it has in the file of each node.
    rows: BTreeMap<String, u64>,
    /// The files that were left as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
    #[serde(deserialize_with = "super::iteration::null_is_nan")]
    metrics: Metrics,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    weights: Vec<SavedWeights>,
    seconds: f64,
}

impl IterationDetails {
    /// The details of an iteration whose rows, except rows of the nodes in `apart`, are in the segment's files.
    pub fn of(committed: &Iteration, apart: &[String]) -> IterationDetails {
        let mut rows = BTreeMap::new();
        let (parts, folded): (Vec<&Part>, Vec<&Part>) = committed.parts.iter().partition(|part| apart.contains(&part.node));
        folded.iter().for_each(|part| *rows.entry(part.node.clone()).or_default() += part.rows);
        IterationDetails {
            iteration: committed.iteration,
            rows,
            parts: parts.into_iter().cloned().collect(),
            metrics: committed.metrics.clone(),
            weights: committed.weights.clone(),
            seconds: committed.seconds,
        }
    }
}

impl Segment {
    /// Whether it may have an iteration of `within`.
    pub fn meets(&self, within: &RangeInclusive<u64>) -> bool {
        !within.is_empty() && self.first <= *within.end() && self.last >= *within.start()
    }

    /// The lines of its details.
    ///
    /// # Errors
    /// If the file has changed.
    pub fn details(&self, root: &Path) -> Result<Vec<IterationDetails>, LogError> {
        let text = self.details.read(root.join(&self.details.path))?;
        let path = || root.join(&self.details.path);
        let (lines, _) =
            chain::lines(&text, 0).map_err(|line| LogError::Damaged { path: path(), why: format!("line {line} makes no sense") })?;
        Ok(lines)
    }

    /// Its iterations as they were committed, but with the places where their rows are now.
    ///
    /// # Errors
    /// If the details have changed.
    pub fn iterations(&self, root: &Path) -> Result<Vec<Iteration>, LogError> {
        let mut starts: BTreeMap<String, u64> = BTreeMap::new();
        let mut all = Vec::new();
        for folded in self.details(root)? {
            let mut parts = folded.parts;
            for (node, rows) in folded.rows {
                let Some(file) = self.files.get(&node) else { continue };
                let start = starts.entry(node.clone()).or_default();
                let (path, bytes, sum) = (file.path.clone(), file.bytes, file.sum);
                parts.push(Part { node, iteration: folded.iteration, worker: 0, path, rows, bytes, sum, start: Some(*start) });
                *start += rows;
            }
            parts.sort_by(|a, b| (&a.node, a.worker).cmp(&(&b.node, b.worker)));
            let (iteration, metrics, weights, seconds) = (folded.iteration, folded.metrics, folded.weights, folded.seconds);
            all.push(Iteration { iteration, parts, metrics, weights, seconds });
        }
        Ok(all)
    }
}
