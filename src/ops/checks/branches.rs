//! Checks a node whose agent chooses among several answers of its own: they must differ, the policy must be able to
//! value them, and nothing may take a policy gradient of the chosen answers.

use super::remote::remote;
use super::upstream::upstream;
use crate::ops::is;
use flow_pipeline::{Mistake, Node, Pipeline, Role};
use flow_rollout::agent::Agent;
use flow_rollout::branches::tried;

/// Whether the node's agent has branches.
pub fn has(node: &Node) -> bool {
    !node.with.raw()["agent"]["branches"].is_null()
}

/// A policy gradient of answers that were chosen among several: the log-probabilities of such rows are those of a draw,
/// and the choice isn't in them.
pub fn update_mistake(node: &Node, pipeline: &Pipeline) -> Option<Mistake> {
    let branched = |n: &&Node| n.all().any(|n| is(n, Role::Plays) && has(n));
    let plays = upstream(pipeline, node).find(branched)?;
    let message = format!("the answers of `{}` were chosen among several, and a policy gradient needs the policy's own draws", plays.id);
    let help = "imitate them, `objective: sft`, or leave `branches` out there";
    Some(Mistake::in_node(node, &["with", "objective"], message).help(help))
}

/// Checks a node's use of branches.
pub fn mistakes(node: &Node, pipeline: &Pipeline, agent: &Agent) -> Vec<Mistake> {
    let Some(settings) = &agent.branches else { return vec![] };
    let at = |setting: &str, message: String, help: &str| {
        let path: Vec<&str> = ["with", "agent", "branches"].into_iter().chain((!setting.is_empty()).then_some(setting)).collect();
        Mistake::in_node(node, &path, message).help(help)
    };
    let mut mistakes = Vec::new();
    if agent.critic.is_some() {
        let message = "a critic takes an action in place of the policy, so there is nothing to choose among".to_owned();
        mistakes.push(at("", message, "leave `branches` out, or `critic`"));
    }
    let temperature = node.with.raw()["temperature"].as_f64().or(agent.temperature);
    if temperature == Some(0.0) {
        let message = "at temperature 0 the policy gives the same answer each time".to_owned();
        mistakes.push(at("", message, "give it a temperature above 0, or leave `branches` out"));
    }
    for (setting, other, given) in [("ask", "say", &settings.say), ("say", "ask", &settings.ask)] {
        let lone = given.is_none() && if setting == "ask" { settings.ask.is_some() } else { settings.say.is_some() };
        if lone {
            let message = format!("a branch is worth how likely `say` is behind `ask`, and there is no `{other}`");
            mistakes.push(at(setting, message, "give both, or neither: then it is worth how likely its own answer is"));
        }
    }
    if let Err((setting, error)) = tried(agent, settings) {
        mistakes.push(at(setting, format!("{setting}: {error}"), error.help()));
    }
    if let Some(model) = node.model().filter(|model| settings.ask.is_some() && pipeline.models.get(*model).is_some_and(remote)) {
        let message = format!("a server runs `{model}`, which can't say how likely it finds a text");
        mistakes.push(at("ask", message, "leave `ask` and `say` out, or name a model with `load` or `new`"));
    }
    mistakes
}
