//! Paths in a pipeline begin in the folder of the file that names them, those of an override in the folder where `flow`
//! runs. Once read they all begin where `flow` runs; a copy that a run keeps tells them from its own folder.

use super::marks::{self, at_path, Named, FILE, FUNCTION, TEMPLATE};
use super::parse::{Shape, Tree};
use super::{Catalog, Pipeline, LOOP};
use flow_core::files;
use flow_core::python_package::function_file;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Rewrites every path in the tree so that it begins where `flow` runs, and says where paths stand. `folders` are those
/// of the texts by number; a text without one is an override. What isn't there, but is in `origin`, begins there
/// instead.
pub fn resolve(tree: &mut Tree, folders: &[&Path], origin: Option<&Path>, catalog: &Catalog) -> Vec<Named> {
    let text = |tree: &mut Tree, named: &Named| {
        let folder = tree.at_path(&named.path).and_then(|tree| folders.get(tree.at.text).copied());
        named.mark == TEMPLATE && is_sentence(&named.name) && !folder.unwrap_or(Path::new("")).join(&named.name).exists()
    };
    let moved = |named: &Named| {
        let file = function_file(&named.name).unwrap_or(&named.name);
        let origin = origin.filter(|origin| origin.join(file).exists())?;
        folders.iter().all(|folder| !folder.join(file).exists()).then(|| vec![origin; folders.len()])
    };
    let all = places(&tree.json(), catalog).into_iter();
    let rewritten = |tree: &mut Tree, named: &Named| rewritten(tree, &named.path, moved(named).as_deref().unwrap_or(folders));
    all.filter(|named| !text(tree, named) && rewritten(tree, named)).collect()
}

/// Makes the path at `place` begin where `flow` runs; false where there is none.
pub fn rewritten(tree: &mut Tree, place: &[String], folders: &[&Path]) -> bool {
    let Some(tree) = tree.at_path(place) else { return false };
    let Some(name) = tree.text().map(String::from) else { return false };
    if let Some(folder) = folders.get(tree.at.text) {
        let path = tidied(&folder.join(&name), &name);
        tree.value = Shape::Scalar(Value::String(path));
    }
    true
}

/// The path in words, with a `/` at its end where it was written with one.
fn tidied(path: &Path, written: &str) -> String {
    let tidy = files::tidy(path).display().to_string();
    match written.ends_with('/') && !tidy.ends_with('/') {
        true => tidy + "/",
        false => tidy,
    }
}

/// The names of files in a pipeline's source, by the schemas of its models, agents and operators.
fn places(source: &Value, catalog: &Catalog) -> Vec<Named> {
    let mut all = Vec::new();
    for (key, schema) in [("models", &catalog.model), ("agents", &catalog.agent)] {
        for (name, value) in source[key].as_object().into_iter().flatten() {
            within(value, schema, &[key.into(), name.clone()], &mut all);
        }
    }
    nodes(&source["nodes"], &["nodes".into()], catalog, &mut all);
    all
}

fn nodes(nodes_of: &Value, at: &[String], catalog: &Catalog, all: &mut Vec<Named>) {
    for (id, node) in nodes_of.as_object().into_iter().flatten() {
        let at: Vec<String> = at.iter().cloned().chain([id.clone()]).collect();
        if node.get(LOOP).is_some() {
            nodes(&node["nodes"], &[at, vec!["nodes".into()]].concat(), catalog, all);
        } else if let Some(spec) = node["op"].as_str().and_then(|op| catalog.operator(op)) {
            within(&node["with"], &spec.settings, &[at, vec!["with".into()]].concat(), all);
        }
    }
}

/// Whether a setting is a template itself and no file's name: it has a place, more than one line, or nothing in it; or
/// it reads as a sentence, and no file has that name.
pub fn is_template(setting: &str) -> bool {
    is_marked(setting) || is_sentence(setting) && !Path::new(setting).exists()
}

fn is_marked(setting: &str) -> bool {
    setting.is_empty() || ["{{", "{%", "\n"].iter().any(|mark| setting.contains(mark))
}

/// Whether a setting has several words, and doesn't end as the names of text files do.
fn is_sentence(setting: &str) -> bool {
    setting.contains(' ') && ![".txt", ".md", ".jinja", ".j2"].iter().any(|end| setting.ends_with(end))
}

fn within(value: &Value, schema: &Value, at: &[String], all: &mut Vec<Named>) {
    for named in marks::marked(value, schema) {
        let of_file = named.mark == FUNCTION && function_file(&named.name).is_some();
        if named.mark == FILE || of_file || named.mark == TEMPLATE && !is_marked(&named.name) {
            all.push(Named { path: [at, &named.path].concat(), ..named });
        }
    }
}

impl Pipeline {
    /// What the pipeline was read from, with its paths as a file in `folder` names them.
    pub fn source_in(&self, folder: &Path) -> Value {
        let mut source = self.source.clone();
        for named in &self.paths {
            if let Some(value) = at_path(&mut source, &named.path) {
                let name = value.as_str().map(|name| files::from_folder(Path::new(name), folder));
                *value = name.unwrap_or_else(PathBuf::new).display().to_string().into();
            }
        }
        source
    }
}
