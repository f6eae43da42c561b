//! The edges into a node: ports, the nodes that feed them, and delays.

use super::catalog::{Delay, Port};
use super::check::{unknown_keys, whole, Sketch};
use super::nodes::Draft;
use super::report::Report;
use super::tree::{At, Shape, Tree};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub const EDGE: [&str; 2] = ["after", "staleness"];
/// Beyond this a staleness is a slip of the pen.
pub const MOST_STALENESS: u64 = 1_000_000;

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

/// Understands what stands behind `inputs`.
pub fn edges<'a>(inputs: &'a Tree, draft: &mut Draft<'a>, places: &BTreeMap<&str, usize>, sketch: &mut Sketch, report: &mut Report) {
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

/// Every text in there: the names that an input uses, whatever its form.
pub fn mention(tree: &Tree, into: &mut BTreeSet<String>) {
    match &tree.value {
        Shape::List(items) => items.iter().for_each(|t| mention(t, into)),
        Shape::Map(entries) => entries.iter().for_each(|e| mention(&e.value, into)),
        Shape::Scalar(_) => into.extend(tree.text().map(String::from)),
    }
}
