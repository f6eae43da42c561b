//! Checks models that learn here while a server generates for them: they need an adapter, which is all that the server is sent, and
//! log-probabilities that the update can use.

use super::upstream::named;
use crate::ops::is;
use crate::pipeline::{Node, Pipeline, Role, Wrong};
use serde_json::Value;

/// Models that a server can't generate for, and nodes whose rows would get log-probabilities at another temperature than they were sampled
/// at.
pub fn wrong(pipeline: &Pipeline) -> Vec<Wrong> {
    let mut mistakes = Vec::new();
    for (name, model) in pipeline.models.iter().filter(|(_, model)| model["serve"].is_object()) {
        if model["lora"].is_null() && model["adapter"].is_null() {
            let at = ["models", name, "serve"].map(String::from).to_vec();
            let message = format!("a server is told of the adapters of `{name}`, and it has none");
            mistakes.push(Wrong { at, message, help: None }.help(format!("`{name}: {{ load: ..., lora: {{ rank: 16 }}, serve: ... }}`")));
        }
        if model["serve"]["tempered"] != Value::Bool(true) {
            mistakes.extend(
                pipeline
                    .all()
                    .filter(|node| node.model() == Some(name) || named(node).any(|other| other == name))
                    .filter_map(|node| tempered(node, name)),
            );
        }
    }
    mistakes
}

/// A `node` that samples at another temperature than that of the server's log-probabilities.
fn tempered(node: &Node, model: &str) -> Option<Wrong> {
    let with = node.with.raw();
    let agent = &with["agent"];
    // Where actions are ranked the draw is made here; an expert's rows have no draw.
    let written = is(node, Role::Reflects) || is(node, Role::Plays) && agent["decode"] == "free";
    let temperature =
        with["temperature"].as_f64().or(agent["temperature"].as_f64()).filter(|temperature| ![0.0, 1.0].contains(temperature))?;
    if !written || with["actor"] == "expert" {
        return None;
    }
    let message = format!(
        "a server generates for `{model}` and tells log-probabilities at temperature 1, and `{}` samples at {temperature}",
        node.id
    );
    let help = "sample at 1, or start vLLM with `--logprobs-mode processed_logprobs` and write `tempered: true` into `serve`";
    Some(Wrong::in_node(node, &["with", "temperature"], message).help(help))
}
