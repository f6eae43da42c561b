//! Checks that each model has the head its nodes need: a policy writes, a critic estimates values, and something must
//! produce the targets a critic learns from.

use super::upstream::upstream;
use super::upstream::BY_NAME;
use crate::ops::{is, operator, RequiredHead};
use flow_pipeline::{Mistake, Named, Node, Pipeline, Role, BASE, MODEL};
use serde_json::Value;

/// Nodes that use a critic to write or a policy to estimate values, and critics whose targets nothing produces.
pub fn mistakes(pipeline: &Pipeline) -> Vec<Mistake> {
    let mut mistakes = encoders(pipeline);
    for node in pipeline.all() {
        mistakes.extend(node.with.models().filter(|named| named.role() == "critic").filter_map(|named| valueless(pipeline, node, named)));
        let Some(required) = operator(&node.op).and_then(|o| (o.hooks.head)(&node.with)) else { continue };
        for named in node.with.models().filter(|named| [MODEL, BY_NAME].contains(&named.role())) {
            let value = pipeline.models.get(&named.name).is_some_and(|settings| head(pipeline, settings) == Some("value"));
            if value && required == RequiredHead::Language {
                let message = format!("`{}` has a value head and writes nothing, so `{}` can't use it", named.name, node.id);
                mistakes.push(mistake_at(node, named, message).help("name a model without `head: value`"));
            }
            mistakes.extend((required == RequiredHead::Value).then(|| valueless(pipeline, node, named)).flatten());
        }
        if required == RequiredHead::Value && is(node, Role::Learns) && !targeted(pipeline, node) {
            let message = format!("`{}` learns values, and no node before it makes the column `value_target`", node.id);
            mistakes.push(Mistake::in_node(node, &["inputs"], message).help("an `advantage` with `of: gae` makes it, or a `derive`"));
        }
    }
    mistakes
}

/// The head that a model with these settings has, as far as they say it: its own, or that of the model on whose base it
/// is.
fn head<'a>(pipeline: &'a Pipeline, settings: &'a Value) -> Option<&'a str> {
    let base = || head(pipeline, pipeline.models.get(settings[BASE].as_str()?).filter(|base| base[BASE].is_null())?);
    settings["head"].as_str().or(settings["new"].is_string().then_some("language")).or_else(base)
}

/// A mistake in a setting that names a model.
fn mistake_at(node: &Node, named: &Named, message: String) -> Mistake {
    let path: Vec<&str> = std::iter::once("with").chain(named.path.iter().map(String::as_str)).collect();
    Mistake::in_node(node, &path, message)
}

/// A setting of the node that requires a critic and names a model without a value head.
fn valueless(pipeline: &Pipeline, node: &Node, named: &Named) -> Option<Mistake> {
    let (model, settings) = pipeline.models.get_key_value(&named.name)?;
    // A saved model may have a value head.
    if head(pipeline, settings).is_none_or(|head| head == "value") {
        return None;
    }
    let message = format!("`{}` needs a critic, and `{model}` has no value head", node.id);
    Some(mistake_at(node, named, message).help(format!("give it one: `{model}: {{ ..., head: value }}`")))
}

/// Nodes that use an encoder to write, or a policy to embed texts.
fn encoders(pipeline: &Pipeline) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (node, named) in pipeline.all().flat_map(|node| node.with.models().map(move |named| (node, named))) {
        let Some((name, settings)) = pipeline.models.get_key_value(&named.name) else { continue };
        let (encodes, needs_encoder) = (settings["encode"].is_string(), named.role() == "encoder");
        if encodes && !needs_encoder {
            let message = format!("`{name}` is an encoder, which only reads, so `{}` can't use it as `{}`", node.id, named.role());
            mistakes.push(mistake_at(node, named, message).help("name a model with `load` or `new`"));
        } else if !encodes && needs_encoder {
            let message = format!("`{}` needs an encoder, and `{name}` isn't one", node.id);
            mistakes.push(mistake_at(node, named, message).help(format!("make it one: `{name}: {{ encode: FOLDER }}`")));
        }
    }
    mistakes
}

/// Whether a node that produces `value_target` is upstream.
fn targeted(pipeline: &Pipeline, node: &Node) -> bool {
    upstream(pipeline, node).any(|node| operator(&node.op).is_some_and(|o| (o.hooks.targets)(&node.with)))
}
