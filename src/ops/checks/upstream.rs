//! The nodes upstream of a node, along its main input.

use super::remote::answers;
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

/// The nodes whose models write the rows of `node`, the nearest first.
pub fn writers<'p>(pipeline: &'p Pipeline, node: &'p Node) -> Vec<&'p Node> {
    let (mut queue, mut visited, mut found) = (vec![node], vec![node.id.as_str()], Vec::new());
    while let Some(here) = queue.pop() {
        for input in &here.inputs {
            let port = operator(&here.op).and_then(|o| o.ports.iter().find(|port| port.name == input.port));
            let Some(from) = pipeline.node(&input.from).filter(|_| port.is_none_or(|port| port.carries == Carries::Rows)) else { continue };
            for maker in from.makers() {
                if answers(maker) {
                    found.push(maker);
                } else if !visited.contains(&maker.id.as_str()) {
                    visited.push(&maker.id);
                    queue.push(maker);
                }
            }
        }
    }
    found
}
