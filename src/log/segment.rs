//! A segment: iterations whose small files were put together, one file a node.

use super::index::read_file;
use super::{Iteration, LogError, Metrics, Part, WeightsAt};
use crate::log::chain;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

/// Iterations that follow one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Segment {
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
    /// What else there is to say of each: a line each, of [`Folded`].
    pub details: FileAt,
    /// The rows of each node, in the order of the iterations and within one in that of their names.
    pub files: BTreeMap<String, FileAt>,
    /// The nodes whose files were left as they are, large enough or of unequal columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<String>,
}

/// A file, as it was when it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileAt {
    /// Relative to the run's folder.
    pub path: String,
    /// Rows or lines.
    pub rows: u64,
    pub bytes: u64,
    /// [`crate::seed::lanes`] of it.
    pub sum: u64,
}

/// An iteration in the details of a segment.
#[derive(Serialize, Deserialize)]
pub(super) struct Folded {
    pub iteration: u64,
    /// How many rows it has in the file of each node.
    rows: BTreeMap<String, u64>,
    /// The files that were left as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
    #[serde(deserialize_with = "super::iteration::null_is_nan")]
    metrics: Metrics,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    weights: Vec<WeightsAt>,
    seconds: f64,
}

impl Folded {
    /// Of an iteration whose rows, but for those of the nodes in `apart`, are in the segment's files.
    pub fn of(made: &Iteration, apart: &[String]) -> Folded {
        let mut rows = BTreeMap::new();
        let (parts, folded): (Vec<&Part>, Vec<&Part>) = made.parts.iter().partition(|part| apart.contains(&part.node));
        folded.iter().for_each(|part| *rows.entry(part.node.clone()).or_default() += part.rows);
        Folded {
            iteration: made.iteration,
            rows,
            parts: parts.into_iter().cloned().collect(),
            metrics: made.metrics.clone(),
            weights: made.weights.clone(),
            seconds: made.seconds,
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
    /// If the file isn't what was written.
    pub fn details(&self, root: &Path) -> Result<Vec<Folded>, LogError> {
        let text = read_file(root, &self.details)?;
        let path = || root.join(&self.details.path);
        let (lines, _) =
            chain::lines(&text, 0).map_err(|line| LogError::Damaged { path: path(), why: format!("line {line} makes no sense") })?;
        Ok(lines)
    }

    /// Its iterations, as they were committed, each with where its rows are now.
    ///
    /// # Errors
    /// If the details aren't what was written.
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
