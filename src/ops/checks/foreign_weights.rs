//! Checks that a node acts with the weights of its own model: versions of one model say nothing about another's, and
//! where an update trains the model the first version isn't kept for long.

use super::upstream::named;
use crate::ops::{is, operator, trained};
use flow_pipeline::{Carries, Mistake, Node, Pipeline, Role};

/// Nodes whose model is trained, and that wait for an update of another model or reflect on another model's episodes. A
/// model that nothing trains acts with version 0 wherever it stands.
pub fn mistakes(pipeline: &Pipeline) -> Vec<Mistake> {
    let nodes = pipeline.all().filter(|node| !is(node, Role::Learns));
    let own = |node: &Node| node.model().filter(|model| trained(pipeline, model)).map(String::from);
    nodes.filter_map(|node| Some((node, own(node)?))).filter_map(|(node, own)| foreign(node, &own, pipeline)).collect()
}

fn foreign(node: &Node, own: &str, pipeline: &Pipeline) -> Option<Mistake> {
    let find = |id: &str| pipeline.all().find(|other| other.id == id);
    let weights = operator(&node.op)?.port(Carries::Weights).map(|port| port.name);
    node.inputs.iter().find_map(|input| {
        let (from, of_weights) = (find(&input.from)?, Some(input.port.as_str()) == weights);
        if is(node, Role::Reflects) && from.makers().into_iter().any(|maker| is(maker, Role::Plays) && named(maker).next().is_some()) {
            let message =
                format!("`{}` reflects with `{own}`, which is trained, on episodes of several models: its version isn't known", node.id);
            return Some(
                Mistake::in_node(node, &["inputs", &input.port], message)
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
        Some(Mistake::in_node(node, &["inputs", &input.port], message).help(help))
    })
}

/// A `node` whose model an update trains, and which has no input for the weights: it would act with version 0 for ever.
pub fn unconnected(node: &Node, pipeline: &Pipeline) -> Option<Mistake> {
    let operator = operator(&node.op).filter(|o| o.role != Role::Learns && !(o.hooks.expert)(&node.with))?;
    let (port, own) = (operator.port(Carries::Weights)?.name, node.model()?);
    let update = pipeline.all().filter(|other| is(other, Role::Learns) && other.model() == Some(own)).last()?;
    if node.inputs.iter().any(|input| input.port == port) {
        return None;
    }
    let message = format!("`{}` trains `{own}`, and `{}` has no input for its weights", update.id, node.id);
    let help = format!(
        "connect it: `inputs: {{ {port}: {{ after: {} }} }}`; to use the weights that `{own}` begins with, name another model with the same \
         `load`, which nothing trains",
        update.id
    );
    Some(Mistake::in_node(node, &["inputs"], message).help(help))
}
