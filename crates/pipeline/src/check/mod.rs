//! A tree becomes a [`Sketch`], and everything that is wrong is reported: in this file the keys of the whole file, then
//! its nodes one by one (`nodes`), then how they fit together (`order`, `columns`, `ends`).

mod choices;
mod columns;
mod edges;
mod ends;
mod explain;
mod foreign;
mod keys;
mod loops;
mod names;
mod nodes;
mod order;
mod pipeline_tests;
mod resolve;
pub mod settings;
mod sketch;

pub use edges::MOST_STALENESS;
pub use explain::Subject;
pub use loops::schema as loop_schema;

use super::parse::{Report, Shape, Tree, TreeEntry};
use super::{Catalog, Code, Pipeline, WeightRetention};
use keys::{inner, map, misspelt, plain, unknown_keys, whole_number, PLAIN, TOP};
use nodes::nodes;
use serde_json::Value;
use sketch::Sketch;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The pipeline that stands in the tree, if nothing is wrong with it. Files of its tests are relative to `folder`;
/// whether they are there is looked at where `look` says so.
pub fn check(tree: &Tree, folder: &Path, look: bool, catalog: &Catalog, report: &mut Report) -> Option<Pipeline> {
    report.kind(Code::Key);
    let mut sketch = top(tree, catalog, report);
    report.kind(Code::Test);
    pipeline_tests::tests(tree, folder, look, &mut sketch, report);
    report.kind(Code::Order);
    let order = order::order(&sketch.nodes, report);
    report.kind(Code::Column);
    let columns = columns::columns(&sketch.nodes, &order.cyclic, catalog, report);
    report.kind(Code::Unused);
    ends::ends(&sketch, report);
    if report.len() > 0 {
        return None;
    }
    let columns = catalog.logged.is_empty().then_some(columns);
    let pipeline = resolve::pipeline(sketch, &order.sorted, &columns, tree.json());
    for mistake in (catalog.mistakes)(&pipeline) {
        report.kind(mistake.code);
        report.add(tree.deepest(pipeline.written(&mistake.at)).at, mistake.message, mistake.help);
    }
    (report.len() == 0).then_some(pipeline)
}

/// The values of the file's keys, without `tests`.
fn top<'a>(tree: &'a Tree, catalog: &'a Catalog, report: &mut Report) -> Sketch<'a> {
    let mut sketch = Sketch::default();
    if !matches!(tree.value, Shape::Map(_)) {
        report.add(tree.at, format!("a pipeline is a map with the keys `flow`, `iterations` and `nodes`, found {}", tree.called()), None);
        return sketch;
    }
    unknown_keys(tree, &TOP, "a pipeline", report);
    for key in ["flow", "iterations", "nodes"] {
        if tree.entry(key).is_none() && !misspelt(tree, key, &TOP, report) {
            let help = match key {
                "flow" => "write `flow: a-name` first: it names the pipeline",
                "iterations" => "write `iterations: 100`: how often to train",
                _ => "write `nodes:` and under it one entry a node, such as `tasks: { op: tasks }`",
            };
            report.add(tree.at, format!("the key `{key}` is missing"), Some(help.into()));
        }
    }
    if let Some(flow) = tree.get("flow") {
        match flow.text() {
            Some(name) if plain(name) => sketch.name = name.into(),
            Some(name) => report.add(flow.at, format!("`{name}` can't be a pipeline's name"), Some(PLAIN.into())),
            None => report.add(flow.at, format!("`flow` must be a name, found {}", flow.called()), Some(PLAIN.into())),
        }
    }
    if let Some(about) = tree.get("about") {
        match about.text() {
            Some(text) => sketch.about = text.into(),
            None => report.add(about.at, format!("`about` must be a text, found {}", about.called()), None),
        }
    }
    sketch.iterations = tree.get("iterations").and_then(|t| whole_number(t, "iterations", 1, u64::MAX, report)).unwrap_or(1);
    sketch.seed = tree.get("seed").and_then(|t| whole_number(t, "seed", 0, u64::MAX, report)).unwrap_or(0);
    (sketch.models, _) = entries(tree, "models", "model", &catalog.model, report);
    (sketch.agents, sketch.misfits) = entries(tree, "agents", "agent", &catalog.agent, report);
    report.kind(Code::Node);
    nodes(tree, catalog, &mut sketch, report);
    report.kind(Code::Key);
    log(tree, &mut sketch, report);
    keep(tree, &mut sketch, report);
    sketch
}

/// The entries of `models` or `agents`, each checked against the schema, and the names of entries that don't fit.
fn entries(tree: &Tree, key: &str, singular: &str, schema: &Value, report: &mut Report) -> (BTreeMap<String, Value>, BTreeSet<String>) {
    let mut misfits = BTreeSet::new();
    let Some(entries) = map(tree, key, &format!("a map from names to {key}"), report) else { return Default::default() };
    let entry = |TreeEntry { key, at, value }: &TreeEntry| {
        if !plain(key) {
            report.add(
                *at,
                format!("`{key}` can't be the name of {} {singular}", if singular == "agent" { "an" } else { "a" }),
                Some(PLAIN.into()),
            );
        }
        let subject = Subject { whole: format!("the {singular} `{key}`"), schema, owner: *at };
        if !settings::check(value, &subject, report) {
            misfits.insert(key.clone());
        }
        (key.clone(), value.json())
    };
    (entries.entries().iter().map(entry).collect(), misfits)
}

fn log(tree: &Tree, sketch: &mut Sketch, report: &mut Report) {
    let Some(log) = tree.get("log").filter(|t| !t.is_null()) else { return };
    let Shape::List(items) = &log.value else {
        return report.add(
            log.at,
            format!("`log` must be a list of nodes, found {}", log.called()),
            Some("write `log: [node, other]`".into()),
        );
    };
    for item in items {
        let Some(name) = item.text() else {
            report.add(item.at, format!("`log` must list names of nodes, found {}", item.called()), None);
            continue;
        };
        let known = || sketch.nodes.iter().filter(|n| n.inside.is_none()).map(|n| n.id);
        let around = sketch.around(name);
        if let Some(around) = around {
            report.add(item.at, inner(name, around), Some(format!("log the loop: `log: [{around}]`")));
            sketch.mentioned.insert(around.into());
        } else if !known().any(|id| id == name) {
            let guess = report.guess(name, known()).map(String::from);
            report.add(item.at, format!("there is no node `{name}` to log"), report.nearest(name, known()));
            sketch.mentioned.extend(guess);
        } else if sketch.log.iter().any(|n| n == name) {
            report.add(item.at, format!("`{name}` is logged twice"), None);
        } else {
            sketch.log.push(name.into());
        }
    }
}

fn keep(tree: &Tree, sketch: &mut Sketch, report: &mut Report) {
    let Some(keep) = tree.get("keep").filter(|t| !t.is_null()) else { return };
    let schema = WeightRetention::schema();
    settings::check(keep, &Subject { whole: "`keep`".into(), schema: &schema, owner: keep.at }, report);
    // What doesn't fit has been reported.
    sketch.keep = serde_json::from_value(keep.json()).unwrap_or_default();
}
