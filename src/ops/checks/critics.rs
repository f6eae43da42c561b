//! Checks a node that has a critic rank its actions: the critic must have actions to rank, must stay frozen, and
//! nothing may take a policy gradient of the actions it chose.

use super::remote::remote;
use super::upstream::upstream;
use crate::ops::is;
use flow_pipeline::{Mistake, Node, Pipeline, Role};
use flow_rollout::action::Decode;
use flow_rollout::agent::Agent;
use flow_rollout::settings::Actor;

/// A policy gradient of actions that a critic chose: the log-probabilities of such rows are those of the choice among
/// scores (0 at temperature 0), and a ratio to them says nothing of how the policy has changed.
pub fn update_mistake(node: &Node, pipeline: &Pipeline) -> Option<Mistake> {
    let ranked = |n: &&Node| n.all().any(|n| is(n, Role::Plays) && n.with.names("critic").is_some());
    let plays = upstream(pipeline, node).find(ranked)?;
    let message = format!("a critic chose the actions of `{}`, and a policy gradient needs the policy's own draws", plays.id);
    let help = "imitate them, `objective: sft`, or leave `critic` out there";
    Some(Mistake::in_node(node, &["with", "objective"], message).help(help))
}

/// Checks a node's use of a critic.
pub fn mistakes(node: &Node, pipeline: &Pipeline, agent: &Agent, actor: Actor) -> Vec<Mistake> {
    let at = |setting: &str, message: String, help: &str| Mistake::in_node(node, &["with", "agent", setting], message).help(help);
    let Some(critic) = &agent.critic else {
        let idle = "`rank` says how a critic's values count, and no critic is named".to_owned();
        return agent.rank.iter().map(|_| at("rank", idle.clone(), "name a model with `head: value`: `critic: critic`")).collect();
    };
    let mut mistakes = Vec::new();
    if agent.decode == Decode::Free {
        let message = format!("`{critic}` ranks the admissible actions, and with `decode: free` anything can be written");
        mistakes.push(at("critic", message, "write `decode: constrained`, or leave `critic` out"));
    }
    // Where the expert chooses, nothing is ranked.
    if actor == Actor::Expert {
        return mistakes;
    }
    for key in ["top_p", "top_k", "min_p"].into_iter().filter(|key| node.with.raw()["agent"].get(key).is_some()) {
        let message = format!("`{key}` has no meaning beside `critic`, which takes an action by its score");
        mistakes.push(at(key, message, "leave it out; `rank: { temperature: ... }` draws by the scores"));
    }
    if let Some(learns) = pipeline.all().find(|n| is(n, Role::Learns) && n.model() == Some(critic)) {
        let message = format!("`{}` trains `{critic}`, and a critic that ranks stays as it is", learns.id);
        mistakes.push(at("critic", message, "train it in a pipeline of its own, and load that run here: `{ load: RUN }`"));
    }
    if let Some(model) = node.model().filter(|model| pipeline.models.get(*model).is_some_and(remote)) {
        let message = format!("a server runs `{model}`, which can't say how likely it finds each action");
        mistakes.push(at("critic", message, "leave `critic` out, or name a model with `load` or `new`"));
    }
    mistakes
}
