//! Checks that a node acts with the weights of its own model: versions of one model say nothing about another's.

use super::upstream::named;
use crate::ops::{is, operator, trained};
use crate::pipeline::{Carries, Node, Pipeline, Role, Wrong};

/// Nodes whose model is trained, and that wait for an update of another model or reflect on another model's episodes. A
/// model that nothing trains acts with version 0 wherever it stands.
pub fn wrong(pipeline: &Pipeline) -> Vec<Wrong> {
    let nodes = pipeline.all().filter(|node| !is(node, Role::Learns));
    let own = |node: &Node| node.model().filter(|model| trained(pipeline, model)).map(String::from);
    nodes.filter_map(|node| Some((node, own(node)?))).filter_map(|(node, own)| foreign(node, &own, pipeline)).collect()
}

fn foreign(node: &Node, own: &str, pipeline: &Pipeline) -> Option<Wrong> {
    let find = |id: &str| pipeline.all().find(|other| other.id == id);
    let weights = operator(&node.op)?.port(Carries::Weights).map(|port| port.name);
    node.inputs.iter().find_map(|input| {
        let (from, of_weights) = (find(&input.from)?, Some(input.port.as_str()) == weights);
        if is(node, Role::Reflects) && from.makers().into_iter().any(|maker| is(maker, Role::Plays) && named(maker).next().is_some()) {
            let message =
                format!("`{}` reflects with `{own}`, which is trained, on episodes of several models: its version isn't known", node.id);
            return Some(
                Wrong::in_node(node, &["inputs", &input.port], message)
                    .help(format!("leave `{own}` untrained, or reflect with another model")),
            );
        }
        let other = from.model().filter(|model| *model != own)?;
        let message = if of_weights && is(from, Role::Learns) {
            format!("`{}` acts with `{own}`, and `{}` trains `{other}`", node.id, from.id)
        } else if is(node, Role::Reflects) && is(from, Role::Plays) {
            format!("`{}` reflects with `{own}`, which is trained, on episodes of `{other}`: its version isn't known", node.id)
        } else {
            return None;
        };
        let help = format!("name one model in both, or leave `{own}` untrained");
        Some(Wrong::in_node(node, &["inputs", &input.port], message).help(help))
    })
}
