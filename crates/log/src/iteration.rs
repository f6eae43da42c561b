//! A committed iteration: its files, its figures, its weights.

use super::SavedWeights;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Metrics of one iteration: node, name, value.
pub type Metrics = BTreeMap<String, BTreeMap<String, f64>>;

/// The rows of a node in one iteration: a file that one worker wrote, or a stretch of one that has the rows of many
/// iterations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub node: String,
    pub iteration: u64,
    pub worker: usize,
    /// Relative to the run's folder.
    pub path: String,
    pub rows: u64,
    pub bytes: u64,
    /// The file's checksum: [`flow_core::seed::bytes`] of a file of its own, [`flow_core::seed::lanes`] of a file of many
    /// iterations.
    pub sum: u64,
    /// Where the rows begin in a file of many iterations; `bytes` and `sum` are then the whole file's. None in a file
    /// of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
}

/// A committed iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    pub iteration: u64,
    /// Sorted by node and worker.
    pub parts: Vec<Part>,
    #[serde(deserialize_with = "null_is_nan")]
    pub metrics: Metrics,
    /// Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<SavedWeights>,
    /// Since the commit before.
    pub seconds: f64,
}

/// JSON has no NaN and no infinity: they are written as null, and null is read as NaN.
pub(super) fn null_is_nan<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Metrics, D::Error> {
    let read = BTreeMap::<String, BTreeMap<String, Option<f64>>>::deserialize(from)?;
    Ok(read.into_iter().map(|(node, m)| (node, m.into_iter().map(|(k, v)| (k, v.unwrap_or(f64::NAN))).collect())).collect())
}
