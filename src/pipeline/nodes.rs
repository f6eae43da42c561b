//! The nodes, one by one: their keys, and the names of operators, ports, nodes and models in them.

use super::catalog::{Catalog, Delay, OperatorSpec, Port};
use super::check::{map, misspelt, plain, unknown_keys, whole, Sketch, PLAIN};
use super::report::Report;
use super::settings::{self, Subject};
use super::tree::{At, Entry, Shape, Tree};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub const NODE: [&str; 3] = ["op", "inputs", "with"];
/// Beyond this a staleness is a slip of the pen.
pub const MOST_STALENESS: u64 = 1_000_000;
/// The settings of any operator that name an entry of `models:`.
pub const MODEL_SETTINGS: [&str; 2] = ["model", "reference"];
pub const EDGE: [&str; 2] = ["after", "staleness"];

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

/// Checks what stands under `nodes`, and that every model is used.
pub fn nodes<'a>(tree: &'a Tree, catalog: &'a Catalog, sketch: &mut Sketch<'a>, report: &mut Report) {
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
        draft.broken_inputs = misspelt(value, "inputs", &NODE, report);
        value.entries().iter().filter(|e| !["op", "with"].contains(&e.key.as_str())).for_each(|e| mention(&e.value, &mut sketch.mentioned));
        if let Some(inputs) = value.get("inputs") {
            let before = report.len();
            edges(inputs, &mut draft, &places, sketch, report);
            let wanted = inputs.entries().len().max(1);
            draft.broken_inputs |= report.len() > before && draft.edges.iter().filter(|e| e.spec.is_some()).count() < wanted;
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
        if misspelt(node, "op", &NODE, report) {
            return;
        }
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

/// Every text in there: the names that an input uses, whatever its form.
fn mention(tree: &Tree, into: &mut BTreeSet<String>) {
    match &tree.value {
        Shape::List(items) => items.iter().for_each(|t| mention(t, into)),
        Shape::Map(entries) => entries.iter().for_each(|e| mention(&e.value, into)),
        Shape::Scalar(_) => into.extend(tree.text().map(String::from)),
    }
}
