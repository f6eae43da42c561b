//! What a `rollout` asks for in vain: what has no meaning where it stands, and a number of groups that can't be reached.

use super::how::Actor;
use super::rollout::Rollout;
use super::settings;
use crate::pipeline::{Node, Pipeline, Wrong};

/// All that the node asks for in vain.
pub fn wrong(node: &Node, pipeline: &Pipeline) -> Vec<Wrong> {
    match pipeline.around(&node.id) {
        Some(around) => idle(node, &["groups"], &format!("has no meaning in the loop `{}`, which plays all tasks", around.id)),
        None => {
            let mut found = idle(node, &["keep", "budget"], "has no meaning outside a loop, where a task is played in one attempt");
            found.extend(untold(node));
            found.extend(unreachable(node, pipeline));
            found
        }
    }
}

/// These settings of the node, if they are given.
fn idle(node: &Node, settings: &[&str], why: &str) -> Vec<Wrong> {
    let given = settings.iter().filter(|name| node.with.get(name).is_some());
    let wrong = |name: &&str| Wrong {
        at: ["nodes", &node.id, "with", name].map(String::from).to_vec(),
        message: format!("`{name}` {why}"),
        help: Some("leave it out".into()),
    };
    given.map(wrong).collect()
}

/// An input that only a next attempt reads.
fn untold(node: &Node) -> Option<Wrong> {
    node.inputs.iter().find(|input| input.port == "memory").map(|input| Wrong {
        at: ["nodes", &node.id, "inputs", "memory"].map(String::from).to_vec(),
        message: format!("`memory` is what the next attempt is told, and `{}` stands in no loop", node.id),
        help: Some(format!("put `{}` and `{}` into a node with `loop: {{ attempts: 3 }}`, or leave `memory` out", node.id, input.from)),
    })
}

/// More groups than there are tasks, or of trajectories that can't differ.
fn unreachable(node: &Node, pipeline: &Pipeline) -> Option<Wrong> {
    let with = settings::<Rollout>(node).ok()?;
    let groups = with.groups?;
    let source = node.inputs.iter().find(|input| input.port == "tasks")?;
    let batch = pipeline.nodes.iter().find(|n| n.id == source.from).and_then(|n| n.with["batch"].as_u64());
    let (message, help) = if with.actor == Actor::Expert || with.samples < 2 {
        ("`groups` needs trajectories that can differ: two samples or more, played by the policy".into(), None)
    } else if let Some(batch) = batch.filter(|batch| *batch < groups.into()) {
        let help = format!("give `{}` a `batch` above {groups}, so that there are tasks to play in place of dull ones", source.from);
        (format!("`groups` is {groups}, but `{}` makes no more than {batch} tasks", source.from), Some(help))
    } else {
        return None;
    };
    Some(Wrong { at: ["nodes", &node.id, "with", "groups"].map(String::from).to_vec(), message, help })
}
