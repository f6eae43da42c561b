//! The nodes upstream of a node, and whose models write their rows.

use crate::ops::{is, operator};
use flow_pipeline::{Carries, Input, Node, Pipeline, Role};

/// The setting that names the models which answer a program's calls by their names.
pub const BY_NAME: &str = "by_name";

/// The models that answer calls of the node's program by their names, besides the agent's own.
pub fn named(node: &Node) -> impl Iterator<Item = &str> {
    node.with.models().filter(|named| named.role() == BY_NAME).map(|named| named.name.as_str())
}

/// Whether the node uses its model for generation only.
pub fn answers(node: &Node) -> bool {
    [Role::Plays, Role::Reflects, Role::Measures].into_iter().any(|role| is(node, role))
}

/// The node and its ancestors along main inputs, the nearest first: through each node's first input whose rows come
/// out.
pub fn upstream<'a>(pipeline: &'a Pipeline, node: &'a Node) -> impl Iterator<Item = &'a Node> {
    let before = |here: &&'a Node| {
        let operator = operator(&here.op);
        let port = |name: &str| operator.and_then(|o| o.ports.iter().find(|p| p.name == name));
        let rows = |e: &&Input| port(&e.port).is_none_or(|p| ![Carries::Weights, Carries::Others].contains(&p.carries));
        here.inputs.iter().find(rows).and_then(|e| pipeline.node(&e.from))
    };
    // A pipeline's main inputs make no cycle; the bound is for one that isn't checked yet.
    std::iter::successors(Some(node), before).take(pipeline.nodes.len() + 1)
}

/// Whether an update learns from the rows of `node`.
pub fn trains_on(pipeline: &Pipeline, node: &Node) -> bool {
    pipeline.all().filter(|other| is(other, Role::Learns)).any(|update| writers(pipeline, update).iter().any(|writer| writer.id == node.id))
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
