//! The edges into a node: ports, the nodes that feed them, and delays.

use super::keys::{inner, unknown_keys, whole_number, EDGE};
use super::names::NodeNames;
use super::sketch::{Draft, DraftEdge, Sketch};
use crate::parse::{Location, Report, Shape, Tree};
use crate::Delay;
use serde_json::Value;

/// A larger staleness was mistyped.
pub const MOST_STALENESS: u64 = 1_000_000;

/// Parses the value of `inputs`.
pub fn edges<'a>(inputs: &'a Tree, draft: &mut Draft<'a>, names: &NodeNames<'a>, sketch: &mut Sketch, report: &mut Report) {
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
            Some(port) => edge(port.name, inputs.at, inputs, draft, names, sketch, report),
            None if draft.spec.is_some() => {
                report.add(inputs.at, format!("`{}` reads nothing", draft.id), Some("leave `inputs` out".into()))
            }
            None => edge("", inputs.at, inputs, draft, names, sketch, report),
        },
        Shape::Map(entries) => {
            for entry in entries {
                edge(&entry.key, entry.at, &entry.value, draft, names, sketch, report);
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
    port_at: Location,
    from: &'a Tree,
    draft: &mut Draft<'a>,
    names: &NodeNames<'a>,
    sketch: &mut Sketch,
    report: &mut Report,
) {
    // The keys of a delayed edge can't be names of inputs where the first port has a name.
    let named = draft.spec.and_then(|s| s.ports.first()).is_some_and(|first| first.name != "*");
    let spec = draft.spec.and_then(|s| s.port(port)).filter(|p| p.name != "*" || !named || !EDGE.contains(&port));
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
        let k = from.get("staleness").map_or(Some(0), |t| whole_number(t, "staleness", 0, MOST_STALENESS, report));
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
    let node = names.find(name, draft.inside);
    let fellow = draft.inside.is_some() && node.is_some_and(|i| names.nodes[i].inside == draft.inside);
    let time = if fellow { "attempt" } else { "iteration" };
    if let (true, Some(staleness)) = (fellow && delayed, from.entry("staleness")) {
        let help = format!("write `{port}: {{ after: {name} }}`: what `{name}` made in the attempt before");
        report.add(staleness.at, "attempts follow one another, so there is no `staleness` between them", Some(help));
    }
    match spec.map(|s| s.delay) {
        Some(Delay::Never) if delayed => {
            let message = format!("the port `{port}` of `{}` takes rows of the same {time} only", draft.id);
            report.add(from.at, message, Some(format!("write `{port}: {name}`")));
        }
        Some(Delay::Always) if !delayed => {
            let message = format!("the port `{port}` of `{}` takes what an earlier {time} made", draft.id);
            let staleness = if fellow { "" } else { ", staleness: 0" };
            report.add(from.at, message, Some(format!("write `{port}: {{ after: {name}{staleness} }}`")));
        }
        _ => (),
    }
    let hidden = node.and_then(|i| names.hidden(i, draft.inside));
    if let Some(around) = hidden {
        sketch.mentioned.insert(around.into());
        let whole = if delayed { format!("{{ after: {around} }}") } else { around.into() };
        let help = format!("read the loop: `{port}: {whole}`");
        report.add(named.at, inner(name, around), Some(help));
    } else if node.is_some() && node == draft.inside && !delayed {
        let earlier = format!(", or what it made in an earlier iteration: `{{ after: {name} }}`");
        let earlier = if spec.is_some_and(|p| p.delay == Delay::Never) { String::new() } else { earlier };
        let help = format!("read another node{earlier}");
        report.add(
            named.at,
            format!("`{}` stands inside `{name}`, whose rows are there after its last attempt only", draft.id),
            Some(help),
        );
    } else if node.is_none() {
        sketch.mentioned.extend(report.guess(name, names.visible_from(draft.inside)).map(String::from));
        report.add(named.at, format!("there is no node `{name}`"), report.nearest(name, names.visible_from(draft.inside)));
    }
    let node = node.filter(|i| hidden.is_none() && (Some(*i) != draft.inside || delayed));
    draft.edges.push(DraftEdge { port, spec, from: name, at: named.at, node, staleness });
}
