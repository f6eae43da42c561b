//! What was made before the iteration that a run goes on with, for those who read it late.

use super::error::{Error, Result};
use crate::dataflow::feed::{self, Feed, Feeds};
use crate::log::{self, Manifest};
use crate::ops;
use crate::pipeline::{Node, Pipeline, Role};
use crate::row::{self, RowError};
use arrow::array::{RecordBatch, UInt64Array};
use std::sync::Arc;

/// What nodes with delayed readers had made: the weights they ended each iteration with, as the manifest has it.
pub fn past(pipeline: &Pipeline, folder: &log::Run, manifest: &Manifest) -> Result<Feeds> {
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
    let of = |i: &log::Iteration| i.weights.iter().filter(|w| w.node == node).map(|w| (i.iteration, w.version)).next_back();
    let made: Vec<(u64, u64)> = manifest.committed.iter().filter_map(of).collect();
    Arc::new(move |iteration| {
        let version = made.iter().rev().find(|(at, _)| *at <= iteration).map(|(_, version)| *version);
        Ok(version.map(one).into_iter().collect::<Result<_, _>>()?)
    })
}

/// All that a node had logged by an iteration: the changes of a memory, which may be made again without a difference.
pub fn changes(node: &Node, folder: &log::Run, manifest: &Manifest) -> Result<Feed> {
    let each = logged(&node.id, folder)?;
    let committed: Vec<u64> = manifest.committed.iter().map(|made| made.iteration).collect();
    Ok(Arc::new(move |iteration| {
        let mut all = Vec::new();
        for made in committed.iter().filter(|made| **made <= iteration) {
            all.extend(each(*made)?);
        }
        Ok(all)
    }))
}

fn one(version: u64) -> Result<RecordBatch, RowError> {
    row::batch(vec![("version", Arc::new(UInt64Array::from(vec![version])))])
}

/// The rows that `node` had logged.
fn logged(node: &str, folder: &log::Run) -> Result<Feed> {
    let help = format!("`{node}` has a delayed reader, so it must be logged for its run to be resumed");
    feed::logged(folder, node).map_err(|e| Error::from(e).help(help))
}
