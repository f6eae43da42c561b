//! From a sketch without mistakes to the pipeline itself.

use super::sketch::{Draft, DraftEdge, Sketch};
use crate::{Body, Input, Node, Pipeline, LOOP};
use serde_json::Value;
use std::collections::BTreeSet;

/// The columns of each node, by position in the file; `None` where the rows of some come from a log.
pub type Columns = Option<Vec<BTreeSet<String>>>;

/// The pipeline, its nodes in this order, with the columns of each; `source` is the file as JSON.
pub fn pipeline(sketch: Sketch, order: &[usize], columns: &Columns, mut source: Value) -> Pipeline {
    if let Some(source) = source.as_object_mut() {
        source.shift_remove("tests");
    }
    let nodes = within(None, &sketch.nodes, order, columns);
    let Sketch { name, about, iterations, seed, models, log, keep, tests, .. } = sketch;
    Pipeline { name, about, iterations, seed, models, nodes, log, keep, tests, source, paths: Vec::new() }
}

/// The nodes inside the loop at that position (those in none without it), in this order.
fn within(around: Option<usize>, drafts: &[Draft], order: &[usize], columns: &Columns) -> Vec<Node> {
    let node = |place: &usize| {
        let draft = &drafts[*place];
        let input = |e: &DraftEdge| Input { port: e.port.into(), from: e.from.into(), staleness: e.staleness };
        let body = draft.body.as_ref().map(|body| Body {
            attempts: body.attempts,
            until: body.until,
            nodes: within(Some(*place), drafts, order, columns),
            output: body.output.iter().map(|i| drafts[*i].id.into()).collect(),
        });
        let op = if body.is_some() { LOOP } else { draft.spec.map(|s| s.name).unwrap_or_default() };
        let inputs = draft.edges.iter().map(input).collect();
        let columns = columns.as_ref().map(|columns| columns[*place].iter().cloned().collect());
        Node { id: draft.id.into(), op: op.into(), inputs, with: draft.with.clone().unwrap_or_default(), body, columns }
    };
    order.iter().filter(|i| drafts[**i].inside == around).map(node).collect()
}
