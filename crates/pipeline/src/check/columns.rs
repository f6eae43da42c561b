//! Checks that every column a node needs is produced upstream.

use super::sketch::{Draft, DraftEdge};
use crate::parse::{listed, Report};
use crate::{Catalog, Mistake, OperatorSpec, With};
use std::collections::BTreeSet;

/// Checks that every column that a port needs is made upstream. Returns the columns of each node's rows.
pub fn columns(nodes: &[Draft], cyclic: &BTreeSet<usize>, catalog: &Catalog, report: &mut Report) -> Vec<BTreeSet<String>> {
    // What an operator could make with other settings is for its own check, which knows the setting.
    let exact = available(nodes, cyclic, catalog, OperatorSpec::columns);
    let available = available(nodes, cyclic, catalog, OperatorSpec::possible_columns);
    let has = |node: usize, column: &str| available[node].contains(column);
    let known = |column: &str| catalog.columns.contains(&column) || available.iter().any(|available| available.contains(column));
    for draft in nodes {
        let Some(spec) = draft.spec else { continue };
        for edge in &draft.edges {
            let (Some(port), Some(from)) = (edge.spec, edge.node) else { continue };
            for column in port.needs.iter().filter(|c| !has(from, c)) {
                let who = format!("the port `{}` of `{}` needs the column `{column}`", edge.port, draft.id);
                let (why, help) = missing_column(column, edge, draft, nodes, &available, catalog);
                report.add(edge.at, format!("{who}, {why}"), help);
            }
        }
        let Some(with) = &draft.with else { continue };
        if let Some(Mistake { at, message, help, .. }) = (spec.unknown)(with) {
            let at = draft.with_tree.map_or(draft.op_at, |t| t.deepest(at.iter().map(String::as_str)).at);
            report.add(at, message, help);
        }
        for need in (spec.needs)(with) {
            let at = draft.with_tree.map_or(draft.op_at, |t| t.deepest(need.at.iter().map(String::as_str)).at);
            if !known(&need.column) {
                let edge = draft.edges.iter().find(|e| e.spec.is_some_and(|p| p.name == need.port));
                let there: Vec<&str> = edge.and_then(|e| e.node).iter().flat_map(|from| &available[*from]).map(String::as_str).collect();
                // A short form of one that is there is nearer than another word of its length.
                let begun = there.iter().find(|name| need.column.len() > 1 && name.starts_with(&need.column)).copied();
                let near = begun.or_else(|| report.guess(&need.column, there.iter().copied().chain(catalog.columns.iter().copied())));
                let near = near.map(|name| format!("did you mean `{name}`?"));
                let list = || (!there.is_empty()).then(|| format!("the rows here have {}", listed(&there, "and")));
                report.add(at, format!("there is no column `{}`", need.column), near.or_else(list));
                continue;
            }
            for edge in draft.edges.iter().filter(|e| e.spec.is_some_and(|p| p.name == need.port)) {
                if edge.node.is_some_and(|from| !has(from, &need.column)) {
                    // Settings that call for a column without naming it are better shown the input that lacks it.
                    let at = if need.at.is_empty() { edge.at } else { at };
                    let (why, help) = missing_column(&need.column, edge, draft, nodes, &available, catalog);
                    report.add(at, format!("`{}` needs the column `{}` here, {why}", draft.id, need.column), help);
                }
            }
        }
    }
    exact
}

/// The columns of each node's output, where an operator adds the columns that `adds` returns: the least that follows
/// from the operators, so a column must come from somewhere, also around a delayed edge. A node that isn't understood
/// or is on a cycle is given all, so that its mistake is reported once.
fn available(
    nodes: &[Draft],
    cyclic: &BTreeSet<usize>,
    catalog: &Catalog,
    adds: fn(&OperatorSpec, &With) -> Vec<String>,
) -> Vec<BTreeSet<String>> {
    let parts = nodes.iter().filter_map(|draft| Some((draft.spec?.makes)(draft.with.as_ref()?))).flatten();
    let all: BTreeSet<String> = catalog.columns.iter().map(|column| column.to_string()).chain(parts).collect();
    let logged = |columns: &[String]| all.iter().filter(|column| columns.contains(column)).cloned().collect();
    let mut available: Vec<BTreeSet<String>> = vec![BTreeSet::new(); nodes.len()];
    loop {
        let mut grew = false;
        for (i, draft) in nodes.iter().enumerate() {
            let before = available[i].len();
            let source = main(draft);
            match draft.spec {
                _ if cyclic.contains(&i) => available[i] = all.clone(),
                _ if catalog.logged.contains_key(draft.id) => available[i] = logged(&catalog.logged[draft.id]),
                // A loop's rows have the columns that all of its outputs have, and the texts that any has: they are
                // empty in the others' rows.
                None if draft.body.as_ref().is_some_and(|body| !body.output.is_empty()) => {
                    let outputs: Vec<&BTreeSet<String>> = draft.body.iter().flat_map(|b| &b.output).map(|o| &available[*o]).collect();
                    let made = |column: &&String| (catalog.text)(column) || outputs.iter().all(|output| output.contains(*column));
                    available[i] = outputs.iter().flat_map(|output| output.iter()).filter(made).cloned().collect();
                }
                None => available[i] = all.clone(),
                Some(spec) if spec.keeps && source.is_none() => available[i] = all.clone(),
                Some(spec) if draft.with.as_ref().is_some_and(|with| (spec.unknown)(with).is_some()) => available[i] = all.clone(),
                Some(spec) => {
                    match &draft.with {
                        Some(with) => available[i].extend(adds(spec, with)),
                        // What its settings call for besides isn't known.
                        None => available[i].extend(spec.adds.iter().map(|column| column.to_string())),
                    }
                    if let (true, Some(from)) = (spec.keeps, source) {
                        let more = available[from].clone();
                        available[i].extend(more);
                    }
                }
            }
            grew |= available[i].len() > before;
        }
        if !grew {
            return available;
        }
    }
}

/// The node that a draft's main port reads: the one whose columns an operator may keep.
fn main(draft: &Draft) -> Option<usize> {
    let port = draft.spec.and_then(|s| s.ports.first())?;
    draft.edges.iter().find(|e| e.spec.is_some_and(|p| p.name == port.name)).and_then(|e| e.node)
}

/// Why a column doesn't arrive by `edge` at the node `to`, and what can be done.
fn missing_column(
    column: &str,
    edge: &DraftEdge,
    to: &Draft,
    nodes: &[Draft],
    available: &[BTreeSet<String>],
    catalog: &Catalog,
) -> (String, Option<String>) {
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
        let (have, lack): (Vec<usize>, Vec<usize>) =
            draft.body.iter().flat_map(|b| &b.output).partition(|o| available[**o].contains(column));
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

#[cfg(test)]
mod tests {
    use crate::fixture::{catalog, GOOD};
    use crate::parse;

    fn order(text: &str) -> Result<Vec<String>, String> {
        parse("x", text, &[], &catalog()).map(|p| p.nodes.into_iter().map(|n| n.id).collect()).map_err(|d| d.to_string())
    }

    #[test]
    fn a_column_comes_through_operators_that_keep_it_and_no_further() {
        let through = GOOD.replace("by: [task, state]", "by: [turn, reward]");
        assert!(order(&through).is_ok());
        let lost = GOOD.replace("inputs: rollout", "inputs: tasks").replace("by: [task, state]", "by: [task]");
        let message = order(&lost).unwrap_err();
        assert!(
            message.contains("needs the column `reward`, and nothing up to `tasks` makes it")
                && message.contains("`rollout` and `reflect` make it"),
            "{message}"
        );
        let late = GOOD.replace("after: update", "after: group");
        assert!(order(&late).unwrap_err().contains("`weights` of `rollout` needs the column `version`"));
    }

    #[test]
    fn rows_of_a_log_have_the_columns_that_were_logged() {
        let logged = |columns: &[&str]| {
            let columns = columns.iter().map(|c| c.to_string()).collect();
            let catalog = crate::Catalog { logged: [("rollout".to_string(), columns)].into(), ..catalog() };
            parse("x", GOOD, &[], &catalog).map_err(|d| d.to_string())
        };
        assert!(logged(&["task", "state", "reward", "iteration"]).is_ok());
        let message = logged(&["task", "reward"]).unwrap_err();
        assert!(message.contains("`group` needs the column `state` here, and the log has no such column of `rollout`"), "{message}");
        assert!(message.contains("the log has of `rollout` the columns `task` and `reward`"), "{message}");
        let message = logged(&["task", "state"]).unwrap_err();
        assert!(message.contains("the port `rows` of `group` needs the column `reward`, and the log has"), "{message}");
    }
}
