//! Checks loops: their keys, their outputs, and what their nodes read from one another and from outside.

use super::explain::Subject;
use super::keys::{misspelt, unknown_key, LOOP_KEYS};
use super::names::{mention, NodeNames};
use super::settings;
use super::sketch::{Draft, DraftEdge, Loop, Sketch};
use crate::parse::{listed, Report, Shape, Tree};
use crate::Until;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The value of `loop`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoopSettings {
    /// How many attempts there are at a task, at most.
    #[schemars(range(min = 1, max = 100))]
    attempts: u32,
    /// When a trial is over before its last attempt.
    #[serde(default)]
    until: Until,
}

/// JSON Schema of the value of `loop`.
pub fn schema() -> Value {
    schemars::schema_for!(LoopSettings).to_value()
}

/// Says that a node is an operator and a loop at once.
pub fn both(node: &Tree, id: &str, report: &mut Report) {
    let (Some(op), Some(_)) = (node.entry("op"), node.entry("loop")) else { return };
    let help = if node.entry("nodes").is_some() {
        "leave `op` out: the operators of a loop stand under its `nodes`".into()
    } else {
        format!("put the operator into the loop: `{id}: {{ loop: ..., nodes: {{ other: {{ op: ... }} }}, output: other }}`")
    };
    report.add(op.at, format!("`{id}` has both `op` and `loop`: a node is one operator or a loop of several"), Some(help));
}

/// Checks the keys of the loop at position `place`; its nodes are checked like all others.
pub fn body(tree: &Tree, place: usize, draft: &mut Draft, names: &NodeNames, sketch: &mut Sketch, report: &mut Report) {
    let id = draft.id;
    both(tree, id, report);
    for entry in tree.entries() {
        match entry.key.as_str() {
            "loop" | "nodes" | "output" => (),
            "op" if tree.entry("loop").is_some() => (),
            "op" => {
                let help = "write `loop: { attempts: 3, until: won }` in its place".into();
                report.add(entry.value.at, "there is no operator `loop`", Some(help));
            }
            "inputs" => {
                let help = "give its inner nodes their inputs: they may read any node outside, as nodes outside do".into();
                report.add(entry.at, format!("the loop `{id}` has no `inputs` of its own"), Some(help));
            }
            "with" => {
                let help = "`attempts` and `until` stand under `loop`, the settings of an operator under the `with` of its inner node";
                report.add(entry.at, format!("the loop `{id}` has no settings"), Some(help.into()));
            }
            _ => unknown_key(entry, &LOOP_KEYS, "a loop", report),
        }
    }
    let mut missing = |key: &str, help: String| {
        if tree.entry(key).is_none() && !misspelt(tree, key, &LOOP_KEYS, report) {
            report.add(draft.at, format!("the loop `{id}` has no `{key}`"), Some(help));
        }
    };
    let first = names.within(place).next().map(|i| names.nodes[i].entry.key.as_str());
    if tree.entry("op").is_none() {
        missing("loop", "write `loop: { attempts: 3, until: won }`".into());
    }
    missing("nodes", "write `nodes:` and under it the nodes of one attempt, such as `rollout: { op: rollout }`".into());
    missing("output", format!("write `output: {}`: the inner nodes whose rows are those of `{id}`", first.unwrap_or("node")));
    if let Some(nodes) = tree.entry("nodes") {
        if !matches!(nodes.value.value, Shape::Map(_)) && !nodes.value.is_null() {
            let message = format!("`nodes` of the loop `{id}` must be a map from names to nodes, found {}", nodes.value.called());
            report.add(nodes.value.at, message, Some("write one entry a node, such as `rollout: { op: rollout }`".into()));
        } else if nodes.value.entries().is_empty() {
            report.add(nodes.at, format!("there are no nodes in the loop `{id}`"), Some("write one entry a node".into()));
        }
    }
    let trial = trial(tree, id, report).unwrap_or(LoopSettings { attempts: 1, until: Until::default() });
    let at = tree.get("loop").and_then(|t| t.get("attempts")).map_or(draft.at, |t| t.at);
    let output = tree.get("output").map(|output| outputs(output, place, id, names, sketch, report)).unwrap_or_default();
    draft.body = Some(Loop { attempts: trial.attempts, until: trial.until, at, output });
}

fn trial(tree: &Tree, id: &str, report: &mut Report) -> Option<LoopSettings> {
    let entry = tree.entry("loop")?;
    let empty = Tree { at: entry.at, value: Shape::Map(Vec::new()) };
    let value = if entry.value.is_null() { &empty } else { &entry.value };
    if !matches!(value.value, Shape::Map(_)) {
        let message = format!("`loop` of `{id}` must be a map with `attempts`, found {}", value.called());
        report.add(value.at, message, Some("write `loop: { attempts: 3, until: won }`".into()));
        return None;
    }
    let subject = Subject { whole: format!("the loop `{id}`"), schema: &schema(), owner: entry.at };
    settings::check(value, &subject, report).then(|| serde_json::from_value(value.json()).ok()).flatten()
}

/// The nodes named behind `output`, by position.
fn outputs(tree: &Tree, place: usize, id: &str, names: &NodeNames, sketch: &mut Sketch, report: &mut Report) -> Vec<usize> {
    mention(tree, &mut sketch.mentioned);
    let items = match &tree.value {
        Shape::List(items) => items.iter().collect(),
        _ => vec![tree],
    };
    if items.is_empty() {
        report.add(tree.at, format!("the loop `{id}` puts nothing out"), Some("name an inner node, or several in a list".into()));
    }
    // A loop without nodes was reported.
    if names.within(place).next().is_none() {
        return Vec::new();
    }
    let own = || names.within(place).map(|i| names.nodes[i].entry.key.as_str());
    let mut outputs = Vec::new();
    for item in items {
        let Some(name) = item.text() else {
            let help = Some("write `output: node`, or `output: [node, other]`".into());
            report.add(item.at, format!("`output` of `{id}` must be an inner node or a list of them, found {}", item.called()), help);
            continue;
        };
        match names.find(name, Some(place)) {
            Some(i) if names.nodes[i].inside == Some(place) && outputs.contains(&i) => {
                report.add(item.at, format!("`{name}` is put out twice"), None)
            }
            Some(i) if names.nodes[i].inside == Some(place) => outputs.push(i),
            Some(_) => {
                let own: Vec<&str> = own().collect();
                let help = Some(format!("inside {} {}", if own.len() == 1 { "stands" } else { "stand" }, listed(&own, "and")));
                report.add(item.at, format!("`{name}` stands outside the loop `{id}`, which puts out rows of its own nodes"), help);
            }
            None => {
                sketch.mentioned.extend(report.guess(name, own()).map(String::from));
                report.add(item.at, format!("there is no node `{name}` in the loop `{id}`"), report.nearest(name, own()));
            }
        }
    }
    outputs
}

/// Gives the loops their edges, which are those of their nodes to nodes outside, and reports loops whose second attempt
/// nothing starts.
pub fn close(nodes: &mut [Draft], report: &mut Report) {
    for place in 0..nodes.len() {
        let Some(body) = &nodes[place].body else { continue };
        let inner = || nodes.iter().filter(|d| d.inside == Some(place));
        let mut edges: Vec<DraftEdge> = Vec::new();
        for edge in inner().flat_map(|d| &d.edges).filter(|e| e.in_time() || e.staleness.is_some()) {
            let known = edges.iter().any(|e| e.node == edge.node && e.staleness == edge.staleness);
            if !known && edge.node.is_some_and(|from| nodes[from].inside.is_none()) {
                edges.push(DraftEdge { port: edge.from, spec: None, ..*edge });
            }
        }
        let again = |e: &DraftEdge| !e.in_time() && e.node.is_some_and(|n| nodes[n].inside == Some(place));
        let again = inner().flat_map(|d| &d.edges).any(again);
        // What could not be understood may have been such an edge.
        let understood = inner().all(|d| d.spec.is_some() && !d.broken_inputs && d.edges.iter().all(|e| e.node.is_some()));
        if body.attempts > 1 && !again && understood && inner().next().is_some() {
            let help =
                "let a node inside read `{ after: other }`, what another node inside made in the attempt before, or write `attempts: 1`";
            report.add(body.at, format!("nothing starts the second attempt of `{}`", nodes[place].id), Some(help.into()));
        }
        nodes[place].edges = edges;
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{catalog, LOOPED};
    use crate::parse;

    /// What is right, and what is told about once. The snapshots in tests/pipelines/broken show the other mistakes.
    #[test]
    fn a_mistake_in_a_loop_is_told_once_and_where() {
        for (from, to, expected) in [
            ("output: [rollout, reflect]", "output: rollout", [].as_slice()),
            ("attempts: 3", "attempts: 1", [].as_slice()),
            (", until: won", "", [].as_slice()),
            ("log: [trial, ", "log: [", [].as_slice()),
            ("memory: { after: reflect }", "memory: { after: other }", ["13:78: there is no node `other`"].as_slice()),
            ("attempts: 3", "attempts: 0", ["8:23: `attempts` must be at least 1, found the number 0"].as_slice()),
            ("attempts: 3", "attempts: 101", ["8:23: `attempts` must be at most 100, found the number 101"].as_slice()),
            ("attempts: 3, ", "", ["8:5: the loop `trial` needs the setting `attempts`"].as_slice()),
            ("{ attempts: 3, until: won }", "", ["8:5: the loop `trial` needs the setting `attempts`"].as_slice()),
            ("until: won", "until: wins", ["8:33: `until` must be one of `won` and `never`, found the text `wins`"].as_slice()),
            ("loop: { attempts: 3, until: won }", "lop: { attempts: 3 }", ["8:5: a loop has no key `lop`"].as_slice()),
            ("    loop: { attempts: 3, until: won }\n", "", ["7:3: the loop `trial` has no `loop`"].as_slice()),
            ("loop: { attempts: 3, until: won }", "op: loop", ["8:9: there is no operator `loop`"].as_slice()),
            ("    output: [rollout, reflect]\n", "", ["7:3: the loop `trial` has no `output`"].as_slice()),
            ("output: [rollout, reflect]", "outputs: [rollout, reflect]", ["15:5: a loop has no key `outputs`"].as_slice()),
            (
                "output: [rollout, reflect]",
                "output: [rolout, reflect]",
                ["15:14: there is no node `rolout` in the loop `trial`"].as_slice(),
            ),
            ("{ after: reflect }", "reflect", ["13:69: the port `memory` of `rollout` takes what an earlier attempt made"].as_slice()),
            ("{ after: reflect }", "{ after: reflct }", ["13:78: there is no node `reflct`"].as_slice()),
            (
                "rows: rollout",
                "rows: { after: rollout }",
                ["10:47: the port `rows` of `reflect` takes rows of the same attempt only"].as_slice(),
            ),
            (
                "memory: { after: reflect }",
                "memory: { after: rollout }",
                ["13:78: the port `memory` of `rollout` needs the column `reflection`, and nothing up to `rollout` makes it"].as_slice(),
            ),
            ("model: actor, samples", "model: acter, samples", ["14:24: there is no model `acter`"].as_slice()),
            ("op: reflect", "op: reflct", ["10:22: there is no operator `reflct`"].as_slice()),
            (
                "by: [task]",
                "by: [task, state]",
                ["16:57: `group` needs the column `state` here, and `reflect`, of the nodes that `trial` puts out, doesn't make it"]
                    .as_slice(),
            ),
            ("inputs: trial", "inputs: tria", ["16:31: there is no node `tria`"].as_slice()),
            ("log: [trial", "log: [rollout", ["19:7: `rollout` stands inside the loop `trial`"].as_slice()),
        ] {
            assert!(LOOPED.contains(from), "{from}");
            let diagnostics = parse("x", &LOOPED.replacen(from, to, 1), &[], &catalog()).err().map(|d| d.0).unwrap_or_default();
            let lines: Vec<String> = diagnostics.into_iter().map(|d| format!("{}:{}: {}", d.line, d.column, d.message)).collect();
            assert_eq!(lines, expected, "{from} -> {to}");
        }
    }
}
