//! The two views that join the logged nodes by the rows' names: what happened to each turn, and what each update made
//! of it.

use super::sql::{literal, quoted, sql_type};
use flow_core::row::{self, NAME};
use std::collections::BTreeMap;

/// A logged node whose rows are turns of the training rollouts.
pub(super) struct Turns<'a> {
    pub id: &'a str,
    pub columns: &'a [String],
    /// The nodes that its rows came through.
    pub upstream: &'a [String],
}

impl Turns<'_> {
    /// Whether it is an update: its rows name the version of the weights that it made.
    fn updates(&self) -> bool {
        self.has("version")
    }

    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|c| c == column)
    }
}

/// All nodes side by side. A column that several nodes logged has its name as the last of them logged it that has the
/// row (plays and reflections are rows of different nodes), and is called `node_column` as the others did.
pub(super) fn trajectories(nodes: &[Turns]) -> Option<String> {
    let key = key();
    let (first, rest) = nodes.split_first()?;
    let column = |(name, source): (String, String)| {
        let having: Vec<&Turns> = nodes.iter().rev().filter(|n| n.has(&name)).collect();
        let source = match having[..] {
            [_, _, ..] => {
                having.iter().fold("CASE".to_owned(), |case, node| {
                    let id = quoted(node.id);
                    format!("{case} WHEN {id}.iteration IS NOT NULL THEN {id}.{}", quoted(&name))
                }) + " END"
            }
            _ => source,
        };
        format!(", {source} AS {}", quoted(&name))
    };
    let columns: String = column_sources(nodes, |c| !NAME.contains(&c)).into_iter().map(column).collect();
    let joins: String = rest.iter().map(|n| format!(" FULL JOIN {} USING ({key})", quoted(n.id))).collect();
    Some(format!("SELECT {key}{columns} FROM {}{joins}", quoted(first.id)))
}

/// The columns of a row's credit.
const CREDIT: [&str; 7] = ["visitation_depth", "group", "group_size", "baseline", "scale", "return", "advantage"];

/// The view `provenance`: from any update back to the rows behind it, and from any row forward to its effect.
///
/// One line for each row of each logged update, and these columns:
///
/// - `iteration`, `node`, `version`: when, which update, and the version of the weights that it made
/// - `task`, `sample`, `attempt`, `turn`, `phase`: with `iteration` the row's name, by which any other table joins
/// - `used`: `yes`, or why the row was not trained on
/// - `visitation_depth`, `group`, `group_size`, `baseline`, `scale`, `return`, `advantage`: the credit that the row
///   came with, NULL where no node logged it. What two nodes logged keeps its plain name where it was logged last, and
///   is called `node_column` elsewhere, as in `trajectories`
/// - whatever else the update logged of the row
///
/// Which rows made version 12, and which of them pulled hardest?
///
/// ```sql
/// SELECT task, sample, turn, "group", group_size, advantage FROM provenance
/// WHERE version = 12 AND used = 'yes' ORDER BY abs(advantage) DESC LIMIT 10
/// ```
///
/// What became of the first turn of a trajectory, and what had it been compared with?
///
/// ```sql
/// SELECT node, version, used, "return", baseline, scale, advantage FROM provenance
/// WHERE iteration = 11 AND task = 'sokoban-6x6-b1-m1-s2010794321636730654' AND sample = 2 AND turn = 0
/// ```
pub(super) fn provenance(nodes: &[Turns]) -> Option<String> {
    let views: Vec<String> = nodes.iter().filter(|n| n.updates()).map(|update| update_view(update, nodes)).collect();
    (!views.is_empty()).then(|| views.join(" UNION ALL BY NAME "))
}

/// The part of the view for one update. Its rows have their credit from the nodes upstream: a row of the same name at
/// another node (a demonstration of the same task, say) is a different row.
fn update_view(update: &Turns, nodes: &[Turns]) -> String {
    let before = |n: &&Turns| !n.updates() && update.upstream.iter().any(|id| id == n.id);
    let credit: Vec<&Turns> = nodes.iter().filter(before).filter(|n| CREDIT.iter().any(|c| n.has(c))).collect();
    let credit_columns = column_sources(credit.iter().copied(), |c| CREDIT.contains(&c));
    let (key, id) = (key(), quoted(update.id));
    let [iteration, name @ ..] = NAME.map(quoted);
    let mut select = vec![iteration, format!("{} AS node", literal(update.id)), format!("{id}.version")];
    select.extend(name);
    let mut put = |name: &str, source: &str| select.push(format!("{source} AS {}", quoted(name)));
    let own = |name: &str| update.has(name).then(|| format!("{id}.{}", quoted(name)));
    put("used", &own("used").unwrap_or("CAST(NULL AS VARCHAR)".into()));
    for column in CREDIT {
        let logged = credit_columns.iter().find(|(name, _)| name == column).map(|(_, source)| source.clone());
        let none = || row::kind(column).map(|kind| format!("CAST(NULL AS {})", sql_type(kind)));
        if let Some(source) = own(column).or(logged).or_else(none) {
            put(column, &source);
        }
    }
    credit_columns.iter().filter(|(name, _)| !CREDIT.contains(&name.as_str())).for_each(|(name, source)| put(name, source));
    let already_selected = |c: &str| NAME.contains(&c) || CREDIT.contains(&c) || ["used", "version"].contains(&c);
    update.columns.iter().filter(|c| !already_selected(c)).for_each(|c| put(c, &format!("{id}.{}", quoted(c))));
    let joins: String = credit.iter().map(|n| format!(" LEFT JOIN {} USING ({key})", quoted(n.id))).collect();
    format!("SELECT {} FROM {id}{joins}", select.join(", "))
}

/// The selected columns of several nodes: each column's name in the view and the SQL expression of its source.
fn column_sources<'a>(nodes: impl IntoIterator<Item = &'a Turns<'a>> + Clone, selects: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut last = BTreeMap::new();
    for node in nodes.clone() {
        last.extend(node.columns.iter().map(|c| (c.as_str(), node.id)));
    }
    let mut named: Vec<(String, String)> = Vec::new();
    for node in nodes {
        for column in node.columns.iter().filter(|c| selects(c)) {
            let name = if last[column.as_str()] == node.id { column.clone() } else { format!("{}_{column}", node.id) };
            if !named.iter().any(|(n, _)| *n == name) {
                named.push((name, format!("{}.{}", quoted(node.id), quoted(column))));
            }
        }
    }
    named
}

fn key() -> String {
    NAME.map(quoted).join(", ")
}
