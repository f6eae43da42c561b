//! The pipeline of a run as a graph.

use super::runs::ServedRun;
use crate::ops;
use flow_pipeline::{Node, Pipeline};
use serde_json::{json, Value};

/// The pipeline of a run as a graph, or why it can't be read.
pub fn drawn(run: &ServedRun) -> &std::result::Result<Value, String> {
    run.graph(|| Ok(graph(&flow_pipeline::load(&run.run.pipeline(), &[], &ops::replayed(Default::default()))?)))
}

/// The nodes of a pipeline with their inputs and settings; those in a loop name it.
fn graph(pipeline: &Pipeline) -> Value {
    let node = |node: &Node| {
        let around = pipeline.around(&node.id).map(|around| around.id.clone());
        let inputs = node.inputs.iter().map(|input| json!({ "port": input.port, "from": input.from, "staleness": input.staleness }));
        json!({
            "id": node.id, "op": node.op, "inputs": inputs.collect::<Vec<_>>(), "loop": around, "logged": pipeline.log.contains(&node.id),
            "holds": node.body.as_ref().map(|body| body.output.clone()), "with": node.with.raw(),
        })
    };
    json!({ "name": pipeline.name, "about": pipeline.about, "nodes": pipeline.all().map(node).collect::<Vec<_>>() })
}
