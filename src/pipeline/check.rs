//! The shape of a file: its keys, the types behind them, and the names of nodes, operators, ports and models.
//! What is understood becomes a [`Draft`]; how the drafts fit together is looked at in [`super::flow`].

use super::catalog::{Catalog, Delay, OperatorSpec, Port};
use super::report::{listed, Report};
use super::settings::{self, Subject};
use super::tree::{At, Entry, Shape, Tree};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub const TOP: [&str; 7] = ["flow", "about", "iterations", "seed", "models", "nodes", "log"];
pub const NODE: [&str; 3] = ["op", "inputs", "with"];
pub const EDGE: [&str; 2] = ["after", "staleness"];
/// The settings of any operator that name an entry of `models:`.
pub const MODEL_SETTINGS: [&str; 2] = ["model", "reference"];
/// Beyond this a staleness is a slip of the pen.
pub const MOST_STALENESS: u64 = 1_000_000;

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
    /// Nodes that something names, be it with a typing error: nobody needs to hear that they are not used.
    pub mentioned: BTreeSet<String>,
}

/// One node as far as it could be understood.
pub struct Draft<'a> {
    pub id: &'a str,
    pub at: At,
    pub op_at: At,
    pub spec: Option<&'a OperatorSpec>,
    pub edges: Vec<Edge<'a>>,
    /// Whether some input could not be understood, so that it is unknown which ports are fed.
    pub broken_inputs: bool,
    /// Its settings, if they fit.
    pub with: Option<Value>,
    pub with_tree: Option<&'a Tree>,
}

/// One input of a node.
pub struct Edge<'a> {
    pub port: &'a str,
    pub spec: Option<&'static Port>,
    pub from: &'a str,
    pub at: At,
    /// Which node is read, by position in the file; none if there is no such node.
    pub node: Option<usize>,
    pub staleness: Option<u64>,
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
        if tree.entry(key).is_none() {
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
            None => {
                report.add(flow.at, format!("`flow` must be a name, found {}", flow.called()), Some("text in quotes is a name too".into()))
            }
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

fn nodes<'a>(tree: &'a Tree, catalog: &'a Catalog, sketch: &mut Sketch<'a>, report: &mut Report) {
    let Some(nodes) = map(tree, "nodes", "a map from names to nodes", report) else { return };
    let names: Vec<&str> = nodes.entries().iter().map(|e| e.key.as_str()).collect();
    let places: BTreeMap<&str, usize> = names.iter().enumerate().map(|(i, n)| (*n, i)).collect();
    if names.is_empty() {
        let at = tree.entry("nodes").map_or(nodes.at, |e| e.at);
        report.add(at, "there are no nodes", Some("write one entry a node, such as `tasks: { op: tasks }`".into()));
    }
    let mut used = BTreeSet::new();
    for Entry { key, at, value } in nodes.entries() {
        if !plain(key) || key == "trajectories" {
            let help = if key == "trajectories" { "that is the view in which a query sees all nodes joined" } else { PLAIN };
            report.add(*at, format!("`{key}` can't be a node's name"), Some(help.into()));
        }
        let mut draft = Draft {
            id: key,
            at: *at,
            op_at: *at,
            spec: None,
            edges: Vec::new(),
            broken_inputs: false,
            with: None,
            with_tree: value.get("with"),
        };
        if !matches!(value.value, Shape::Map(_)) {
            let spot = if value.is_null() { *at } else { value.at };
            report.add(
                spot,
                format!("the node `{key}` must be a map with `op`, found {}", value.called()),
                Some(format!("write `{key}: {{ op: ... }}`")),
            );
            sketch.nodes.push(draft);
            continue;
        }
        unknown_keys(value, &NODE, "a node", report);
        operator(value, &mut draft, catalog, report);
        if let Some(inputs) = value.get("inputs") {
            mention(inputs, &mut sketch.mentioned);
            let before = report.len();
            edges(inputs, &mut draft, &places, sketch, report);
            let wanted = inputs.entries().len().max(1);
            draft.broken_inputs = report.len() > before && draft.edges.iter().filter(|e| e.spec.is_some()).count() < wanted;
        }
        with(value, &mut draft, sketch, &mut used, report);
        sketch.nodes.push(draft);
    }
    for entry in tree.get("models").map(Tree::entries).unwrap_or_default().iter().filter(|e| !used.contains(&e.key)) {
        let help = "name it in the setting `model` or `reference` of a node, or leave it out";
        report.add(entry.at, format!("nothing uses the model `{}`", entry.key), Some(help.into()));
    }
}

fn operator<'a>(node: &'a Tree, draft: &mut Draft<'a>, catalog: &'a Catalog, report: &mut Report) {
    let known = || catalog.operators.iter().map(|o| o.name);
    let Some(op) = node.get("op") else {
        let help =
            report.guess(draft.id, known()).map(|name| format!("write `op: {name}`")).unwrap_or("`flow ops` lists the operators".into());
        return report.add(draft.at, format!("the node `{}` has no `op`", draft.id), Some(help));
    };
    draft.op_at = op.at;
    let Some(name) = op.text() else {
        return report.add(op.at, format!("`op` must be an operator's name, found {}", op.called()), None);
    };
    draft.spec = catalog.operator(name);
    if draft.spec.is_none() {
        report.add(op.at, format!("there is no operator `{name}`"), report.nearest(name, known()));
    }
}

fn edges<'a>(inputs: &'a Tree, draft: &mut Draft<'a>, places: &BTreeMap<&str, usize>, sketch: &mut Sketch, report: &mut Report) {
    let ports = draft.spec.map(|s| s.ports).unwrap_or_default();
    match &inputs.value {
        Shape::Scalar(Value::String(_)) => match ports.first() {
            Some(port) if port.name == "*" => {
                report.add(
                    inputs.at,
                    format!("the inputs of `{}` have names of their own", draft.id),
                    Some("write `inputs: { a: node, b: other }`".into()),
                );
            }
            Some(port) => edge(port.name, inputs.at, inputs, draft, places, sketch, report),
            None if draft.spec.is_some() => {
                report.add(inputs.at, format!("`{}` reads nothing", draft.id), Some("leave `inputs` out".into()))
            }
            None => edge("", inputs.at, inputs, draft, places, sketch, report),
        },
        Shape::Map(entries) => {
            for entry in entries {
                edge(&entry.key, entry.at, &entry.value, draft, places, sketch, report);
            }
        }
        Shape::List(_) => {
            let help = "give each its port: `inputs: { port: node, other_port: other_node }`";
            report.add(
                inputs.at,
                format!("`inputs` of `{}` is a node or a map from ports to nodes, a list of nodes has no meaning", draft.id),
                Some(help.into()),
            );
        }
        _ => report.add(inputs.at, format!("`inputs` is a node or a map from ports to nodes, found {}", inputs.called()), None),
    }
}

fn edge<'a>(
    port: &'a str,
    port_at: At,
    from: &'a Tree,
    draft: &mut Draft<'a>,
    places: &BTreeMap<&str, usize>,
    sketch: &mut Sketch,
    report: &mut Report,
) {
    let spec = draft.spec.and_then(|s| s.port(port));
    if let (None, Some(op)) = (spec, draft.spec) {
        let names: Vec<&str> = op.ports.iter().map(|p| p.name).collect();
        let help = match (EDGE.contains(&port), op.ports.first()) {
            (_, None) => Some(format!("`{}` reads nothing", op.name)),
            (true, Some(first)) => Some(format!("name the port: `inputs: {{ {}: {{ after: node }} }}`", first.name)),
            (false, _) => report.nearest(port, names),
        };
        report.add(port_at, format!("`{}` has no port `{port}`", op.name), help);
        if EDGE.contains(&port) {
            return;
        }
    }
    let delayed = matches!(from.value, Shape::Map(_));
    let mut staleness = None;
    let named = if delayed {
        unknown_keys(from, &EDGE, "a delayed edge", report);
        let k = from.get("staleness").map_or(Some(0), |t| whole(t, "staleness", 0, MOST_STALENESS, report));
        staleness = Some(k.unwrap_or(0));
        let Some(after) = from.get("after") else {
            return report.add(port_at, "a delayed edge needs `after`", Some(format!("write `{port}: {{ after: node, staleness: 0 }}`")));
        };
        after
    } else {
        from
    };
    let Some(name) = named.text() else {
        let help = format!("write `{port}: node`, or `{port}: {{ after: node, staleness: 0 }}`");
        return report.add(named.at, format!("the input `{port}` must be a node's name, found {}", named.called()), Some(help));
    };
    match spec.map(|s| s.delay) {
        Some(Delay::Never) if delayed => {
            let message = format!("the port `{port}` of `{}` takes rows of the same iteration only", draft.id);
            report.add(from.at, message, Some(format!("write `{port}: {name}`")));
        }
        Some(Delay::Always) if !delayed => {
            let message = format!("the port `{port}` of `{}` takes what an earlier iteration made", draft.id);
            report.add(from.at, message, Some(format!("write `{port}: {{ after: {name}, staleness: 0 }}`")));
        }
        _ => (),
    }
    let node = places.get(name).copied();
    if node.is_none() {
        sketch.mentioned.extend(report.guess(name, places.keys().copied()).map(String::from));
        report.add(named.at, format!("there is no node `{name}`"), report.nearest(name, places.keys().copied()));
    }
    draft.edges.push(Edge { port, spec, from: name, at: named.at, node, staleness });
}

fn with(node: &Tree, draft: &mut Draft, sketch: &Sketch, used: &mut BTreeSet<String>, report: &mut Report) {
    let empty = Tree { at: draft.op_at, value: Shape::Map(Vec::new()) };
    let entry = node.entry("with");
    // `with:` and nothing behind it is a map that has yet to be filled.
    let tree = entry.map(|e| &e.value).filter(|t| !t.is_null()).unwrap_or(&empty);
    if let Some(spec) = draft.spec {
        let subject = Subject { whole: format!("`{}`", spec.name), schema: &spec.settings, owner: entry.map_or(draft.op_at, |e| e.at) };
        if settings::check(tree, &subject, report) {
            draft.with = Some(tree.json());
        }
    }
    for key in MODEL_SETTINGS {
        let fallback = || draft.spec.and_then(|s| s.settings.pointer(&format!("/properties/{key}/default"))?.as_str());
        let (name, at) = match tree.get(key) {
            Some(value) => (value.text(), value.at),
            None => (fallback(), draft.op_at),
        };
        let Some(name) = name else { continue };
        used.insert(name.into());
        if !sketch.models.contains_key(name) {
            let known = || sketch.models.keys().map(String::as_str);
            used.extend(report.guess(name, known()).map(String::from));
            let help = report.nearest(name, known()).or(Some(format!("write `models: {{ {name}: {{ ... }} }}` above the nodes")));
            report.add(at, format!("there is no model `{name}`"), help);
        }
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
        let known = || sketch.nodes.iter().map(|n| n.id);
        if !known().any(|id| id == name) {
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

/// The map under `key`; an empty one counts as absent, anything else is reported.
fn map<'a>(tree: &'a Tree, key: &str, wanted: &str, report: &mut Report) -> Option<&'a Tree> {
    let value = tree.get(key)?;
    let fine = matches!(value.value, Shape::Map(_)) || value.is_null();
    if !fine {
        report.add(value.at, format!("`{key}` must be {wanted}, found {}", value.called()), None);
    }
    fine.then_some(value)
}

fn whole(tree: &Tree, key: &str, least: u64, most: u64, report: &mut Report) -> Option<u64> {
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

fn unknown_keys(tree: &Tree, known: &[&str], what: &str, report: &mut Report) {
    for entry in tree.entries().iter().filter(|e| !known.contains(&e.key.as_str())) {
        let help = match entry.key.as_str() {
            "<<" => Some("merge keys aren't supported: write the keys out".into()),
            key => report
                .guess(key, known.iter().copied())
                .map(|k| format!("did you mean `{k}`?"))
                .or(Some(format!("its keys are {}", listed(known, "and")))),
        };
        report.add(entry.at, format!("{what} has no key `{}`", entry.key), help);
    }
}

/// Every text in there: the names that an input uses, whatever its form.
fn mention(tree: &Tree, into: &mut BTreeSet<String>) {
    match &tree.value {
        Shape::List(items) => items.iter().for_each(|t| mention(t, into)),
        Shape::Map(entries) => entries.iter().for_each(|e| mention(&e.value, into)),
        Shape::Scalar(_) => into.extend(tree.text().map(String::from)),
    }
}

const PLAIN: &str = "a name has letters, digits, `-` and `_`, and starts with a letter: it names folders and tables";

/// Whether a name can name a folder and a table.
fn plain(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}
