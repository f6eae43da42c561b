//! What a model must have for which a server generates while it learns here: an adapter, which is all that the server is told, and
//! log-probabilities that the update can take.

use crate::ops::is;
use crate::pipeline::{Node, Pipeline, Role, Wrong};
use serde_json::Value;

/// Models that a server can't generate for, and nodes whose rows would have other log-probabilities than they were drawn with.
pub fn wrong(pipeline: &Pipeline) -> Vec<Wrong> {
    let mut found = Vec::new();
    for (name, model) in pipeline.models.iter().filter(|(_, model)| model["serve"].is_object()) {
        if model["lora"].is_null() && model["adapter"].is_null() {
            let at = ["models", name, "serve"].map(String::from).to_vec();
            let message = format!("a server is told of the adapters of `{name}`, and it has none");
            found.push(Wrong { at, message, help: None }.help(format!("`{name}: {{ load: ..., lora: {{ rank: 16 }}, serve: ... }}`")));
        }
        if model["serve"]["tempered"] != Value::Bool(true) {
            found.extend(pipeline.all().filter(|node| node.model() == Some(name)).filter_map(|node| tempered(node, name)));
        }
    }
    found
}

/// That `node` samples at another temperature than the one that the server's log-probabilities are at.
fn tempered(node: &Node, model: &str) -> Option<Wrong> {
    let with = node.with.given();
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
