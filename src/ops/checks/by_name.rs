//! Checks agents whose program's calls are answered by several models (`by_name`): the models, the inputs that give
//! their weights, and the nodes that read their rows.

use super::upstream::{answers, named, writers, BY_NAME};
use crate::ops::{is, trained};
use flow_pipeline::{Mistake, Node, Pipeline, Role};
use flow_rollout::agent::Agent;
use flow_rollout::settings::Actor;

/// Checks the node's use of several models.
pub fn mistakes(node: &Node, pipeline: &Pipeline, agent: &Agent, actor: Actor) -> Vec<Mistake> {
    let at = |path: &[&str], message: String, help: String| Mistake::in_node(node, path, message).help(help);
    let mut mistakes = Vec::new();
    let all = ["with", "agent", BY_NAME];
    let other = if agent.critic.is_some() {
        Some("`critic` ranks the actions of one model")
    } else if agent.branches.is_some() {
        Some("`branches` chooses among answers of one model")
    } else if actor != Actor::Policy {
        Some("an expert's answers are written in the tokens of one model")
    } else if pipeline.around(&node.id).is_some() {
        Some("in a loop one model answers all calls")
    } else {
        None
    };
    if let Some(other) = other.filter(|_| !agent.by_name.is_empty()) {
        mistakes.push(at(&all, format!("{other}, and `{BY_NAME}` names further ones"), format!("leave `{BY_NAME}` out")));
    }
    for (i, name) in agent.by_name.iter().enumerate() {
        let place = i.to_string();
        let path = ["with", "agent", BY_NAME, &place];
        if *name == agent.model || agent.by_name[..i].contains(name) {
            let message = format!("`{name}` answers the calls of `{}` already", node.id);
            mistakes.push(at(&path, message, "leave it out here: `model` answers all calls that name no other".into()));
            continue;
        }
        let taken = ["tasks", "weights", "memory"].contains(&name.as_str());
        if taken || agent.memories().any(|memory| memory.memory == *name || memory.clusters.as_ref() == Some(name)) {
            let message = format!("the input `{name}` of `{}` is no model's, so `{name}` can't be called by its name", node.id);
            mistakes.push(at(&path, message, "give the model another name".into()));
            continue;
        }
        let learns = |id: &str| pipeline.all().any(|from| from.id == id && is(from, Role::Learns) && from.model() == Some(name));
        match node.inputs.iter().find(|input| input.port == *name) {
            Some(input) if !learns(&input.from) => {
                let message =
                    format!("the input `{name}` of `{}` gives the weights of that model, and `{}` doesn't train it", node.id, input.from);
                mistakes.push(at(&["inputs", name], message, format!("name a `gpu-update` with `model: {name}`, or leave the input out")));
            }
            None if trained(pipeline, name) => {
                let message = format!("`{name}` is trained, and `{}` has no input for its weights", node.id);
                mistakes.push(at(&path, message, format!("connect its update: `inputs: {{ {name}: {{ after: UPDATE }} }}`")));
            }
            _ => (),
        }
    }
    mistakes
}

/// Nodes that read rows in the tokens of several models: only an update leaves out the rows of others, and so learns
/// those of its own.
pub fn readers(pipeline: &Pipeline) -> Vec<Mistake> {
    let reader = |node: &Node| {
        let own = node.model().filter(|_| !answers(node))?;
        let writer = writers(pipeline, node).into_iter().find(|writer| named(writer).next().is_some())?;
        let learns = is(node, Role::Learns) && (writer.model() == Some(own) || named(writer).any(|name| name == own));
        let message =
            format!("several models write the rows of `{}`, each in its own tokens, and `{}` reads them with `{own}`", writer.id, node.id);
        let help = "only a `gpu-update` of one of these models, which learns the rows that it answered, can read them";
        (!learns).then(|| Mistake::in_node(node, &["with", "model"], message).help(help))
    };
    pipeline.all().filter_map(reader).collect()
}
