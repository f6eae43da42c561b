//! Checks models that a server runs: they can act and reflect, but their weights aren't here, and their rows aren't in the tokens of a
//! local model.

use crate::ops::{is, operator};
use crate::pipeline::{Carries, Node, Pipeline, Role, Wrong, MODEL};
use serde_json::Value;

/// Whether these are the settings of a model that a server runs.
pub fn remote(model: &Value) -> bool {
    model["openai"].is_string()
}

/// Nodes that use such a model for more than generation, and nodes whose own model would have to read the tokens of such a model.
pub fn wrong(pipeline: &Pipeline) -> Vec<Wrong> {
    let mut mistakes = Vec::new();
    for node in pipeline.all() {
        for named in node.with.models().filter(|named| elsewhere(pipeline, &named.name)) {
            if named.role() == MODEL && answers(node) {
                continue;
            }
            let (name, role) = (&named.name, named.role());
            let message = format!("a server runs `{name}`, whose weights aren't here, so `{}` can't use it as `{role}`", node.id);
            let help = "what a server runs can act, reflect and be evaluated; name a model with `load` or `new`";
            let path: Vec<&str> = std::iter::once("with").chain(named.path.iter().map(String::as_str)).collect();
            mistakes.push(Wrong::in_node(node, &path, message).help(help));
        }
        let Some(own) = node.model().filter(|name| !answers(node) && !elsewhere(pipeline, name)) else { continue };
        if let Some((writer, theirs)) = written(pipeline, node) {
            let message =
                format!("`{}` reads rows of `{writer}`, and those are written by `{theirs}`, not in the tokens of `{own}`", node.id);
            let help = "measure that model without learning from its rows, or leave them out of the `output` of their loop";
            mistakes.push(Wrong::in_node(node, &["inputs"], message).help(help));
        }
    }
    mistakes
}

fn elsewhere(pipeline: &Pipeline, name: &str) -> bool {
    pipeline.models.get(name).is_some_and(remote)
}

/// Whether the node uses its model for generation only.
fn answers(node: &Node) -> bool {
    [Role::Plays, Role::Reflects, Role::Measures].into_iter().any(|role| is(node, role))
}

/// Among the nodes that produce the rows of `node`: one whose model a server runs, and that model.
fn written<'p>(pipeline: &'p Pipeline, node: &'p Node) -> Option<(&'p str, &'p str)> {
    let mut queue = vec![node];
    let mut visited = vec![node.id.as_str()];
    while let Some(here) = queue.pop() {
        for input in &here.inputs {
            let port = operator(&here.op).and_then(|o| o.ports.iter().find(|port| port.name == input.port));
            let Some(from) = pipeline.node(&input.from).filter(|_| port.is_none_or(|port| port.carries == Carries::Rows)) else { continue };
            for maker in from.makers() {
                if answers(maker) {
                    if let Some(model) = maker.model().filter(|name| elsewhere(pipeline, name)) {
                        return Some((&maker.id, model));
                    }
                } else if !visited.contains(&maker.id.as_str()) {
                    visited.push(&maker.id);
                    queue.push(maker);
                }
            }
        }
    }
    None
}
