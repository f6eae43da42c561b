//! The shape of a file: its keys and the types behind them. What stands under `nodes` is [`super::nodes`]' affair;
//! how the nodes fit together is looked at in [`super::flow`].

use super::catalog::Catalog;
use super::keep::Keep;
use super::nodes::{nodes, Draft};
use super::report::{listed, Report};
use super::settings::{self, Subject};
use super::tree::{Entry, Shape, Tree};
use super::trial::Test;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub const TOP: [&str; 9] = ["flow", "about", "iterations", "seed", "models", "nodes", "log", "keep", "tests"];

/// The file as far as it could be understood.
#[derive(Default)]
pub struct Sketch<'a> {
    pub name: String,
    pub about: String,
    pub iterations: u64,
    pub seed: u64,
    pub models: BTreeMap<String, Value>,
    pub nodes: Vec<Draft<'a>>,
    pub log: Vec<String>,
    pub keep: Keep,
    pub tests: Vec<Test>,
    /// Nodes that something names, be it with a typing error: nobody needs to hear that they are not used.
    pub mentioned: BTreeSet<String>,
}

impl<'a> Sketch<'a> {
    /// The loop in which the node `id` stands.
    pub fn around(&self, id: &str) -> Option<&'a str> {
        let outside = self.nodes.iter().any(|n| n.id == id && n.inside.is_none());
        let place = self.nodes.iter().find(|n| n.id == id && !outside)?.inside?;
        Some(self.nodes[place].id)
    }
}

/// That a node can't be seen from where it was named.
pub fn inner(id: &str, around: &str) -> String {
    format!("`{id}` stands inside the loop `{around}`")
}

/// Checks the whole tree.
pub fn check<'a>(tree: &'a Tree, catalog: &'a Catalog, report: &mut Report) -> Sketch<'a> {
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
    sketch.iterations = tree.get("iterations").and_then(|t| whole(t, "iterations", 1, u64::MAX, report)).unwrap_or(1);
    sketch.seed = tree.get("seed").and_then(|t| whole(t, "seed", 0, u64::MAX, report)).unwrap_or(0);
    models(tree, catalog, &mut sketch, report);
    nodes(tree, catalog, &mut sketch, report);
    log(tree, &mut sketch, report);
    keep(tree, &mut sketch, report);
    sketch
}

fn models(tree: &Tree, catalog: &Catalog, sketch: &mut Sketch, report: &mut Report) {
    let Some(models) = map(tree, "models", "a map from names to models", report) else { return };
    for Entry { key, at, value } in models.entries() {
        if !plain(key) {
            report.add(*at, format!("`{key}` can't be a model's name"), Some(PLAIN.into()));
        }
        let subject = Subject { whole: format!("the model `{key}`"), schema: &catalog.model, owner: *at };
        settings::check(value, &subject, report);
        sketch.models.insert(key.clone(), value.json());
    }
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
    let schema = Keep::schema();
    settings::check(keep, &Subject { whole: "`keep`".into(), schema: &schema, owner: keep.at }, report);
    // What doesn't fit has been reported.
    sketch.keep = serde_json::from_value(keep.json()).unwrap_or_default();
}

/// The map under `key`; an empty one counts as absent, anything else is reported.
pub fn map<'a>(tree: &'a Tree, key: &str, wanted: &str, report: &mut Report) -> Option<&'a Tree> {
    let value = tree.get(key)?;
    let fine = matches!(value.value, Shape::Map(_)) || value.is_null();
    if !fine {
        report.add(value.at, format!("`{key}` must be {wanted}, found {}", value.called()), None);
    }
    fine.then_some(value)
}

/// The whole number in there, if it is one and within the limits.
pub fn whole(tree: &Tree, key: &str, least: u64, most: u64, report: &mut Report) -> Option<u64> {
    let value = match &tree.value {
        Shape::Scalar(Value::Number(number)) => number.as_u64(),
        _ => None,
    };
    match value {
        Some(value) if (least..=most).contains(&value) => return Some(value),
        Some(value) if value > most => report.add(tree.at, format!("`{key}` must be at most {most}, found {value}"), None),
        _ => report.add(tree.at, format!("`{key}` must be a whole number of at least {least}, found {}", tree.called()), None),
    }
    None
}

/// Reports the keys of a map that have no meaning.
pub fn unknown_keys(tree: &Tree, known: &[&str], what: &str, report: &mut Report) {
    for entry in tree.entries().iter().filter(|e| !known.contains(&e.key.as_str())) {
        unknown_key(entry, known, what, report);
    }
}

/// Reports a key that has no meaning.
pub fn unknown_key(entry: &Entry, known: &[&str], what: &str, report: &mut Report) {
    let help = match entry.key.as_str() {
        "<<" => Some("merge keys aren't supported: write the keys out".into()),
        key => report
            .guess(key, known.iter().copied())
            .map(|k| format!("did you mean `{k}`?"))
            .or(Some(format!("its keys are {}", listed(known, "and")))),
    };
    report.add(entry.at, format!("{what} has no key `{}`", entry.key), help);
}

/// Whether a key that has no meaning was probably meant as `key`: then saying so is enough.
pub fn misspelt(tree: &Tree, key: &str, known: &[&str], report: &Report) -> bool {
    let strangers = tree.entries().iter().filter(|e| !known.contains(&e.key.as_str()));
    strangers.map(|e| report.guess(&e.key, known.iter().copied())).any(|guess| guess == Some(key))
}

/// What a name must be like.
pub const PLAIN: &str = "a name has letters, digits, `-` and `_`, and starts with a letter: it names folders and tables";

/// Whether a text can name a folder and a table.
pub fn plain(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}
