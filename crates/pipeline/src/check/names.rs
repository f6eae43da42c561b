//! The names of the nodes in a file, and which node a name refers to: names are unique in the whole file, inside loops
//! too.

use super::keys::{is_loop, plain, PLAIN};
use crate::parse::{Report, Shape, Tree, TreeEntry};
use std::collections::{BTreeMap, BTreeSet};

/// Names that already mean something to a query over the run, or in its metrics.
const TAKEN: [(&str, &str); 5] = [
    ("trajectories", "a query uses this name for the view of all nodes joined"),
    ("provenance", "a query uses this name for the view of rows and updates"),
    ("metrics", "a query uses this name for the table of all nodes' figures"),
    ("errors", "a query uses this name for the table of failed episodes"),
    ("engine", "that is what the metrics call the figures of the run itself"),
];

/// All nodes in the file's order, each loop before the nodes inside it.
pub struct NodeNames<'a> {
    pub nodes: Vec<NamedNode<'a>>,
    places: BTreeMap<&'a str, Vec<usize>>,
}

/// Where a node stands.
#[derive(Clone, Copy)]
pub struct NamedNode<'a> {
    pub entry: &'a TreeEntry,
    /// The position of its loop.
    pub inside: Option<usize>,
}

impl<'a> NodeNames<'a> {
    /// Collects the names; names that no node can have and names of two nodes are reported.
    pub fn collect(nodes: &'a Tree, report: &mut Report) -> NodeNames<'a> {
        let mut all: Vec<NamedNode> = Vec::new();
        for entry in nodes.entries() {
            let around = all.len();
            all.push(NamedNode { entry, inside: None });
            let inner = entry.value.get("nodes").filter(|_| is_loop(&entry.value)).map(Tree::entries).unwrap_or_default();
            all.extend(inner.iter().map(|entry| NamedNode { entry, inside: Some(around) }));
        }
        let mut names = NodeNames { nodes: Vec::new(), places: BTreeMap::new() };
        let mut small: BTreeMap<String, &TreeEntry> = BTreeMap::new();
        for named in all {
            let TreeEntry { key, at, .. } = named.entry;
            let lower = key.to_lowercase();
            if let Some(help) = TAKEN.iter().find(|(name, _)| lower == *name).map(|(_, what)| *what).or((!plain(key)).then_some(PLAIN)) {
                report.add(*at, format!("`{key}` can't be a node's name"), Some(help.into()));
            } else if let Some(twin) = small.get(&lower).filter(|twin| twin.key == *key) {
                let help = format!("the first is in line {}: a node in a loop needs a name of its own too", report.line(twin.at));
                report.add(*at, format!("there are two nodes `{key}`"), Some(help));
            } else if let Some(twin) = small.get(&lower) {
                let help = "SQL doesn't tell capitals from small letters, and the names of nodes are names of tables";
                report.add(*at, format!("`{key}` and `{}` differ only in capitals", twin.key), Some(help.into()));
            }
            small.entry(lower).or_insert(named.entry);
            names.places.entry(key).or_default().push(names.nodes.len());
            names.nodes.push(named);
        }
        names
    }

    /// Whom a node inside the loop `inside` (or in none) means by `name`: one in the same loop, else one in none, else
    /// one that it can't see.
    pub fn find(&self, name: &str, inside: Option<usize>) -> Option<usize> {
        let all = self.places.get(name)?;
        let among = |inside: Option<usize>| all.iter().copied().find(|i| self.nodes[*i].inside == inside);
        among(inside).or_else(|| among(None)).or(all.first().copied())
    }

    /// The name of the loop around a node that can't be seen from `inside` that loop (or from outside of all).
    pub fn hidden(&self, node: usize, inside: Option<usize>) -> Option<&'a str> {
        let around = self.nodes[node].inside.filter(|around| Some(*around) != inside)?;
        Some(&self.nodes[around].entry.key)
    }

    /// The names that can be read from there, each once.
    pub fn visible_from(&self, inside: Option<usize>) -> impl Iterator<Item = &'a str> + '_ {
        let near = move |(i, s): &(usize, &NamedNode)| s.inside == inside || s.inside.is_none() && Some(*i) != inside;
        let once = move |(i, s): &(usize, &NamedNode)| self.find(&s.entry.key, inside) == Some(*i);
        self.nodes.iter().enumerate().filter(near).filter(once).map(|(_, s)| s.entry.key.as_str())
    }

    /// The nodes inside the loop at this position.
    pub fn within(&self, around: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(move |i| self.nodes[*i].inside == Some(around))
    }
}

/// Every text in there: the names that an input uses, whatever its form.
pub fn mention(tree: &Tree, into: &mut BTreeSet<String>) {
    match &tree.value {
        Shape::List(items) => items.iter().for_each(|t| mention(t, into)),
        Shape::Map(entries) => entries.iter().for_each(|e| mention(&e.value, into)),
        Shape::Scalar(_) => into.extend(tree.text().map(String::from)),
    }
}
