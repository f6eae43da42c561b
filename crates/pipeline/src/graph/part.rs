//! The part of a pipeline that remains when the rows of some nodes are supplied and only some nodes' rows are needed.

use crate::{Catalog, Input, Node, Pipeline};
use std::collections::{BTreeMap, BTreeSet};

/// The columns that a node's rows must have, each with who needs it, in words.
pub type Needed = BTreeMap<String, String>;

impl Pipeline {
    /// The nodes `wanted` and all that they read, directly or not, up to those whose rows are `fed`: these stay without
    /// inputs. Models that none of the others uses are left out.
    pub fn part(&self, targets: &BTreeSet<String>, fed: &BTreeSet<String>) -> Pipeline {
        let mut included: BTreeSet<&str> = BTreeSet::new();
        let mut walk: Vec<&str> = targets.iter().map(String::as_str).collect();
        while let Some(node) = walk.pop().and_then(|id| self.node(id)) {
            if included.insert(&node.id) && !fed.contains(&node.id) {
                walk.extend(node.inputs.iter().map(|i| i.from.as_str()));
            }
        }
        let mut part = Pipeline { tests: Vec::new(), ..self.clone() };
        part.nodes.retain(|n| included.contains(n.id.as_str()));
        part.nodes.iter_mut().filter(|n| fed.contains(&n.id)).for_each(Node::cut);
        if !fed.is_empty() {
            part.nodes.iter_mut().for_each(Node::forget_columns);
        }
        part.log.retain(|id| included.contains(id.as_str()));
        let working = part.nodes.iter().filter(|n| !fed.contains(&n.id)).flat_map(Node::all);
        let used: BTreeSet<&str> = working.flat_map(|n| n.with.models().map(|named| named.name.as_str())).collect();
        part.models = self.models_for(|name| used.contains(name));
        part
    }

    /// The columns that the rows of each node must have, so that its readers find what they need and the rows of the
    /// nodes in `asked` have these columns.
    pub fn needed(&self, requested: &BTreeMap<String, BTreeSet<&str>>, catalog: &Catalog) -> BTreeMap<String, Needed> {
        let mut all: BTreeMap<String, Needed> = BTreeMap::new();
        for (node, columns) in requested {
            all.insert(node.clone(), columns.iter().map(|c| (c.to_string(), format!("the expectation of `{node}`"))).collect());
        }
        // A delayed edge may hand a need back to a node that stands later in the file.
        loop {
            let before: usize = all.values().map(BTreeMap::len).sum();
            for node in self.all().collect::<Vec<_>>().into_iter().rev() {
                // A loop has no needs of its own: its rows are those of the nodes that it puts out, which read what it
                // reads.
                if let Some(body) = &node.body {
                    let requested = all.get(&node.id).cloned().unwrap_or_default();
                    body.output.iter().for_each(|output| all.entry(output.clone()).or_default().extend(requested.clone()));
                    continue;
                }
                for input in &node.inputs {
                    let needs = needs(node, input, all.get(&node.id), catalog);
                    let at = all.entry(input.from.clone()).or_default();
                    for (column, who) in needs {
                        at.entry(column).or_insert(who);
                    }
                }
            }
            if all.values().map(BTreeMap::len).sum::<usize>() == before {
                return all;
            }
        }
    }
}

/// What `node` needs of an input: what its port and its settings call for and, where it hands its rows on, what is
/// asked of it.
fn needs(node: &Node, input: &Input, requested: Option<&Needed>, catalog: &Catalog) -> Needed {
    let Some(spec) = catalog.operator(&node.op) else { return Needed::new() };
    let Some(port) = spec.port(&input.port) else { return Needed::new() };
    let fixed = port.needs.iter().map(|c| c.to_string());
    let called = (spec.needs)(&node.with).into_iter().filter(|n| n.port == port.name).map(|n| n.column);
    let mut needed: Needed = fixed.chain(called).map(|column| (column, format!("`{}`", node.id))).collect();
    let main = node.inputs.iter().find(|i| spec.port(&i.port).map(|p| p.name) == spec.ports.first().map(|p| p.name));
    if spec.keeps && main == Some(input) {
        for (column, who) in requested.into_iter().flatten().filter(|(column, _)| !spec.columns(&node.with).contains(column)) {
            needed.entry(column.clone()).or_insert(who.clone());
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use crate::fixture::{catalog, GOOD, LOOPED};
    use crate::{parse, Pipeline};
    use std::collections::{BTreeMap, BTreeSet};

    fn good() -> Pipeline {
        parse("x", GOOD, &[], &catalog()).unwrap()
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| n.to_string()).collect()
    }

    fn ids(pipeline: &Pipeline) -> Vec<&str> {
        pipeline.nodes.iter().map(|n| n.id.as_str()).collect()
    }

    #[test]
    fn a_part_holds_what_the_wanted_follow_from_and_no_more() {
        let part = good().part(&set(&["advantage"]), &set(&["rollout"]));
        assert_eq!(ids(&part), ["rollout", "group", "advantage"]);
        assert!(part.node("rollout").unwrap().inputs.is_empty() && part.models.is_empty());
        assert_eq!(part.log, ["rollout"]);
        let part = good().part(&set(&["update"]), &set(&["advantage"]));
        assert_eq!((ids(&part), part.models.len()), (vec!["advantage", "update"], 1), "an update needs its model");
        let part = good().part(&set(&["rollout"]), &set(&["update"]));
        assert_eq!(ids(&part), ["tasks", "rollout", "update"], "through a delayed edge, and without what feeds it");
        let part = good().part(&set(&["group"]), &set(&[]));
        assert_eq!(ids(&part), ["tasks", "rollout", "group", "advantage", "update"], "weights come from all of them");
    }

    #[test]
    fn needs_come_through_operators_that_keep_columns() {
        let part = good().part(&set(&["advantage"]), &set(&["rollout"]));
        let requested = BTreeMap::from([("advantage".to_string(), BTreeSet::from(["advantage", "won"]))]);
        let needed = &part.needed(&requested, &catalog())["rollout"];
        let who = |column: &str| needed.get(column).map(String::as_str);
        assert_eq!((who("reward"), who("state"), who("won")), (Some("`group`"), Some("`group`"), Some("the expectation of `advantage`")));
        assert_eq!((who("group"), who("advantage"), who("version")), (None, None, None), "made on the way, or nobody's need");
    }

    #[test]
    fn a_test_feeds_a_loop_under_its_name_and_what_enters_it() {
        let whole = parse("x", LOOPED, &[], &catalog()).unwrap();
        let part = whole.part(&set(&["advantage"]), &set(&["trial"]));
        assert_eq!((ids(&part), part.models.len()), (vec!["trial", "group", "advantage"], 0));
        let needed = part.needed(&BTreeMap::from([("advantage".to_string(), BTreeSet::from(["reflection"]))]), &catalog());
        let keys: Vec<&str> = needed["trial"].keys().map(String::as_str).collect();
        assert_eq!(keys, ["reflection", "reward", "task"]);
        let part = whole.part(&set(&["trial"]), &set(&["tasks", "update"]));
        assert_eq!((ids(&part), part.models.len()), (vec!["tasks", "trial", "update"], 1));
        let needed = part.needed(&BTreeMap::new(), &catalog());
        assert_eq!(needed["tasks"].get("iteration").map(String::as_str), Some("`rollout`"), "the node in the loop that needs it");
        assert!(needed["update"].contains_key("version"));
    }
}
