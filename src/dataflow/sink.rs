//! Rows of chosen nodes, kept in memory as they pass.

use super::edge::{Edge, Route};
use super::seat::Owner;
use super::stage::{stage, Place, Stage};
use super::Context;
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which nodes' rows are kept, and what was kept so far. A clone is another handle on the same rows.
#[derive(Clone)]
pub struct Sink {
    nodes: BTreeSet<String>,
    rows: Arc<Mutex<BTreeMap<String, Vec<RecordBatch>>>>,
}

impl Sink {
    pub fn of(nodes: BTreeSet<String>) -> Sink {
        Sink { nodes, rows: Arc::default() }
    }

    /// What a node made, in the order in which it came; taken out.
    pub fn take(&self, node: &str) -> Vec<RecordBatch> {
        self.rows.lock().remove(node).unwrap_or_default()
    }

    /// Puts a stage behind each chosen node, so that a run is over only when all its rows are here.
    pub(super) fn behind<'s>(&self, made: BTreeMap<String, Edge<'s>>, ctx: &Context) -> BTreeMap<String, Edge<'s>> {
        let keep = |(node, edge): (String, Edge<'s>)| {
            if !self.nodes.contains(&node) {
                return (node, edge);
            }
            let (id, kept) = (node.clone(), self.rows.clone());
            let shape =
                Stage { name: format!("the sink of {node}"), inputs: vec![(edge, Route::Stay)], begins: false, place: Place::Worker };
            let behind = stage(shape, &ctx.of(Owner::Engine("the sink")), move |_, rows| {
                let rows: Vec<RecordBatch> = rows.into_iter().flatten().collect();
                kept.lock().entry(id.clone()).or_default().extend(rows.iter().cloned());
                Ok(rows)
            });
            (node, behind)
        };
        made.into_iter().map(keep).collect()
    }
}
