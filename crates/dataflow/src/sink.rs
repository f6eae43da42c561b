//! Collects the rows of chosen nodes in memory.

use super::edge::{Edge, Route};
use super::monitor::Owner;
use super::stage::{stage, Place, Stage};
use super::Context;
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The nodes whose rows are collected, and the rows so far. A clone is another handle on the same rows.
#[derive(Clone)]
pub struct Sink {
    nodes: BTreeSet<String>,
    rows: Arc<Mutex<BTreeMap<String, Vec<RecordBatch>>>>,
}

impl Sink {
    pub fn of(nodes: BTreeSet<String>) -> Sink {
        Sink { nodes, rows: Arc::default() }
    }

    /// Takes the rows of a node, in order of arrival.
    pub fn take(&self, node: &str) -> Vec<RecordBatch> {
        self.rows.lock().remove(node).unwrap_or_default()
    }

    /// Adds a stage behind each chosen node, so that the run ends only when all its rows are here.
    pub(super) fn attach<'s>(&self, edges: BTreeMap<String, Edge<'s>>, ctx: &Context) -> BTreeMap<String, Edge<'s>> {
        let keep = |(node, edge): (String, Edge<'s>)| {
            if !self.nodes.contains(&node) {
                return (node, edge);
            }
            let (id, collected) = (node.clone(), self.rows.clone());
            let shape =
                Stage { name: format!("the sink of {node}"), inputs: vec![(edge, Route::Stay)], begins: false, place: Place::Worker };
            let kept = stage(shape, &ctx.owned_by(Owner::Engine("the sink")), move |_, rows| {
                let rows: Vec<RecordBatch> = rows.into_iter().flatten().collect();
                collected.lock().entry(id.clone()).or_default().extend(rows.iter().cloned());
                Ok(rows)
            });
            (node, kept)
        };
        edges.into_iter().map(keep).collect()
    }
}
