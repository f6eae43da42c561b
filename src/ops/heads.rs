//! Which models can do what is asked of them: a policy writes, a critic values, and what a critic learns has to be made.

use crate::pipeline::{Node, Pipeline, Wrong};
use serde_json::Value;

/// Nodes that ask a critic to write or a policy to value, and critics that learn what nothing makes.
pub fn wrong(pipeline: &Pipeline) -> Vec<Wrong> {
    let mut found = Vec::new();
    for node in pipeline.all() {
        let critic = node.op == "value" || learns_values(node);
        let model = node.with["model"].as_str().unwrap_or_default();
        let asked = critic || matches!(node.op.as_str(), "rollout" | "reflect" | "evaluate" | "gpu-update");
        let Some(settings) = pipeline.models.get(model).filter(|_| asked) else { continue };
        match settings["head"].as_str() {
            Some("value") if !critic => found.push(Wrong {
                at: ["nodes", &node.id, "with", "model"].map(String::from).to_vec(),
                message: format!("`{model}` has a value head and writes nothing, so `{}` can't use it", node.id),
                help: Some("name a model without `head: value`".into()),
            }),
            // What was saved may have a value head.
            None | Some("language") if critic && (settings["head"].is_string() || settings["new"].is_string()) => found.push(Wrong {
                at: ["nodes", &node.id, "with", "model"].map(String::from).to_vec(),
                message: format!("`{}` needs a critic, and `{model}` has no value head", node.id),
                help: Some(format!("give it one: `{model}: {{ ..., head: value }}`")),
            }),
            _ => {}
        }
        if learns_values(node) && !targeted(pipeline, node) {
            found.push(Wrong {
                at: ["nodes", &node.id, "inputs"].map(String::from).to_vec(),
                message: format!("`{}` learns values, and no `advantage` before it makes the column `value_target`", node.id),
                help: Some("an `advantage` with `of: gae` makes it".into()),
            });
        }
    }
    found
}

fn learns_values(node: &Node) -> bool {
    node.op == "gpu-update" && node.with["objective"] == "value"
}

/// Whether an advantage of the kind that makes `value_target` lies on the way of the rows.
fn targeted(pipeline: &Pipeline, node: &Node) -> bool {
    let mut here = node;
    // A pipeline's main inputs make no cycle; the bound is for one that isn't checked yet.
    for _ in 0..pipeline.nodes.len() {
        if here.op == "advantage" && here.with.get("of").and_then(Value::as_str) == Some("gae") {
            return true;
        }
        let Some(next) = here.inputs.iter().find(|e| e.port != "weights").and_then(|e| pipeline.node(&e.from)) else { return false };
        here = next;
    }
    false
}
