//! Which models can do what is asked of them: a policy writes, a critic values, and what a critic learns has to be made.

use super::{is, operator, upstream, Head};
use crate::pipeline::{Node, Pipeline, Role, Wrong};

/// Nodes that ask a critic to write or a policy to value, and critics that learn what nothing makes.
pub fn wrong(pipeline: &Pipeline) -> Vec<Wrong> {
    let mut found = encoders(pipeline);
    for node in pipeline.all() {
        found.extend(valueless(pipeline, node, "critic"));
        let Some(asked) = operator(&node.op).and_then(|o| (o.further.head)(&node.with)) else { continue };
        let model = node.model().unwrap_or_default();
        let Some(settings) = pipeline.models.get(model) else { continue };
        match settings["head"].as_str() {
            Some("value") if asked == Head::Language => {
                let message = format!("`{model}` has a value head and writes nothing, so `{}` can't use it", node.id);
                found.push(Wrong::in_node(node, &["with", "model"], message).help("name a model without `head: value`"));
            }
            _ if asked == Head::Value => found.extend(valueless(pipeline, node, "model")),
            _ => {}
        }
        if asked == Head::Value && is(node, Role::Learns) && !targeted(pipeline, node) {
            let message = format!("`{}` learns values, and no `advantage` before it makes the column `value_target`", node.id);
            found.push(Wrong::in_node(node, &["inputs"], message).help("an `advantage` with `of: gae` makes it"));
        }
    }
    found
}

/// That the setting `key` of the node names a model that is no critic, where a critic is asked for.
fn valueless(pipeline: &Pipeline, node: &Node, key: &str) -> Option<Wrong> {
    let (model, settings) = pipeline.models.get_key_value(node.with.names(key)?)?;
    // What was saved may have a value head.
    let known = settings["head"].is_string() || settings["new"].is_string();
    if !known || settings["head"] == "value" {
        return None;
    }
    let message = format!("`{}` needs a critic, and `{model}` has no value head", node.id);
    let help = format!("give it one: `{model}: {{ ..., head: value }}`");
    Some(Wrong::in_node(node, &["with", key], message).help(help))
}

/// Nodes that ask an encoder to write, or a policy for the vectors of texts.
fn encoders(pipeline: &Pipeline) -> Vec<Wrong> {
    let mut found = Vec::new();
    for (node, key) in pipeline.all().flat_map(|node| ["model", "reference", "encoder", "critic"].map(|key| (node, key))) {
        let Some((name, settings)) = node.with.names(key).and_then(|name| pipeline.models.get_key_value(name)) else { continue };
        let encodes = settings["encode"].is_string();
        if encodes && key != "encoder" {
            let message = format!("`{name}` is an encoder, which only reads, so `{}` can't use it as `{key}`", node.id);
            found.push(Wrong::in_node(node, &["with", key], message).help("name a model with `load` or `new`"));
        } else if !encodes && key == "encoder" {
            let message = format!("`{}` needs an encoder, and `{name}` is none", node.id);
            found.push(Wrong::in_node(node, &["with", key], message).help(format!("make it one: `{name}: {{ encode: FOLDER }}`")));
        }
    }
    found
}

/// Whether a node that makes `value_target` lies on the way of the rows.
fn targeted(pipeline: &Pipeline, node: &Node) -> bool {
    upstream(pipeline, node).any(|node| operator(&node.op).is_some_and(|o| (o.further.targets)(&node.with)))
}
