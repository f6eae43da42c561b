//! What a `rollout` asks for in vain: what has no meaning where it stands, and a number of groups that can't be reached.

use super::groups::ambiguous;
use super::is;
use super::recall;
use super::tasks;
use crate::memory::By;
use crate::pipeline::{Input, Node, Pipeline, Role, Wrong};

/// What a `rollout` asks for.
pub struct Asked {
    /// So many groups of trajectories.
    pub groups: Option<u32>,
    /// Whether its trajectories can differ: several are played, by the policy.
    pub differ: bool,
    /// How a memory is read, if it is.
    pub by: Option<By>,
}

/// All that the node asks for in vain.
pub fn wrong(node: &Node, pipeline: &Pipeline, asked: &Asked) -> Vec<Wrong> {
    let Asked { groups, differ, by } = *asked;
    match pipeline.around(&node.id) {
        Some(around) => {
            let mut found = idle(node, &["groups"], &format!("has no meaning in the loop `{}`, which plays all tasks", around.id));
            let why = format!("has no meaning in the loop `{}`, where attempts are told of one another", around.id);
            found.extend(idle(node, &["retrieve"], &why));
            let outside = |input: &&Input| input.port == "memory" && pipeline.around(&input.from).is_none_or(|other| other.id != around.id);
            if let Some(input) = node.inputs.iter().find(outside) {
                let message = format!("in the loop `{}` attempts are told of one another, and `{}` stands outside", around.id, input.from);
                let help = "read a memory where there is no loop, or leave `memory` out";
                found.push(Wrong::in_node(node, &["inputs", "memory"], message).help(help));
            }
            found
        }
        None => {
            let mut found =
                idle(node, &["keep", "budget", "notes"], "has no meaning outside a loop, where a task is played in one attempt");
            found.extend(no_next_attempt(node, pipeline).or_else(|| recall::wrong(node, pipeline, by)));
            found.extend(groups.and_then(|groups| unreachable(node, pipeline, groups, differ)));
            found.extend(ambiguous(node, pipeline).filter(|_| groups.is_some()));
            found
        }
    }
}

/// These settings of the node, if they are given.
fn idle(node: &Node, settings: &[&str], why: &str) -> Vec<Wrong> {
    let given = settings.iter().filter(|name| node.with.gives(name));
    given.map(|name| Wrong::in_node(node, &["with", name], format!("`{name}` {why}")).help("leave it out")).collect()
}

/// An input that only a next attempt reads.
fn no_next_attempt(node: &Node, pipeline: &Pipeline) -> Option<Wrong> {
    let input = node.inputs.iter().find(|input| input.port == recall::PORT)?;
    if pipeline.node(&input.from).is_some_and(|from| is(from, Role::Remembers)) {
        return None;
    }
    let message = format!("`memory` is what the next attempt is told, and `{}` stands in no loop", node.id);
    let help = format!("put `{}` and `{}` into a node with `loop: {{ attempts: 3 }}`, or leave `memory` out", node.id, input.from);
    Some(Wrong::in_node(node, &["inputs", recall::PORT], message).help(help))
}

/// More groups than there are tasks, or of trajectories that can't differ.
fn unreachable(node: &Node, pipeline: &Pipeline, groups: u32, differ: bool) -> Option<Wrong> {
    let source = node.inputs.iter().find(|input| input.port == "tasks")?;
    let batch = pipeline.nodes.iter().find(|n| n.id == source.from).and_then(tasks::batch);
    let at = |message: String| Wrong::in_node(node, &["with", "groups"], message);
    if !differ {
        Some(at("`groups` needs trajectories that can differ: two samples or more, played by the policy".into()))
    } else if let Some(batch) = batch.filter(|batch| *batch < groups as usize) {
        let help = format!("give `{}` a `batch` above {groups}, so that there are tasks to play in place of dull ones", source.from);
        Some(at(format!("`groups` is {groups}, but `{}` makes no more than {batch} tasks", source.from)).help(help))
    } else {
        None
    }
}
