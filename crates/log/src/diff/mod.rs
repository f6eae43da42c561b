//! Two runs side by side. Rows are joined by their names, so neither the order of rows nor the number of workers
//! matters.

mod both;
mod iterations;
mod moved;

pub use iterations::{metrics, versions, MetricsDiff, VersionsDiff};
pub use moved::{CreditDiff, NodeDiff, RowCounts, UsedDiff};

use super::{LogError, Manifest, Run, SavedWeights};
use both::RunPair;
use flow_core::files;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{BufReader, Read};
use std::path::Path;

/// The weights that the runs ended with, by model; versions are none where a run made none.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WeightsDiff {
    pub model: String,
    pub a: Option<u64>,
    pub b: Option<u64>,
    /// Bit for bit; none where a side has no such file.
    pub equal: Option<bool>,
}

/// The differences of the rows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Diff {
    /// Turns of the training rollouts.
    pub rows: RowCounts,
    /// Rows in both that met another state or gave another response: the same name, another turn. None where it isn't
    /// logged.
    pub other_turns: Option<u64>,
    pub nodes: Vec<NodeDiff>,
    /// Failed episodes (the table `errors`), compared by every column but `error`. None where a run is a replay, which
    /// plays nothing.
    pub errors: Option<RowCounts>,
    pub credit: Option<CreditDiff>,
    pub used: Option<UsedDiff>,
}

/// Compares the committed rows of `a` and `b`: the advantages of `node`, or of the last node that has them in both; of
/// the rows that moved most `top` each way.
pub fn diff(a: &Run, b: &Run, node: Option<&str>, top: usize) -> Result<Diff, LogError> {
    let both = RunPair::open(a, b)?;
    if let Some(node) = node {
        both.require_column(node, "advantage")?;
    }
    Ok(Diff {
        rows: both.shared()?,
        other_turns: both.other_turns()?,
        nodes: both.nodes()?,
        errors: both.errors()?,
        credit: both.pick("advantage", node).map(|nodes| both.credit(nodes, top)).transpose()?,
        used: both.pick("used", None).map(|nodes| both.used(nodes, top)).transpose()?,
    })
}

/// Compares the committed rows of the nodes that both logged, and nothing else.
pub fn nodes(a: &Run, b: &Run) -> Result<Vec<NodeDiff>, LogError> {
    RunPair::open(a, b)?.nodes()
}

/// Compares the newest committed weights of each model.
pub fn weights(a: &Run, b: &Run) -> Result<Vec<WeightsDiff>, LogError> {
    let (of_a, of_b) = (a.manifest()?, b.manifest()?);
    let newest = |manifest: &Manifest, model: &str| {
        manifest.committed.iter().rev().flat_map(|i| i.weights.iter().rev()).find(|w| w.model == model).cloned()
    };
    // Removed weights can't be compared; existing ones are what the manifest says.
    let whole = |run: &Run, weights: &Option<SavedWeights>| match weights.as_ref().map(|weights| run.whole_weights(weights)) {
        Some(Ok(folder)) => Ok(Some(folder)),
        None | Some(Err(LogError::Missing(_))) => Ok(None),
        Some(Err(error)) => Err(error),
    };
    let all = |manifest: &Manifest| manifest.committed.iter().flat_map(|i| &i.weights).map(|w| w.model.clone()).collect::<BTreeSet<_>>();
    let compare = |model: &String| {
        let (in_a, in_b) = (newest(&of_a, model), newest(&of_b, model));
        let equal = whole(a, &in_a)?.zip(whole(b, &in_b)?).and_then(|(in_a, in_b)| same(&in_a, &in_b));
        Ok(WeightsDiff { model: model.clone(), a: in_a.map(|w| w.version), b: in_b.map(|w| w.version), equal })
    };
    all(&of_a).union(&all(&of_b)).map(compare).collect()
}

/// Whether two folders hold the same weights, bit for bit; none where they can't be read.
fn same(a: &Path, b: &Path) -> Option<bool> {
    // A model that learns by adapters may be saved with its own weights, which never change, or without.
    let files = ["model.safetensors", "adapter_model.safetensors"].map(|name| (a.join(name), b.join(name)));
    let there: Vec<_> = files.iter().filter(|(a, b)| a.exists() || b.exists()).collect();
    let each = there.iter().map(|(a, b)| if a.exists() && b.exists() { same_bytes(a, b) } else { Some(false) });
    let each = each.collect::<Option<Vec<bool>>>()?;
    (!each.is_empty()).then(|| each.into_iter().all(|equal| equal))
}

/// Whether two files have the same bytes; none where one can't be read.
fn same_bytes(a: &Path, b: &Path) -> Option<bool> {
    let open = |path: &Path| files::open(path).ok().map(BufReader::new);
    let (a, b) = (open(a)?, open(b)?);
    let (mut a, mut b) = (a.bytes(), b.bytes());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Some(true),
            (Some(x), Some(y)) if x.as_ref().ok()? == y.as_ref().ok()? => {}
            _ => return Some(false),
        }
    }
}
