//! How the nodes fit together: an order for them, cycles, the columns that arrive at each port, and what nobody reads.

use super::catalog::{Catalog, Delay, OperatorSpec};
use super::check::Sketch;
use super::edges::Edge;
use super::nodes::Draft;
use super::report::{listed, Report};
use std::collections::BTreeSet;

/// The nodes by position in the file.
#[derive(Default)]
pub struct Order {
    /// Each after those that it reads in time.
    pub sorted: Vec<usize>,
    /// Those on a cycle.
    pub cyclic: BTreeSet<usize>,
}

/// Sorts the nodes; cycles without a delayed edge are reported.
pub fn order(nodes: &[Draft], report: &mut Report) -> Order {
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
    let mut out = Order::default();
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

/// Checks that every column that a port needs is made upstream.
pub fn columns(nodes: &[Draft], cyclic: &BTreeSet<usize>, catalog: &Catalog, report: &mut Report) {
    let made = made(nodes, cyclic, catalog);
    let has = |node: usize, column: &str| made[node].contains(column);
    for draft in nodes {
        let Some(spec) = draft.spec else { continue };
        for edge in &draft.edges {
            let (Some(port), Some(from)) = (edge.spec, edge.node) else { continue };
            for column in port.needs.iter().filter(|c| !has(from, c)) {
                let who = format!("the port `{}` of `{}` needs the column `{column}`", edge.port, draft.id);
                let (why, help) = missing(column, edge, draft, nodes, &made, catalog);
                report.add(edge.at, format!("{who}, {why}"), help);
            }
        }
        let Some(with) = &draft.with else { continue };
        for need in (spec.needs)(with) {
            let at = draft.with_tree.map_or(draft.op_at, |t| t.deepest(need.at.iter().map(String::as_str)).at);
            if !catalog.columns.contains(&need.column.as_str()) {
                report.add(
                    at,
                    format!("there is no column `{}`", need.column),
                    report.nearest(&need.column, catalog.columns.iter().copied()),
                );
                continue;
            }
            for edge in draft.edges.iter().filter(|e| e.spec.is_some_and(|p| p.name == need.port)) {
                if edge.node.is_some_and(|from| !has(from, &need.column)) {
                    // Settings that call for a column without naming it are better shown the input that lacks it.
                    let at = if need.at.is_empty() { edge.at } else { at };
                    let (why, help) = missing(&need.column, edge, draft, nodes, &made, catalog);
                    report.add(at, format!("`{}` needs the column `{}` here, {why}", draft.id, need.column), help);
                }
            }
        }
    }
}

/// The columns of each node's output: the least that follows from the operators, so a column must come from somewhere,
/// also around a delayed edge. A node that isn't understood or is on a cycle is given all, so that its mistake is told once.
fn made<'a>(nodes: &[Draft], cyclic: &BTreeSet<usize>, catalog: &'a Catalog) -> Vec<BTreeSet<&'a str>> {
    let all: BTreeSet<&str> = catalog.columns.iter().copied().collect();
    let logged = |columns: &[String]| catalog.columns.iter().copied().filter(|c| columns.iter().any(|l| l == c)).collect();
    let mut made: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); nodes.len()];
    loop {
        let mut grew = false;
        for (i, draft) in nodes.iter().enumerate() {
            let before = made[i].len();
            let source = main(draft);
            match draft.spec {
                _ if cyclic.contains(&i) => made[i] = all.clone(),
                _ if catalog.logged.contains_key(draft.id) => made[i] = logged(&catalog.logged[draft.id]),
                // A loop's rows have the columns that all of its outputs have.
                None if draft.body.is_some() => {
                    let mut outputs = draft.body.iter().flat_map(|b| &b.output).map(|o| &made[*o]);
                    let first = outputs.next().cloned().unwrap_or_else(|| all.clone());
                    made[i] = outputs.fold(first, |both, one| both.intersection(one).copied().collect());
                }
                None => made[i] = all.clone(),
                Some(spec) if spec.keeps && source.is_none() => made[i] = all.clone(),
                Some(spec) => {
                    made[i].extend(spec.adds.iter().copied());
                    if let (true, Some(from)) = (spec.keeps, source) {
                        let more = made[from].clone();
                        made[i].extend(more);
                    }
                }
            }
            grew |= made[i].len() > before;
        }
        if !grew {
            return made;
        }
    }
}

/// The node that a draft's main port reads: the one whose columns an operator may keep.
fn main(draft: &Draft) -> Option<usize> {
    let port = draft.spec.and_then(|s| s.ports.first())?;
    draft.edges.iter().find(|e| e.spec.is_some_and(|p| p.name == port.name)).and_then(|e| e.node)
}

/// Why a column doesn't arrive by `edge` at the node `to`, and what can be done.
fn missing(column: &str, edge: &Edge, to: &Draft, nodes: &[Draft], made: &[BTreeSet<&str>], catalog: &Catalog) -> (String, Option<String>) {
    // Where the rows come from a log, its node is the one to look at; operators only hand them on.
    let mut source = edge.node;
    for _ in nodes {
        let Some(draft) = source.map(|i| &nodes[i]) else { break };
        let of_log = catalog.logged.get(draft.id).filter(|_| draft.spec.is_some_and(|s| s.adds.contains(&column)));
        if let Some(columns) = of_log {
            let names: Vec<&String> = columns.iter().collect();
            let help = format!("the log has of `{}` the columns {}", draft.id, listed(&names, "and"));
            return (format!("and the log has no such column of `{}`", draft.id), Some(help));
        }
        let (have, lack): (Vec<usize>, Vec<usize>) = draft.body.iter().flat_map(|b| &b.output).partition(|o| made[**o].contains(column));
        if let (false, Some(lacks)) = (have.is_empty(), lack.first().map(|o| nodes[*o].id)) {
            let help = format!("take `{lacks}` out of the `output` of `{}`", draft.id);
            return (format!("and `{lacks}`, of the nodes that `{}` puts out, doesn't make it", draft.id), Some(help));
        }
        source = main(draft).filter(|_| draft.spec.is_some_and(|s| s.keeps));
    }
    let fits = |o: &&OperatorSpec| o.adds.contains(&column) && (o.loops || to.inside.is_none());
    let names: Vec<&str> = catalog.operators.iter().filter(fits).map(|o| o.name).collect();
    let verb = if names.len() == 1 { "makes" } else { "make" };
    let place =
        if edge.from == to.id { "read such a node".into() } else { format!("put such a node between `{}` and `{}`", edge.from, to.id) };
    let help = || format!("{} {verb} it: {place}", listed(&names, "and"));
    (format!("and nothing up to `{}` makes it", edge.from), (!names.is_empty()).then(help))
}

/// Reports ports left open, and nodes whose rows go nowhere.
pub fn ends(sketch: &Sketch, report: &mut Report) {
    for draft in &sketch.nodes {
        if draft.spec.is_none() && draft.body.is_none() {
            continue;
        }
        // Inputs that could not be read at all were told about already.
        for port in draft.spec.iter().flat_map(|s| s.ports).filter(|p| !p.optional) {
            let fed = draft.edges.iter().any(|e| e.spec.is_some_and(|s| s.name == port.name));
            if !fed && !draft.broken_inputs {
                let (message, help) = match port.name {
                    "*" => (format!("`{}` needs at least one input", draft.id), "write `inputs: { a: node, b: other }`".into()),
                    name => (format!("`{}` needs the input `{name}`", draft.id), format!("`{name}`: {}", port.about)),
                };
                report.add(draft.op_at, message, Some(help));
            }
        }
        let read = draft.spec.is_some_and(|s| s.effect) || sketch.mentioned.contains(draft.id);
        let around = draft.inside.map(|place| &sketch.nodes[place]);
        if let (false, Some(around)) = (read, around) {
            // What a loop puts out may not be understood.
            if around.body.as_ref().is_none_or(|b| b.output.is_empty()) {
                continue;
            }
            let help = format!("let another node inside read `{}`, add it to `output`, or leave it out", draft.id);
            let message = format!("nothing reads the rows of `{}`, and `{}` doesn't put them out", draft.id, around.id);
            report.add(draft.at, message, Some(help));
        } else if !read && !sketch.log.iter().any(|n| n == draft.id) {
            let help = format!("let a node read `{}`, add it to `log`, or leave it out", draft.id);
            report.add(draft.at, format!("nothing reads the rows of `{}`, and they are not logged", draft.id), Some(help));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::pipeline::fake::{catalog, GOOD};
    use crate::pipeline::parse;

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
        let said = order(&GOOD.replace("inputs: rollout", "inputs: advantage")).unwrap_err();
        assert!(said.contains("error: group -> advantage -> group is a cycle"), "{said}");
        assert_eq!(said.matches("is a cycle").count(), 1, "{said}");
        assert!(!said.contains("makes it"), "no column is missed on a cycle: {said}");
    }

    #[test]
    fn a_column_comes_through_operators_that_keep_it_and_no_further() {
        let through = GOOD.replace("by: [task, state]", "by: [turn, reward]");
        assert!(order(&through).is_ok());
        let lost = GOOD.replace("inputs: rollout", "inputs: tasks").replace("by: [task, state]", "by: [task]");
        let said = order(&lost).unwrap_err();
        assert!(
            said.contains("needs the column `reward`, and nothing up to `tasks` makes it")
                && said.contains("`rollout` and `reflect` make it"),
            "{said}"
        );
        let late = GOOD.replace("after: update", "after: group");
        assert!(order(&late).unwrap_err().contains("`weights` of `rollout` needs the column `version`"));
    }

    #[test]
    fn rows_of_a_log_have_the_columns_that_were_logged() {
        let logged = |columns: &[&str]| {
            let columns = columns.iter().map(|c| c.to_string()).collect();
            let catalog = crate::pipeline::Catalog { logged: [("rollout".to_string(), columns)].into(), ..catalog() };
            parse("x", GOOD, &[], &catalog).map_err(|d| d.to_string())
        };
        assert!(logged(&["task", "state", "reward", "iteration"]).is_ok());
        let said = logged(&["task", "reward"]).unwrap_err();
        assert!(said.contains("`group` needs the column `state` here, and the log has no such column of `rollout`"), "{said}");
        assert!(said.contains("the log has of `rollout` the columns `task` and `reward`"), "{said}");
        let said = logged(&["task", "state"]).unwrap_err();
        assert!(said.contains("the port `rows` of `group` needs the column `reward`, and the log has"), "{said}");
    }

    #[test]
    fn a_node_that_nobody_reads_is_reported_unless_it_is_logged_or_has_an_effect() {
        let more = GOOD.replace("log:", "  more: { op: group, inputs: rollout, with: { by: [task] } }\nlog:");
        assert!(order(&more).unwrap_err().contains("nothing reads the rows of `more`"));
        assert!(order(&more.replace("[rollout,", "[more, rollout,")).is_ok());
        assert!(order(&GOOD.replace("[rollout, update]", "[]")).is_ok(), "`update` trains, `rollout` is read");
    }
}
