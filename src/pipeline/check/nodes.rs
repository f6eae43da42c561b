//! The nodes, one by one: their keys, and the names of operators and models in them.

use super::edges::edges;
use super::explain::Subject;
use super::keys::{is_loop, map, misspelt, unknown_key, NODE};
use super::loops::{self, body, both};
use super::names::{mention, Names, Seat};
use super::settings;
use super::sketch::{Draft, Sketch};
use crate::pipeline::parse::{listed, Entry, Report, Shape, Tree};
use crate::pipeline::resolved::{LOOP, MODEL_SETTINGS};
use crate::pipeline::{Catalog, With};
use std::collections::BTreeSet;

/// Checks what stands under `nodes`, and that every model is used.
pub fn nodes<'a>(tree: &'a Tree, catalog: &'a Catalog, sketch: &mut Sketch<'a>, report: &mut Report) {
    let Some(nodes) = map(tree, "nodes", "a map from names to nodes", report) else { return };
    if nodes.entries().is_empty() {
        let at = tree.entry("nodes").map_or(nodes.at, |e| e.at);
        report.add(at, "there are no nodes", Some("write one entry a node, such as `tasks: { op: tasks }`".into()));
    }
    let names = Names::collect(nodes, report);
    let mut used = BTreeSet::new();
    for (place, Seat { entry, inside }) in names.seats().iter().enumerate() {
        let draft = node(entry, (place, *inside), &names, catalog, (sketch, &mut used), report);
        sketch.nodes.push(draft);
    }
    loops::close(&mut sketch.nodes, report);
    for entry in tree.get("models").map(Tree::entries).unwrap_or_default().iter().filter(|e| !used.contains(&e.key)) {
        let help = "name it in the setting `model`, `reference`, `encoder` or `critic` of a node, or leave it out";
        report.add(entry.at, format!("nothing uses the model `{}`", entry.key), Some(help.into()));
    }
}

/// One node: an operator or a loop.
fn node<'a>(
    Entry { key, at, value }: &'a Entry,
    (place, inside): (usize, Option<usize>),
    names: &Names<'a>,
    catalog: &'a Catalog,
    (sketch, used): (&mut Sketch, &mut BTreeSet<String>),
    report: &mut Report,
) -> Draft<'a> {
    let mut draft = Draft {
        id: key,
        at: *at,
        op_at: *at,
        inside,
        spec: None,
        edges: Vec::new(),
        broken_inputs: false,
        with: None,
        with_tree: value.get("with"),
        body: None,
    };
    if !matches!(value.value, Shape::Map(_)) {
        let spot = if value.is_null() { *at } else { value.at };
        let message = format!("the node `{key}` must be a map with `op`, found {}", value.called());
        report.add(spot, message, Some(format!("write `{key}: {{ op: ... }}`")));
        return draft;
    }
    if let (true, Some(around)) = (is_loop(value), inside) {
        mention(value, &mut sketch.mentioned);
        let help = "a loop holds operators only: put its nodes into the outer one, or the loop beside it";
        report.add(*at, format!("`{key}` is a loop inside the loop `{}`", names.seats()[around].entry.key), Some(help.into()));
        return draft;
    }
    if is_loop(value) {
        body(value, place, &mut draft, names, sketch, report);
        return draft;
    }
    both(value, key, report);
    value
        .entries()
        .iter()
        .filter(|e| !NODE.contains(&e.key.as_str()) && e.key != LOOP)
        .for_each(|e| unknown_key(e, &NODE, "a node", report));
    operator(value, &mut draft, catalog, report);
    draft.broken_inputs = misspelt(value, "inputs", &NODE, report);
    value.entries().iter().filter(|e| !["op", "with"].contains(&e.key.as_str())).for_each(|e| mention(&e.value, &mut sketch.mentioned));
    if let Some(inputs) = value.get("inputs") {
        let before = report.len();
        edges(inputs, &mut draft, names, sketch, report);
        let wanted = inputs.entries().len().max(1);
        draft.broken_inputs |= report.len() > before && draft.edges.iter().filter(|e| e.spec.is_some()).count() < wanted;
    }
    with(value, &mut draft, sketch, used, report);
    draft
}

fn operator<'a>(node: &'a Tree, draft: &mut Draft<'a>, catalog: &'a Catalog, report: &mut Report) {
    let known = || catalog.operators.iter().map(|o| o.name);
    let Some(op) = node.get("op") else {
        if misspelt(node, "op", &NODE, report) {
            return;
        }
        let meant = known().find(|name| *name == draft.id).or_else(|| report.guess(draft.id, known()));
        let help = meant.map(|name| format!("write `op: {name}`")).unwrap_or("`flow ops` lists the operators".into());
        return report.add(draft.at, format!("the node `{}` has no `op`", draft.id), Some(help));
    };
    draft.op_at = op.at;
    let Some(name) = op.text() else {
        return report.add(op.at, format!("`op` must be an operator's name, found {}", op.called()), None);
    };
    draft.spec = catalog.operator(name);
    let Some(spec) = draft.spec else {
        let help =
            if name == LOOP { Some("a loop has no `op`: write `loop: { attempts: 3 }`".into()) } else { report.nearest(name, known()) };
        return report.add(op.at, format!("there is no operator `{name}`"), help);
    };
    if draft.inside.is_some() && !spec.loops {
        let able: Vec<&str> = catalog.operators.iter().filter(|o| o.loops).map(|o| o.name).collect();
        let help = format!("put `{}` outside the loop; {} may stand in one", draft.id, listed(&able, "and"));
        report.add(op.at, format!("`{name}` can't stand in a loop: it works on whole iterations"), Some(help));
    }
}

fn with(node: &Tree, draft: &mut Draft, sketch: &Sketch, used: &mut BTreeSet<String>, report: &mut Report) {
    let empty = Tree { at: draft.op_at, value: Shape::Map(Vec::new()) };
    let entry = node.entry("with");
    // `with:` and nothing behind it is a map that has yet to be filled.
    let tree = entry.map(|e| &e.value).filter(|t| !t.is_null()).unwrap_or(&empty);
    if let Some(spec) = draft.spec {
        let subject = Subject { whole: format!("`{}`", spec.name), schema: &spec.settings, owner: entry.map_or(draft.op_at, |e| e.at) };
        if settings::check(tree, &subject, report) {
            match With::read(tree.json(), spec.read) {
                Ok(with) => draft.with = Some(with),
                // The schema leaves little to be found here.
                Err(e) => report.add(subject.owner, format!("the settings of `{}` can't be read: {e}", draft.id), None),
            }
        }
    }
    weights_of_inputs(draft, report);
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

/// Reports keys that should be names of the node's inputs: a setting is such a map if its schema says `x-keys: inputs`.
fn weights_of_inputs(draft: &Draft, report: &mut Report) {
    let properties = draft.spec.and_then(|s| s.settings.get("properties")?.as_object());
    let keyed = properties.into_iter().flatten().filter(|(_, schema)| schema.get("x-keys").is_some_and(|k| k == "inputs"));
    for (key, _) in keyed {
        for entry in draft.with_tree.and_then(|t| t.get(key)).map(Tree::entries).unwrap_or_default() {
            let ports = || draft.edges.iter().map(|e| e.port);
            if !ports().any(|p| p == entry.key) {
                let help = report.nearest(&entry.key, ports());
                report.add(entry.at, format!("`{}` has no input `{}` for `{key}`", draft.id, entry.key), help);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::pipeline::fixture::{catalog, GOOD};
    use crate::pipeline::parse;

    #[test]
    fn weights_must_be_weights_of_inputs() {
        let both = "  both: { op: combine, inputs: { one: advantage }, with: { weights: { one: 2 } } }\nlog: [both, ";
        let text = GOOD.replace("log: [", both);
        assert!(parse("x", &text, &[], &catalog()).is_ok());
        let said = parse("x", &text.replace("{ one: 2 }", "{ oen: 2 }"), &[], &catalog()).unwrap_err();
        assert!(said.0.len() == 1 && said.0[0].message == "`both` has no input `oen` for `weights`", "{said}");
    }
}
