//! The part of a pipeline that remains when the rows of some nodes come from a log.

use crate::{Node, Pipeline};
use std::collections::BTreeSet;

impl Pipeline {
    /// The nodes of `fed` without their inputs, all that is downstream of them, and what that reads besides. Nodes that
    /// `without` picks fall away, and so does whatever reads them. Of the models those stay that a node still uses.
    pub fn fed(&self, fed: &BTreeSet<&str>, without: impl Fn(&Node) -> bool) -> Pipeline {
        let mut nodes = self.nodes.clone();
        let is_fed = |node: &Node| fed.contains(node.id.as_str());
        nodes.iter_mut().filter(|n| is_fed(n)).for_each(Node::cut);
        let reads = |node: &Node, set: &BTreeSet<String>| node.inputs.iter().any(|i| set.contains(&i.from));
        let gone = closed(&nodes, |node, gone| !is_fed(node) && (without(node) || reads(node, gone)));
        let below = closed(&nodes, |node, below| !gone.contains(&node.id) && (is_fed(node) || reads(node, below)));
        let remaining = closed(&nodes, |node, remaining| {
            let read = nodes.iter().filter(|n| remaining.contains(&n.id)).flat_map(|n| &n.inputs).any(|i| i.from == node.id);
            below.contains(&node.id) || read
        });
        nodes.retain(|n| remaining.contains(&n.id));
        let uses = |name: &str| {
            let working = nodes.iter().filter(|n| !is_fed(n)).flat_map(Node::all);
            working.into_iter().flat_map(|n| n.with.models()).any(|named| named.name == name)
        };
        let models = self.models_for(uses);
        let log = self.log.iter().filter(|id| remaining.contains(*id)).cloned().collect();
        Pipeline { nodes, models, log, ..self.clone() }
    }
}

/// The least set of nodes that `belongs` makes of itself: it is asked again until no node joins any more.
fn closed(nodes: &[Node], belongs: impl Fn(&Node, &BTreeSet<String>) -> bool) -> BTreeSet<String> {
    let mut set = BTreeSet::new();
    loop {
        let joining: Vec<String> = nodes.iter().filter(|n| !set.contains(&n.id) && belongs(n, &set)).map(|n| n.id.clone()).collect();
        if joining.is_empty() {
            return set;
        }
        set.extend(joining);
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{catalog, GOOD, LOOPED};
    use crate::{parse, Pipeline};

    fn fed(text: &str, id: &str) -> Pipeline {
        parse("x", text, &[], &catalog()).unwrap().fed(&[id].into(), |n| n.op == "evaluate")
    }

    fn ids(pipeline: &Pipeline) -> Vec<&str> {
        pipeline.nodes.iter().map(|n| n.id.as_str()).collect()
    }

    #[test]
    fn what_only_feeds_a_fed_node_falls_away() {
        let left = fed(GOOD, "rollout");
        assert_eq!(ids(&left), ["rollout", "group", "advantage", "update"]);
        assert!(left.nodes[0].inputs.is_empty());
        assert_eq!((left.models.len(), left.log.as_slice()), (1, &["rollout".to_string(), "update".into()][..]));
        // Fed further down, nothing before it is left, unless the loop goes on through a rollout.
        assert_eq!(ids(&fed(GOOD, "advantage")), ["tasks", "rollout", "group", "advantage", "update"]);
        let left = parse("x", GOOD, &[], &catalog()).unwrap().fed(&["advantage"].into(), |n| n.op == "rollout");
        assert_eq!(ids(&left), ["advantage", "update"]);
        assert_eq!(left.log, ["update"]);
    }

    #[test]
    fn what_the_rest_reads_besides_stays() {
        let both = "  both: { op: combine, inputs: { a: advantage, b: other } }\n  other: { op: advantage, inputs: fresh }\n  \
                    fresh: { op: group, inputs: second, with: { by: [task] } }\n  \
                    second: { op: rollout, inputs: { tasks: tasks }, with: { model: actor } }\nlog: [both, tasks, ";
        let left = fed(&GOOD.replace("log: [", both), "rollout");
        assert_eq!(ids(&left), ["tasks", "rollout", "group", "advantage", "update", "second", "fresh", "other", "both"]);
    }

    #[test]
    fn what_is_left_out_takes_its_readers_with_it() {
        let panel = "  panel: { op: evaluate, inputs: { weights: { after: update } }, with: { model: judge } }\n  \
                     wins: { op: group, inputs: rollout, with: { by: [task] } }\nlog: [wins, panel, ";
        let text = GOOD.replace("log: [", panel).replace("models:\n", "models:\n  judge: { new: tiny }\n");
        let left = fed(&text, "rollout");
        assert_eq!(ids(&left), ["rollout", "group", "advantage", "update", "wins"]);
        assert_eq!(left.models.keys().collect::<Vec<_>>(), ["actor"], "only the panel used the judge");
        assert_eq!(left.log, ["wins", "rollout", "update"]);
    }

    #[test]
    fn a_loop_is_fed_under_its_name() {
        let text = LOOPED.replace("log: [trial, ", "log: [trial, tasks, ");
        let left = fed(&text, "trial");
        assert_eq!(
            (ids(&left), left.log.as_slice()),
            (vec!["trial", "group", "advantage", "update"], &["trial".to_string(), "update".into()][..])
        );
        assert!(left.all().filter(|n| ["trial", "rollout", "reflect"].contains(&n.id.as_str())).all(|n| n.inputs.is_empty()));
        let judged = text.replace(
            "reflect, inputs: { rows: rollout, weights: { after: update, staleness: 1 } }, with: { model: actor }",
            "reflect, inputs: rollout, with: { model: judge }",
        );
        let judged = judged.replace("models:\n", "models:\n  judge: { new: tiny }\n");
        assert_eq!(fed(&judged, "trial").models.keys().collect::<Vec<_>>(), ["actor"], "only a node in the loop used the judge");
        assert_eq!(fed(&judged, "tasks").models.len(), 2, "the loop is at work");
    }
}
