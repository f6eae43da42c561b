//! The nodes that change rewards between a `rollout` with `groups` and the node that compares its rows: dynamic
//! sampling judges a task by those rewards, not by the environment's own.

use crate::ops::operator;
use arrow::array::RecordBatch;
use flow_dataflow::Failed;
use flow_pipeline::{Mistake, Node, Pipeline};

/// The nodes that change rewards between `rollout` and the node that compares its rows, in the order of the rows' path.
pub fn weighing<'a>(rollout: &Node, pipeline: &'a Pipeline) -> Vec<&'a Node> {
    let mut chain: Vec<&Node> = Vec::new();
    while let [next] = readers(chain.last().map_or(&rollout.id, |node| &node.id), pipeline)[..] {
        chain.push(next);
    }
    chain
}

/// The nodes that read the rows of `from` and change their rewards.
fn readers<'a>(from: &str, pipeline: &'a Pipeline) -> Vec<&'a Node> {
    let weighs = |node: &Node| operator(&node.op).is_some_and(|operator| operator.hooks.weighs.is_some());
    let reads = |node: &Node| node.inputs.iter().any(|input| input.from == from && input.staleness.is_none());
    pipeline.nodes.iter().filter(|node| weighs(node) && reads(node)).collect()
}

/// Applies the rewards of these nodes to the rows.
pub fn weighed(chain: &[Node], rows: &[RecordBatch]) -> Result<Vec<RecordBatch>, Failed> {
    let mut rows = rows.to_vec();
    for node in chain {
        if let Some(weighs) = operator(&node.op).and_then(|operator| operator.hooks.weighs) {
            rows = weighs(node, &rows)?;
        }
    }
    Ok(rows)
}

/// A mistake where several nodes each change the rewards: it is ambiguous which of them decides whether a task counts.
pub fn ambiguous(rollout: &Node, pipeline: &Pipeline) -> Option<Mistake> {
    let last = weighing(rollout, pipeline).last().map_or(rollout.id.clone(), |node| node.id.clone());
    let several = readers(&last, pipeline);
    let names: Vec<String> = several.iter().map(|node| format!("`{}`", node.id)).collect();
    let message =
        format!("`groups` counts tasks whose returns differ, and {} each weigh the rewards in their own way", names.join(" and "));
    let help = "let one of them weigh what the other reads, or leave `groups` out";
    (several.len() > 1).then(|| Mistake::in_node(rollout, &["with", "groups"], message).help(help))
}

#[cfg(test)]
mod tests {
    use crate::ops;
    use arrow::array::{ArrayRef, BooleanArray, Float32Array, RecordBatch, StringArray, UInt32Array};
    use flow_core::row;
    use flow_rollout::dynamic_sampling::telling;
    use std::sync::Arc;

    fn text(rewards: &str, compared: &str) -> String {
        format!(
            "flow: x\niterations: 1\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 3 }}, groups: 2 }} }}\n\
             {rewards}  group: {{ op: group, inputs: {compared}, with: {{ by: [task] }} }}\n  \
             advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}\n  \
             update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor }} }}\n"
        )
    }

    /// Two lost games of one task, with rewards -2 and -1 from the environment.
    fn lost() -> RecordBatch {
        let u32s = |values: [u32; 2]| Arc::new(UInt32Array::from(values.to_vec())) as ArrayRef;
        let texts = |text: &str| Arc::new(StringArray::from(vec![text; 2])) as ArrayRef;
        let rows = row::batch(vec![
            ("task", texts("a")),
            ("sample", u32s([0, 1])),
            ("attempt", u32s([0, 0])),
            ("turn", u32s([0, 0])),
            ("phase", texts("play")),
            ("action", texts("(1, 1)")),
            ("valid", Arc::new(BooleanArray::from(vec![true, true]))),
            ("won", Arc::new(BooleanArray::from(vec![false, false]))),
            ("reward", Arc::new(Float32Array::from(vec![-2.0, -1.0]))),
        ]);
        rows.unwrap()
    }

    #[test]
    fn a_task_is_judged_by_the_rewards_that_are_compared() {
        let groups_that_differ = |rewards: &str, compared: &str| {
            let pipeline = flow_pipeline::parse("x", &text(rewards, compared), &[], &ops::catalog()).unwrap();
            let chain: Vec<_> = super::weighing(pipeline.node("rollout").unwrap(), &pipeline).into_iter().cloned().collect();
            telling(&super::weighed(&chain, &[lost()]).unwrap()).unwrap()
        };
        assert_eq!(groups_that_differ("", "rollout"), 1, "by what the environment paid they differ");
        let won = "  reward: { op: reward, inputs: rollout, with: { task: 0, won: 10 } }\n";
        assert_eq!(groups_that_differ(won, "reward"), 0, "neither was won, so that comparing them says nothing");
        let both = "  half: { op: reward, inputs: rollout, with: { task: 0.5 } }\n  reward: { op: reward, inputs: half, with: { task: 0, won: 10 } }\n";
        assert_eq!(groups_that_differ(both, "reward"), 0, "one after the other");
    }

    #[test]
    fn two_ways_to_weigh_are_refused() {
        let rewards = "  first: { op: reward, inputs: rollout, with: { task: 0, won: 10 } }\n  second: { op: reward, inputs: rollout }\n";
        let text = text(rewards, "first").replace("log:", "") + "log: [second]\n";
        let message = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap_err().to_string();
        assert!(message.contains("`first` and `second` each weigh the rewards in their own way"), "{message}");
    }
}
