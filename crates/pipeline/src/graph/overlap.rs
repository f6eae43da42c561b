//! How far nodes can run ahead of one another. A delayed edge lets its reader start before the node it reads is done;
//! but another way through the graph may hold the reader back further than the edge does.

use crate::Pipeline;
use std::collections::BTreeMap;

/// A delayed edge, and what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Overlap {
    pub from: String,
    pub to: String,
    pub port: String,
    /// How many iterations older than the newest the rows may be.
    pub staleness: u64,
    /// How many of them the rest of the graph leaves: the reader can run this many iterations ahead of a plain feedback
    /// edge.
    pub effective: u64,
}

/// Every delayed edge of the pipeline with its effective staleness.
///
/// Iteration t of a node can start once iteration t - d of each node before it is done, where d is the least sum of
/// delays on any way between them (0 in time, staleness + 1 on a delayed edge). Where that is less than the edge's own
/// delay, the edge doesn't decide.
pub fn overlaps(pipeline: &Pipeline) -> Vec<Overlap> {
    let edges: Vec<(&str, &str, u64)> = pipeline
        .nodes
        .iter()
        .flat_map(|n| n.inputs.iter().map(|i| (i.from.as_str(), n.id.as_str(), i.staleness.map_or(0, |s| s + 1))))
        .collect();
    // Of a loop those of its nodes: it is they who may run ahead, and only their ports have names.
    let mut overlaps = Vec::new();
    for outer in &pipeline.nodes {
        for node in outer.all().filter(|n| n.body.is_none()) {
            for input in node.inputs.iter().filter(|i| pipeline.node(&i.from).is_some()) {
                let Some(staleness) = input.staleness else { continue };
                let least = least(&edges, &input.from, &outer.id).unwrap_or(staleness + 1);
                let effective = least.saturating_sub(1).min(staleness);
                let (from, to, port) = (input.from.clone(), node.id.clone(), input.port.clone());
                overlaps.push(Overlap { from, to, port, staleness, effective });
            }
        }
    }
    overlaps
}

/// The least sum of delays on a way from `from` to `to` (Bellman and Ford: graphs are small).
fn least(edges: &[(&str, &str, u64)], from: &str, to: &str) -> Option<u64> {
    let mut reach: BTreeMap<&str, u64> = BTreeMap::from([(from, 0)]);
    let mut arrived: Option<u64> = None;
    for _ in 0..=edges.len() {
        for (a, b, delay) in edges {
            let Some(sum) = reach.get(a).map(|d| d + delay) else { continue };
            if *b == to {
                arrived = Some(arrived.map_or(sum, |least| least.min(sum)));
            }
            let best = reach.entry(b).or_insert(sum);
            *best = sum.min(*best);
        }
    }
    arrived
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, parse};

    fn effective(text: &str) -> Vec<(String, u64, u64)> {
        let pipeline = parse("x", text, &[], &fixture::catalog()).unwrap();
        overlaps(&pipeline).into_iter().map(|o| (format!("{} -> {}", o.from, o.to), o.staleness, o.effective)).collect()
    }

    #[test]
    fn a_lone_edge_keeps_its_staleness() {
        let text = fixture::GOOD.replace("{ after: update, staleness: 0 }", "{ after: update, staleness: 2 }");
        assert_eq!(effective(&text), [("update -> rollout".to_string(), 2, 2)]);
        assert_eq!(effective(fixture::GOOD), [("update -> rollout".to_string(), 0, 0)]);
    }

    #[test]
    fn nodes_in_a_loop_run_ahead_by_their_own_ports() {
        // The loop waits for the newest `update` already for the sake of `rollout`, so that `reflect` gains nothing.
        let both = [("update -> rollout".to_string(), 0, 0), ("update -> reflect".to_string(), 1, 0)];
        assert_eq!(effective(fixture::LOOPED), both, "a next attempt is no earlier iteration");
        let text = fixture::LOOPED.replace("weights: { after: update }", "weights: { after: update, staleness: 2 }");
        let ports: Vec<String> = overlaps(&parse("x", &text, &[], &fixture::catalog()).unwrap()).into_iter().map(|o| o.port).collect();
        assert_eq!(ports, ["weights", "weights"]);
        assert_eq!(effective(&text), [("update -> rollout".to_string(), 2, 1), ("update -> reflect".to_string(), 1, 1)]);
    }

    #[test]
    fn the_shortest_way_decides() {
        // update -> memory in time, memory -> rollout a delay of 1: a weights edge of delay 3 is worth 1.
        let edges = [("update", "rollout", 3), ("rollout", "update", 0), ("update", "memory", 0), ("memory", "rollout", 1)];
        assert_eq!(least(&edges, "update", "rollout"), Some(1));
        assert_eq!(least(&edges, "memory", "rollout"), Some(1));
        assert_eq!(least(&edges, "nobody", "rollout"), None);
        assert_eq!(least(&[("a", "a", 2)], "a", "a"), Some(2), "a node's way to itself has at least one edge");
    }
}
