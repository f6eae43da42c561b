//! Checks a `rollout`'s settings against where it stands: settings without meaning inside or outside a loop, and a
//! number of groups that can't be reached.

use crate::ops::episodes::reward_chain::ambiguous;
use crate::ops::memories::reading;
use crate::ops::operator::settings;
use crate::ops::{is, tasks};
use flow_pipeline::{Input, Mistake, Node, Pipeline, Role, Until};
use flow_rollout::agent::Agent;
use flow_rollout::context::SourceSettings;
use flow_rollout::exchange::NotesOwner;
use flow_rollout::settings::{On, ReflectionSettings};

/// The settings of a `rollout` that its place in the pipeline must allow.
pub struct RolloutNeeds<'a> {
    /// The number of groups of trajectories, where dynamic sampling is on.
    pub groups: Option<u32>,
    /// Whether its trajectories of a task can differ: there are several, and the policy plays.
    pub differ: bool,
    /// The agent that plays.
    pub agent: &'a Agent,
}

/// The inputs of a rollout that are no memories: `memory` is one where there is no loop.
const FIXED: [&str; 2] = ["tasks", "weights"];

/// All settings of the node that its place doesn't allow.
pub fn mistakes(node: &Node, pipeline: &Pipeline, needs: &RolloutNeeds) -> Vec<Mistake> {
    let RolloutNeeds { groups, differ, agent } = *needs;
    match pipeline.around(&node.id) {
        Some(around) => {
            let mut mistakes = idle(node, &["groups"], &format!("has no meaning in the loop `{}`, which plays all tasks", around.id));
            let outside = |input: &&Input| {
                !FIXED.contains(&input.port.as_str())
                    && !agent.by_name.contains(&input.port)
                    && pipeline.around(&input.from).is_none_or(|other| other.id != around.id)
            };
            if let Some(input) = node.inputs.iter().find(outside) {
                let message = format!("in the loop `{}` attempts read notes on earlier ones; `{}` stands outside", around.id, input.from);
                let help = "read a memory where there is no loop, or leave it out";
                mistakes.push(Mistake::in_node(node, &["inputs", &input.port], message).help(help));
            }
            mistakes.extend(unfollowed(node, around, agent));
            mistakes
        }
        None => {
            let mut mistakes = Vec::new();
            if let Some(i) = agent.context.iter().position(|source| matches!(source, SourceSettings::Notes(_))) {
                let message = format!("`notes` has no meaning for `{}`, which stands in no loop: a task is played in one attempt", node.id);
                let at = ["with", "agent", "context", &i.to_string()];
                mistakes.push(Mistake::in_node(node, &at, message).help("leave it out, or give the node another agent"));
            }
            let memories = reading::mistakes(node, pipeline, agent, &FIXED);
            let next = no_next_attempt(node, pipeline);
            mistakes.extend(if next.is_some() { next.into_iter().collect() } else { memories });
            mistakes.extend(groups.and_then(|groups| unreachable(node, pipeline, groups, differ)));
            mistakes.extend(ambiguous(node, pipeline).filter(|_| groups.is_some()));
            mistakes
        }
    }
}

/// Attempts that wait for the notes of trials that don't go on: a won attempt without a reflection has no next one.
fn unfollowed(node: &Node, around: &Node, agent: &Agent) -> Option<Mistake> {
    let body = around.body.as_ref().filter(|body| body.until == Until::Never && agent.notes().notes == NotesOwner::Another)?;
    let from = node.inputs.iter().find(|input| input.port == "memory").and_then(|input| body.node(&input.from))?;
    settings::<ReflectionSettings>(from).ok().filter(|with| is(from, Role::Reflects) && with.on == On::Failure)?;
    let message = format!(
        "attempts wait for the notes of one another, and with `on: failure` a won attempt has no next one, though `{}` goes on",
        around.id
    );
    Some(Mistake::in_node(from, &["with", "on"], message).help("write `on: always`, or `until: won` in the loop"))
}

/// A mistake for each of these settings that is present.
fn idle(node: &Node, settings: &[&str], why: &str) -> Vec<Mistake> {
    let present = settings.iter().filter(|name| node.with.gives(name));
    present.map(|name| Mistake::in_node(node, &["with", name], format!("`{name}` {why}")).help("leave it out")).collect()
}

/// An input that only a further attempt would read.
fn no_next_attempt(node: &Node, pipeline: &Pipeline) -> Option<Mistake> {
    let input = node.inputs.iter().find(|input| input.port == "memory")?;
    let reflects = |from: &Node| from.makers().iter().any(|maker| is(maker, Role::Reflects) || is(maker, Role::Plays));
    if !pipeline.node(&input.from).is_some_and(reflects) {
        return None;
    }
    let message = format!("`memory` holds notes for the next attempt, and `{}` stands in no loop", node.id);
    let help = format!("put `{}` and `{}` into a node with `loop: {{ attempts: 3 }}`, or leave `memory` out", node.id, input.from);
    Some(Mistake::in_node(node, &["inputs", "memory"], message).help(help))
}

/// More groups than tasks, or groups of trajectories that can't differ.
fn unreachable(node: &Node, pipeline: &Pipeline, groups: u32, differ: bool) -> Option<Mistake> {
    let source = node.inputs.iter().find(|input| input.port == "tasks")?;
    let batch = pipeline.nodes.iter().find(|n| n.id == source.from).and_then(tasks::batch);
    let at = |message: String| Mistake::in_node(node, &["with", "groups"], message);
    if !differ {
        Some(at("`groups` needs trajectories that can differ: two samples or more, played by the policy".into()))
    } else if let Some(batch) = batch.filter(|batch| *batch < groups as usize) {
        let help = format!("give `{}` a `batch` above {groups}, so that there are tasks to play in place of dull ones", source.from);
        Some(at(format!("`groups` is {groups}, but `{}` makes no more than {batch} tasks", source.from)).help(help))
    } else {
        None
    }
}
