//! Checks that several updates of one model take turns.

use crate::ops::{is, operator};
use flow_pipeline::{Carries, Input, Mistake, Node, Pipeline, Role};

/// Each update of `model` waits for the one before it, and the first for the last one of the previous iteration.
/// Otherwise the weights that a row was made with would depend on timing.
pub fn mistakes(pipeline: &Pipeline, model: &str) -> Vec<Mistake> {
    let turns: Vec<&Node> = pipeline.nodes.iter().filter(|n| is(n, Role::Learns) && n.model() == Some(model)).collect();
    let mut mistakes = Vec::new();
    for (i, node) in turns.iter().enumerate().filter(|_| turns.len() > 1) {
        let before = &turns[(i + turns.len() - 1) % turns.len()].id;
        let Some(port) = operator(&node.op).and_then(|o| o.port(Carries::Weights)) else { continue };
        let awaits = |e: &Input| e.port == port.name && &e.from == before && e.staleness.unwrap_or(0) == 0;
        if !node.inputs.iter().any(awaits) {
            let edge = if i == 0 { format!("{{ after: {before} }}") } else { before.clone() };
            let message = format!("`{model}` is updated by {} nodes, which must take turns", turns.len());
            let help = format!("give `{}` the input `{}: {edge}`", node.id, port.name);
            mistakes.push(Mistake::in_node(node, &[], message).help(help));
        }
    }
    mistakes
}
