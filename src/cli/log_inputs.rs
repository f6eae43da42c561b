//! What nodes made before the iteration that a run resumes with, for the delayed edges that read it.

use super::error::{Error, Result};
use crate::ops;
use arrow::array::{RecordBatch, UInt64Array};
use flow_core::row::{self, RowError};
use flow_dataflow::feed::{self, Feed, Feeds};
use flow_log::Manifest;
use flow_pipeline::{Node, Pipeline, Role};
use std::sync::Arc;

/// By node with a delayed reader: the versions of the weights after each iteration, or its logged rows.
pub fn past(pipeline: &Pipeline, folder: &flow_log::Run, manifest: &Manifest) -> Result<Feeds> {
    let mut feeds = Feeds::new();
    for input in pipeline.nodes.iter().flat_map(|n| &n.inputs).filter(|i| i.staleness.is_some()) {
        let from = &input.from;
        let update = pipeline.node(from).is_some_and(|n| ops::is(n, Role::Learns));
        let feed: Feed = if update { versions(from, manifest) } else { logged(from, folder)? };
        feeds.insert(from.clone(), feed);
    }
    for node in pipeline.nodes.iter().filter(|n| ops::remembers(n)) {
        feeds.insert(node.id.clone(), changes(node, folder, manifest)?);
    }
    Ok(feeds)
}

/// The newest version that the update `node` had made by an iteration.
fn versions(node: &str, manifest: &Manifest) -> Feed {
    let last_version = |i: &flow_log::Iteration| i.weights.iter().filter(|w| w.node == node).map(|w| (i.iteration, w.version)).next_back();
    let versions: Vec<(u64, u64)> = manifest.committed.iter().filter_map(last_version).collect();
    Arc::new(move |iteration| {
        let version = versions.iter().rev().find(|(at, _)| *at <= iteration).map(|(_, version)| *version);
        Ok(version.map(version_row).into_iter().collect::<Result<_, _>>()?)
    })
}

/// All that a node had logged by an iteration: the changes of a memory. Applying a change twice makes no difference.
pub fn changes(node: &Node, folder: &flow_log::Run, manifest: &Manifest) -> Result<Feed> {
    let each = logged(&node.id, folder)?;
    let committed: Vec<u64> = manifest.committed.iter().map(|committed| committed.iteration).collect();
    Ok(Arc::new(move |iteration| {
        let mut all = Vec::new();
        for earlier in committed.iter().filter(|earlier| **earlier <= iteration) {
            all.extend(each(*earlier)?);
        }
        Ok(all)
    }))
}

fn version_row(version: u64) -> Result<RecordBatch, RowError> {
    row::batch(vec![("version", Arc::new(UInt64Array::from(vec![version])))])
}

/// The rows that `node` had logged.
fn logged(node: &str, folder: &flow_log::Run) -> Result<Feed> {
    let help = format!("`{node}` has a delayed reader, so it must be logged for its run to be resumed");
    feed::logged(folder, node).map_err(|e| Error::from(e).help(help))
}
