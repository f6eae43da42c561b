//! The nodes upstream of a node, along its main input.

use crate::ops::operator;
use crate::pipeline::{Carries, Input, Node, Pipeline};

/// The node and its ancestors along main inputs, the nearest first: through each node's first input that carries no weights.
pub fn upstream<'a>(pipeline: &'a Pipeline, node: &'a Node) -> impl Iterator<Item = &'a Node> {
    let before = |here: &&'a Node| {
        let operator = operator(&here.op);
        let port = |name: &str| operator.and_then(|o| o.ports.iter().find(|p| p.name == name));
        let rows = |e: &&Input| port(&e.port).is_none_or(|p| p.carries != Carries::Weights);
        here.inputs.iter().find(rows).and_then(|e| pipeline.node(&e.from))
    };
    // A pipeline's main inputs make no cycle; the bound is for one that isn't checked yet.
    std::iter::successors(Some(node), before).take(pipeline.nodes.len() + 1)
}
