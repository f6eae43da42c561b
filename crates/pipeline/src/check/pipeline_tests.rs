//! `tests`: rows fed to some nodes, rows expected from others. `flow test` runs them; a training has no use for them.

use super::explain::Subject;
use super::keys::inner;
use super::settings;
use super::sketch::{Draft, Sketch};
use crate::parse::{Report, Shape, Tree, TreeEntry};
use crate::Test;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Checks the value of `tests`. Files are relative to `folder`; that they are there is checked where `look` says so.
pub fn tests(tree: &Tree, folder: &Path, look: bool, sketch: &mut Sketch, report: &mut Report) {
    let Some(list) = tree.get("tests").filter(|t| !t.is_null()) else { return };
    let Shape::List(items) = &list.value else {
        let help = "write `tests:` and under it one `- { name: ..., feed: { node: rows.jsonl }, expect: { node: rows.jsonl } }` a test";
        return report.add(list.at, format!("`tests` must be a list of tests, found {}", list.called()), Some(help.into()));
    };
    let schema = Test::schema();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for item in items {
        let fits = settings::check(item, &Subject { whole: "a test".into(), schema: &schema, owner: item.at }, report);
        if let Some((name, at)) = item.get("name").and_then(|n| Some((n.text()?, n.at))) {
            match names.get(name) {
                Some(line) => report.add(at, format!("there are two tests `{name}`"), Some(format!("the first is in line {line}"))),
                None => drop(names.insert(name, report.line(at))),
            }
        }
        let mut known = true;
        for TreeEntry { key, at, value } in ["feed", "expect"].iter().filter_map(|k| item.get(k)).flat_map(Tree::entries) {
            let nodes = || sketch.nodes.iter().filter(|n| n.inside.is_none()).map(|n| n.id);
            if let Some(around) = sketch.around(key) {
                known = false;
                report.add(*at, inner(key, around), Some(format!("feed and expect the rows of `{around}`")));
            } else if !nodes().any(|id| id == key) {
                known = false;
                report.add(*at, format!("there is no node `{key}`"), report.nearest(key, nodes()));
            }
            if let Some(path) = value.text().map(|file| folder.join(file)).filter(|path| look && !path.is_file()) {
                let help = format!("looked for {}: paths are relative to the pipeline's file", path.display());
                report.add(value.at, "there is no such file", Some(help));
            }
        }
        // What doesn't fit has been reported.
        let Some(mut test) = fits.then(|| serde_json::from_value::<Test>(item.json()).ok()).flatten() else { continue };
        if known {
            useless(item, &test, &sketch.nodes, report);
        }
        test.feed.values_mut().chain(test.expect.values_mut()).for_each(|file| *file = folder.join(&*file));
        sketch.tests.push(test);
    }
}

/// Reports feeds that reach no expected node, and expectations of fed nodes.
fn useless(item: &Tree, test: &Test, nodes: &[Draft], report: &mut Report) {
    let place = |id: &str| nodes.iter().position(|n| n.id == id);
    let mut reached: BTreeSet<usize> = BTreeSet::new();
    let mut walk: Vec<usize> = test.expect.keys().filter_map(|id| place(id)).collect();
    while let Some(node) = walk.pop() {
        if reached.insert(node) && !test.feed.contains_key(nodes[node].id) {
            walk.extend(nodes[node].edges.iter().filter_map(|e| e.node));
        }
    }
    for TreeEntry { key, at, .. } in item.get("expect").map(Tree::entries).unwrap_or_default() {
        if test.feed.contains_key(key) {
            report.add(*at, format!("`{key}` is fed, so its rows are no result"), Some("expect rows of a node that reads it".into()));
        }
    }
    for TreeEntry { key, at, .. } in item.get("feed").map(Tree::entries).unwrap_or_default() {
        if !place(key).is_some_and(|node| reached.contains(&node)) {
            let help = "expect rows of a node that reads it, or leave it out";
            report.add(*at, format!("the rows of `{key}` reach none of the nodes from which rows are expected"), Some(help.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{catalog, GOOD};
    use crate::parse;
    use std::path::PathBuf;

    fn with(tests: &str) -> Result<crate::Pipeline, String> {
        parse("folder/x.yaml", &format!("{GOOD}tests:\n{tests}\n"), &[], &catalog()).map_err(|d| d.to_string())
    }

    #[test]
    fn files_lie_beside_the_pipeline_and_the_tolerance_is_small() {
        let pipeline = with("  - { name: grpo, feed: { rollout: a.jsonl }, expect: { advantage: /b.jsonl } }").unwrap();
        let test = &pipeline.tests[0];
        assert_eq!((test.feed["rollout"].clone(), test.expect["advantage"].clone()), ("folder/a.jsonl".into(), PathBuf::from("/b.jsonl")));
        assert_eq!((test.name.as_str(), test.tolerance), ("grpo", 1e-6));
        assert!(pipeline.source.get("tests").is_none(), "what a run keeps has no tests");
        assert!(with("").unwrap().tests.is_empty());
    }

    #[test]
    fn nodes_that_cannot_meet_are_reported() {
        let message = with("  - { name: a, feed: { rollout: a, tasks: t }, expect: { group: b } }").unwrap_err();
        assert!(message.contains("the rows of `tasks` reach none") && !message.contains("`rollout` reach"), "{message}");
        let message = with("  - { name: a, feed: { group: a }, expect: { group: b } }").unwrap_err();
        assert!(message.contains("`group` is fed, so its rows are no result"), "{message}");
        assert!(with("  - { name: a, feed: { update: a }, expect: { rollout: b } }").is_ok(), "around a delayed edge");
    }
}
