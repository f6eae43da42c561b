//! The nodes, one by one: their keys, and the names of operators and models in them.

use super::edges::edges;
use super::explain::Subject;
use super::keys::{is_loop, map, misspelt, unknown_key, NODE};
use super::loops::{self, body, both};
use super::names::{mention, NamedNode, NodeNames};
use super::settings;
use super::sketch::{Draft, Sketch};
use crate::marks::{self, at_path};
use crate::parse::{listed, Report, Shape, Tree, TreeEntry};
use crate::resolved::LOOP;
use crate::{Catalog, With};
use std::collections::BTreeSet;

/// Checks the value of `nodes`, and that every model is used.
pub fn nodes<'a>(tree: &'a Tree, catalog: &'a Catalog, sketch: &mut Sketch<'a>, report: &mut Report) {
    let Some(nodes) = map(tree, "nodes", "a map from names to nodes", report) else { return };
    if nodes.entries().is_empty() {
        let at = tree.entry("nodes").map_or(nodes.at, |e| e.at);
        report.add(at, "there are no nodes", Some("write one entry a node, such as `tasks: { op: tasks }`".into()));
    }
    let names = NodeNames::collect(nodes, report);
    let mut used = UsedNames::default();
    bases(tree, catalog, sketch, &mut used, report);
    for (place, NamedNode { entry, inside }) in names.nodes.iter().enumerate() {
        let draft = node(entry, (place, *inside), &names, (tree, catalog), (sketch, &mut used), report);
        sketch.nodes.push(draft);
    }
    loops::close(&mut sketch.nodes, report);
    let unused = |key: &str, used: &BTreeSet<String>| -> Vec<&TreeEntry> {
        tree.get(key).map(Tree::entries).unwrap_or_default().iter().filter(|e| !used.contains(&e.key)).collect()
    };
    for entry in unused("models", &used.models) {
        let help = "name it in an agent, or in the settings of a node, or leave it out";
        report.add(entry.at, format!("nothing uses the model `{}`", entry.key), Some(help.into()));
    }
    for entry in unused("agents", &used.agents) {
        let help = format!("name it where something plays: `agent: {}`, or leave it out", entry.key);
        report.add(entry.at, format!("nothing uses the agent `{}`", entry.key), Some(help));
    }
}

/// Models and agents that something names, even with a typing error: they aren't reported as unused.
#[derive(Default)]
struct UsedNames {
    models: BTreeSet<String>,
    agents: BTreeSet<String>,
}

/// The models that models name: on whose bases they are.
fn bases(tree: &Tree, catalog: &Catalog, sketch: &Sketch, used: &mut UsedNames, report: &mut Report) {
    for (model, settings) in &sketch.models {
        for named in marks::marked(settings, &catalog.model).into_iter().filter(|named| named.mark == marks::MODEL) {
            used.models.insert(named.name.clone());
            if !sketch.models.contains_key(&named.name) {
                let names = || sketch.models.keys().map(String::as_str).filter(|name| name != model);
                used.models.extend(report.guess(&named.name, names()).map(String::from));
                let at = tree.deepest(["models", model].into_iter().chain(named.path.iter().map(String::as_str))).at;
                report.add(at, format!("there is no model `{}`", named.name), report.nearest(&named.name, names()));
            }
        }
    }
}

/// One node: an operator or a loop.
fn node<'a>(
    TreeEntry { key, at, value }: &'a TreeEntry,
    (place, inside): (usize, Option<usize>),
    names: &NodeNames<'a>,
    (whole, catalog): (&Tree, &'a Catalog),
    (sketch, used): (&mut Sketch, &mut UsedNames),
    report: &mut Report,
) -> Draft<'a> {
    let mut draft = {
        let (spec, edges, broken_inputs, with, body) = Default::default();
        Draft { id: key, at: *at, op_at: *at, inside, spec, edges, broken_inputs, with, with_tree: value.get("with"), body }
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
        report.add(*at, format!("`{key}` is a loop inside the loop `{}`", names.nodes[around].entry.key), Some(help.into()));
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
        let needed = inputs.entries().len().max(1);
        draft.broken_inputs |= report.len() > before && draft.edges.iter().filter(|e| e.spec.is_some()).count() < needed;
    }
    with(whole, value, &mut draft, (sketch, used), report);
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

fn with(whole: &Tree, node: &Tree, draft: &mut Draft, (sketch, used): (&Sketch, &mut UsedNames), report: &mut Report) {
    let empty = Tree { at: draft.op_at, value: Shape::Map(Vec::new()) };
    let entry = node.entry("with");
    // `with:` and nothing behind it is a map that has yet to be filled.
    let tree = entry.map(|e| &e.value).filter(|t| !t.is_null()).unwrap_or(&empty);
    let Some(spec) = draft.spec else { return };
    let subject = Subject { whole: format!("`{}`", spec.name), schema: &spec.settings, owner: entry.map_or(draft.op_at, |e| e.at) };
    let fits = settings::check(tree, &subject, report);
    let mut settings = tree.json();
    let mut known = true;
    // Where a setting that an agent's settings may stand in names one, they stand there.
    let mut agents: Vec<(Vec<String>, String)> = Vec::new();
    for named in marks::marked(&settings, &spec.settings).into_iter().filter(|named| named.mark == marks::AGENT) {
        used.agents.insert(named.name.clone());
        match sketch.agents.get(&named.name) {
            Some(agent) => {
                if let Some(value) = at_path(&mut settings, &named.path) {
                    *value = agent.clone();
                }
                agents.push((named.path, named.name));
            }
            None => {
                known = false;
                let names = || sketch.agents.keys().map(String::as_str);
                used.agents.extend(report.guess(&named.name, names()).map(String::from));
                let write =
                    || format!("write `agents: {{ {}: {{ model: ... }} }}` above the nodes, or the agent's settings here", named.name);
                let help = report.nearest(&named.name, names()).or_else(|| Some(write()));
                report.add(tree.deepest(named.path.iter().map(String::as_str)).at, format!("there is no agent `{}`", named.name), help);
            }
        }
    }
    // Of a setting inside an agent that is named, the place is where the agent stands.
    let place = |path: &[String]| match agents.iter().find(|(agent, _)| path.starts_with(agent)) {
        Some((agent, name)) => {
            let inner = path[agent.len()..].iter().map(String::as_str);
            whole.deepest(["agents", name].into_iter().chain(inner)).at
        }
        None if tree.entries().is_empty() => draft.op_at,
        None => tree.deepest(path.iter().map(String::as_str)).at,
    };
    for named in marks::marked(&settings, &spec.settings).into_iter().filter(|named| named.mark == marks::MODEL) {
        used.models.insert(named.name.clone());
        if !sketch.models.contains_key(&named.name) {
            let names = || sketch.models.keys().map(String::as_str);
            used.models.extend(report.guess(&named.name, names()).map(String::from));
            let help = report
                .nearest(&named.name, names())
                .or_else(|| Some(format!("write `models: {{ {}: {{ ... }} }}` above the nodes", named.name)));
            report.add(place(&named.path), format!("there is no model `{}`", named.name), help);
        }
    }
    weights_of_inputs(draft, report);
    // What is wrong with an agent was reported where it stands.
    if fits && known && !agents.iter().any(|(_, name)| sketch.misfits.contains(name)) {
        match With::read(settings, &spec.settings, spec.read) {
            Ok(with) => draft.with = Some(with),
            // The schema leaves little to be found here.
            Err(e) => report.add(subject.owner, format!("the settings of `{}` can't be read: {e}", draft.id), None),
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
    use crate::fixture::{catalog, GOOD};
    use crate::parse;

    #[test]
    fn weights_must_be_weights_of_inputs() {
        let both = "  both: { op: combine, inputs: { one: advantage }, with: { weights: { one: 2 } } }\nlog: [both, ";
        let text = GOOD.replace("log: [", both);
        assert!(parse("x", &text, &[], &catalog()).is_ok());
        let message = parse("x", &text.replace("{ one: 2 }", "{ oen: 2 }"), &[], &catalog()).unwrap_err();
        assert!(message.0.len() == 1 && message.0[0].message == "`both` has no input `oen` for `weights`", "{message}");
    }
}
