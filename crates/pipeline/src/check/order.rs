//! A topological order of the nodes, and the cycles that prevent one.

use super::sketch::Draft;
use crate::parse::Report;
use crate::Delay;
use std::collections::BTreeSet;

/// The nodes by position in the file.
#[derive(Default)]
pub struct NodeOrder {
    /// Each node after the nodes that it reads in time.
    pub sorted: Vec<usize>,
    /// Those on a cycle.
    pub cyclic: BTreeSet<usize>,
}

/// Sorts the nodes; cycles without a delayed edge are reported.
pub fn order(nodes: &[Draft], report: &mut Report) -> NodeOrder {
    // A node inside a loop waits for its fellows there; what it reads from outside is the loop's to wait for.
    let sources = |i: usize| {
        let near = move |n: &usize| nodes[*n].inside == nodes[i].inside;
        nodes[i].edges.iter().filter(|e| e.in_time()).filter_map(|e| e.node).filter(near)
    };
    let mut readers = vec![Vec::new(); nodes.len()];
    let mut waits = vec![0usize; nodes.len()];
    for (i, wait) in waits.iter_mut().enumerate() {
        for from in sources(i) {
            readers[from].push(i);
            *wait += 1;
        }
    }
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|i| waits[*i] == 0).collect();
    let mut done = vec![false; nodes.len()];
    let mut out = NodeOrder::default();
    loop {
        while let Some(next) = ready.pop_first() {
            done[next] = true;
            out.sorted.push(next);
            for &reader in &readers[next] {
                waits[reader] = waits[reader].saturating_sub(1);
                if waits[reader] == 0 && !done[reader] {
                    ready.insert(reader);
                }
            }
        }
        // Who is left waits for somebody who is left: going from source to source must come back to where it has been.
        let Some(start) = (0..nodes.len()).find(|i| !done[*i]) else { return out };
        let mut walk = vec![start];
        let cycle = loop {
            let here = walk[walk.len() - 1];
            let Some(from) = sources(here).find(|i| !done[*i]) else { return out };
            if let Some(i) = walk.iter().position(|n| *n == from) {
                break walk.split_off(i);
            }
            walk.push(from);
        };
        report_cycle(nodes, &cycle, report);
        out.cyclic.extend(cycle.iter().copied());
        ready.extend(cycle);
    }
}

/// `cycle` goes from each node to the one that it reads; told the way rows go, from the node that stands first.
fn report_cycle(nodes: &[Draft], cycle: &[usize], report: &mut Report) {
    let mut path: Vec<usize> = cycle.iter().rev().copied().collect();
    let first = (0..path.len()).min_by_key(|i| path[*i]).unwrap_or(0);
    path.rotate_left(first);
    path.push(path[0]);
    let shown: Vec<&str> = path.iter().map(|i| nodes[*i].id).collect();
    // The edge that closes the circle is the likeliest to be the delayed one, if its port allows that.
    let edge = |pair: &[usize]| nodes[pair[1]].edges.iter().find(|e| e.node == Some(pair[0]) && e.in_time()).map(|e| (pair[1], e));
    let edges: Vec<_> = path.windows(2).rev().filter_map(edge).collect();
    let delayable = edges.iter().find(|(_, e)| e.spec.is_some_and(|p| p.delay != Delay::Never));
    let (time, staleness) = if nodes[path[0]].inside.is_some() { ("attempt", "") } else { ("iteration", ", staleness: 0") };
    let help = match delayable {
        Some((i, e)) => {
            format!("if `{}` may use what an earlier {time} made: `{}: {{ after: {}{staleness} }}`", nodes[*i].id, e.port, e.from)
        }
        None => format!("none of its ports takes what an earlier {time} made: one of the edges has to go"),
    };
    let at = delayable.or(edges.first()).map_or(nodes[path[0]].at, |(_, e)| e.at);
    report.add(at, format!("{} is a cycle within one {time}, so no node of it can start", shown.join(" -> ")), Some(help));
}

#[cfg(test)]
mod tests {
    use crate::fixture::{catalog, GOOD};
    use crate::parse;

    fn order(text: &str) -> Result<Vec<String>, String> {
        parse("x", text, &[], &catalog()).map(|p| p.nodes.into_iter().map(|n| n.id).collect()).map_err(|d| d.to_string())
    }

    #[test]
    fn nodes_come_after_what_they_read_and_else_as_written() {
        assert_eq!(order(GOOD).unwrap(), ["tasks", "rollout", "group", "advantage", "update"]);
        let (head, rest) = GOOD.split_once("nodes:\n").unwrap();
        let (nodes, tail) = rest.split_once("log:").unwrap();
        let update = nodes.lines().find(|l| l.starts_with("  update")).unwrap();
        let others: String = nodes.lines().filter(|l| *l != update).map(|l| format!("{l}\n")).collect();
        let more = "  late: { op: tasks, with: { env: sokoban, batch: 1 } }\n";
        let shuffled = format!("{head}nodes:\n{update}\n{more}{others}log: [late, rollout]\n");
        assert_eq!(order(&shuffled).unwrap(), ["late", "tasks", "rollout", "group", "advantage", "update"], "{tail}");
    }

    #[test]
    fn each_cycle_is_shown_once_the_way_rows_go() {
        let message = order(&GOOD.replace("inputs: rollout", "inputs: advantage")).unwrap_err();
        assert!(message.contains("error: group -> advantage -> group is a cycle"), "{message}");
        assert_eq!(message.matches("is a cycle").count(), 1, "{message}");
        assert!(!message.contains("makes it"), "no column is missed on a cycle: {message}");
    }
}
