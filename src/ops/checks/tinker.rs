//! Models that learn on a server of Tinker's protocol: it has log-probabilities at temperature 1 of the whole vocabulary,
//! and nothing else of a distribution.

use super::upstream::{named, trains_on};
use crate::ops::is;
use flow_pipeline::{Mistake, Node, Pipeline, Role};
use serde_json::Value;

/// What such a server can't compute, where a node asks for it.
pub fn mistakes(pipeline: &Pipeline) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (name, _) in pipeline.models.iter().filter(|(_, model)| model["train"]["tinker"].is_string()) {
        let asks = |node: &&Node| node.model() == Some(name) || named(node).any(|other| other == name);
        for node in pipeline.all().filter(asks) {
            let found = if is(node, Role::Learns) { update_mistakes(node, name) } else { written(pipeline, node, name) };
            mistakes.extend(found);
        }
    }
    mistakes
}

/// Settings of an update that such a server doesn't have.
fn update_mistakes(node: &Node, model: &str) -> Vec<Mistake> {
    let with = node.with.raw();
    let number = |key: &str, default: f64| with[key].as_f64().unwrap_or(default);
    let mistake = |at: &str, what: String, help: &str| Mistake::in_node(node, &["with", at], what).help(help);
    let mut mistakes = Vec::new();
    if number("entropy", 0.0) != 0.0 {
        let what = format!("`{model}` learns on a server that has log-probabilities and no entropies");
        mistakes.push(mistake("entropy", what, "leave `entropy` out"));
    }
    if number("temperature", 1.0) != 1.0 {
        let what = format!("`{model}` learns on a server that has log-probabilities at temperature 1 alone");
        mistakes.push(mistake("temperature", what, "leave `temperature` out"));
    }
    if number("max_grad_norm", 1.0) != 0.0 {
        let what = format!("`{model}` learns on a server that may ignore `max_grad_norm` without a word, as SkyRL does");
        mistakes.push(mistake("max_grad_norm", what, "write `max_grad_norm: 0`"));
    }
    if with["weight_decay_of"].as_object().is_some_and(|of| !of.is_empty()) {
        let what = format!("`{model}` learns on a server that has one `weight_decay` for all matrices");
        mistakes.push(mistake("weight_decay_of", what, "leave it out"));
    }
    mistakes
}

/// A node that writes, or ranks, in a way that such a server can't weigh.
fn written(pipeline: &Pipeline, node: &Node, model: &str) -> Vec<Mistake> {
    let with = node.with.raw();
    let agent = &with["agent"];
    let free = is(node, Role::Reflects) || agent["decode"] == "free";
    if is(node, Role::Plays) && !free && with["actor"] != "expert" {
        let what =
            format!("`{}` chooses among listed actions, and `{model}` learns on a server that knows the whole vocabulary alone", node.id);
        return vec![Mistake::in_node(node, &["with", "agent", "decode"], what).help("write `decode: free`")];
    }
    let given = |of: &Value| of["temperature"].as_f64();
    let Some(temperature) = given(with).or(given(agent)).filter(|temperature| *temperature != 1.0) else { return vec![] };
    if temperature == 0.0 && !trains_on(pipeline, node) {
        return vec![];
    }
    let what = format!(
        "`{}` samples at {temperature}, and `{model}` learns on a server that has log-probabilities at temperature 1 alone",
        node.id
    );
    let at: &[&str] = if given(with).is_some() { &["with", "temperature"] } else { &["with", "agent", "temperature"] };
    vec![Mistake::in_node(node, at, what).help("sample at 1")]
}

#[cfg(test)]
mod tests {
    use crate::ops;

    /// What is wrong with a pipeline whose agent and update say this.
    fn wrong(agent: &str, with: &str) -> String {
        let text = format!(
            "flow: x\niterations: 1\nmodels: {{ actor: {{ load: ., lora: {{ rank: 1, alpha: 32 }}, train: {{ tinker: \"http://127.0.0.1:1\" }} }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 3{agent} }} }} }}\n  \
             group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}\n  \
             advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}\n  \
             update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor{with} }} }}\n"
        );
        flow_pipeline::parse("x", &text, &[], &ops::catalog()).map_or_else(|wrong| wrong.to_string(), |_| String::new())
    }

    #[test]
    fn what_such_a_server_lacks_is_refused_where_it_is_said() {
        let (free, plain) = (", decode: free", ", max_grad_norm: 0");
        assert_eq!(wrong(free, plain), "");
        assert!(wrong(free, "").contains("write `max_grad_norm: 0`"));
        assert!(wrong(free, ", max_grad_norm: 0, entropy: 0.1").contains("no entropies"));
        assert!(wrong(free, ", max_grad_norm: 0, temperature: 0.7").contains("leave `temperature` out"));
        assert!(wrong(free, ", max_grad_norm: 0, weight_decay_of: { lora_A: 0.1 }").contains("one `weight_decay`"));
        assert!(wrong(", decode: free, temperature: 0.7", plain).contains("samples at 0.7"));
        assert!(wrong(", decode: free, temperature: 0", plain).contains("samples at 0"));
        assert!(wrong(", decode: constrained", plain).contains("write `decode: free`"));
    }
}
