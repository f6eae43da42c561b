//! Checks models that a server runs: they can act and reflect, but their weights aren't here, and their rows aren't in
//! the tokens of a local model.

use super::upstream::{answers, named, writers, BY_NAME};
use flow_pipeline::{Mistake, Node, Pipeline, MODEL};
use serde_json::Value;

/// Whether these are the settings of a model that a server runs.
pub fn remote(model: &Value) -> bool {
    model["openai"].is_string()
}

/// Nodes that use such a model for more than generation, and nodes whose own model would have to read the tokens of
/// such a model.
pub fn mistakes(pipeline: &Pipeline) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for node in pipeline.all() {
        for named in node.with.models().filter(|named| elsewhere(pipeline, &named.name)) {
            if [MODEL, BY_NAME].contains(&named.role()) && answers(node) {
                continue;
            }
            let (name, role) = (&named.name, named.role());
            let message = format!("a server runs `{name}`, whose weights aren't here, so `{}` can't use it as `{role}`", node.id);
            let help = "what a server runs can act, reflect and be evaluated; name a model with `load` or `new`";
            let path: Vec<&str> = std::iter::once("with").chain(named.path.iter().map(String::as_str)).collect();
            mistakes.push(Mistake::in_node(node, &path, message).help(help));
        }
        let Some(own) = node.model().filter(|name| !answers(node) && !elsewhere(pipeline, name)) else { continue };
        let theirs = |writer: &Node| writer.model().filter(|name| elsewhere(pipeline, name)).map(String::from);
        let written = writers(pipeline, node).into_iter().filter(|writer| named(writer).all(|name| name != own));
        if let Some((writer, theirs)) = written.filter_map(|writer| Some((&writer.id, theirs(writer)?))).next() {
            let message =
                format!("`{}` reads rows of `{writer}`, and those are written by `{theirs}`, not in the tokens of `{own}`", node.id);
            let help = "measure that model without learning from its rows, or leave them out of the `output` of their loop";
            mistakes.push(Mistake::in_node(node, &["inputs"], message).help(help));
        }
    }
    mistakes
}

fn elsewhere(pipeline: &Pipeline, name: &str) -> bool {
    pipeline.models.get(name).is_some_and(remote)
}
