//! Notes what is computed and never used: the columns of a node that no other node reads, so that it changes nothing
//! but the log. (SLEA-RL's released code computes clusters in its default setting and retrieves without them.)

use crate::ops::operator;
use flow_pipeline::{Node, Pipeline};

/// The note on a node whose `columns` are never read.
pub fn note(node: &Node, pipeline: &Pipeline, columns: &[&str]) -> Option<String> {
    let read = pipeline.all().filter(|other| other.id != node.id).any(|other| reads(other, columns));
    (!read).then(|| format!("nothing reads `{}` of `{}`, which is computed, logged and never used", columns.join("` or `"), node.id))
}

/// Whether a node needs one of these columns, by its connected ports or its settings.
fn reads(node: &Node, columns: &[&str]) -> bool {
    let Some(operator) = operator(&node.op) else { return false };
    let connected = |port: &str| node.inputs.iter().any(|input| input.port == port);
    let ports = operator.ports.iter().filter(|port| connected(port.name)).flat_map(|port| port.needs.iter().copied());
    let settings = (operator.hooks.needs)(&node.with);
    let settings = settings.iter().filter(|need| connected(&need.port)).map(|need| need.column.as_str());
    ports.chain(settings).any(|column| columns.contains(&column))
}

#[cfg(test)]
mod tests {
    use crate::ops;

    /// The notes on a pipeline whose groups are by these columns.
    fn notes(by: &str) -> Vec<String> {
        let text = format!(
            "flow: x\niterations: 1\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 3 }} }} }}\n  \
             clusters: {{ op: cluster, inputs: rollout }}\n  \
             group: {{ op: group, inputs: clusters, with: {{ by: {by} }} }}\n  \
             advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}\n  \
             update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor }} }}\nlog: [clusters]\n"
        );
        let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap();
        ops::notes(&pipeline).into_iter().map(|(_, note)| note).collect()
    }

    #[test]
    fn clusters_that_nobody_reads_are_noted() {
        let unused = |by: &str| notes(by).iter().any(|note| note.contains("never used"));
        assert!(unused("[task]") && !unused("[task, cluster]"));
    }
}
