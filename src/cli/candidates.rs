//! What may stand in an argument, for a shell that completes it: operators, environments, models, nodes, and the paths
//! of `--set`.

use super::schema_text::{forms, properties};
use crate::ops;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use flow_env::TABLE;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A word that may stand there, and what it is.
pub fn candidate(name: impl Into<OsString>, about: &str) -> CompletionCandidate {
    CompletionCandidate::new(name).help((!about.is_empty()).then(|| about.to_owned().into()))
}

/// The operators, and what else `flow ops` explains.
pub fn operators() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let further = [("models", "what an entry of `models:` may be"), ("agents", "what an entry of `agents:` may be")];
        ops::TABLE.iter().map(|o| (o.name, o.about)).chain(further).map(|(name, about)| candidate(name, about)).collect()
    })
}

/// The environments that a task can be of.
pub fn environments() -> ArgValueCandidates {
    ArgValueCandidates::new(|| TABLE.iter().map(|kind| candidate(kind.name, kind.about)).collect())
}

/// The environments that can be installed.
pub fn installable() -> ArgValueCandidates {
    ArgValueCandidates::new(|| TABLE.iter().filter(|kind| kind.adapter.is_some()).map(|kind| candidate(kind.name, kind.about)).collect())
}

/// The paths that `--set` can name in the pipeline, or in that of the run, which stands before it on the line.
pub fn paths() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(start) = current.to_str() else { return Vec::new() };
        let paths = on_the_line().map_or_else(BTreeSet::new, |path| settable(&path));
        matching(&paths, start).into_iter().map(|path| candidate(path, "")).collect()
    })
}

/// The next steps of a partial path: whole paths would be hundreds. A path that ends has its `=`.
fn matching(paths: &BTreeSet<String>, start: &str) -> BTreeSet<String> {
    let next = |path: &String| match path[start.len()..].find('.') {
        Some(dot) => path[..start.len() + dot + 1].to_owned(),
        None => format!("{path}="),
    };
    paths.iter().filter(|path| path.starts_with(start)).map(next).collect()
}

/// The first pipeline among the words of the line, or that of the first run.
fn on_the_line() -> Option<PathBuf> {
    let pipeline = |word: OsString| {
        let path = PathBuf::from(word);
        let inside = path.join("pipeline.yaml");
        let yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        if inside.is_file() {
            Some(inside)
        } else {
            (yaml && path.is_file()).then_some(path)
        }
    };
    std::env::args_os().skip(1).find_map(pipeline)
}

/// Where a pipeline has settings: given ones and possible ones.
fn settable(path: &Path) -> BTreeSet<String> {
    let catalog = ops::catalog();
    // One that has mistakes is read as far as it goes.
    let source = flow_pipeline::load(path, &[], &catalog)
        .map(|pipeline| pipeline.source)
        .or_else(|_| flow_pipeline::contents(path))
        .unwrap_or_default();
    let mut paths: BTreeSet<String> = ["iterations", "seed"].map(String::from).into();
    for (kind, schema) in [("models", &catalog.model), ("agents", &catalog.agent)] {
        for (name, entry) in source[kind].as_object().into_iter().flatten() {
            let keys = keys(schema).into_iter().chain(entry.as_object().into_iter().flatten().map(|(key, _)| key.clone()));
            paths.extend(keys.map(|key| format!("{kind}.{name}.{key}")));
        }
    }
    nodes(&source["nodes"], "nodes", &mut paths);
    paths
}

/// The settings of nodes, and of those inside loops.
fn nodes(nodes_of: &Value, place: &str, paths: &mut BTreeSet<String>) {
    for (id, node) in nodes_of.as_object().into_iter().flatten() {
        let place = format!("{place}.{id}");
        let schema = node["op"].as_str().and_then(ops::operator).map(|operator| (operator.settings.schema)()).unwrap_or_default();
        let own = node["with"].as_object().into_iter().flatten().map(|(key, _)| key.clone());
        paths.extend(keys(&schema).into_iter().chain(own).map(|key| format!("{place}.with.{key}")));
        nodes(&node["nodes"], &format!("{place}.nodes"), paths);
    }
}

/// The names of all settings that a schema knows, whichever of its forms has them.
fn keys(schema: &Value) -> BTreeSet<String> {
    let names = |(_, form): &(String, Value)| properties(form).map(|(key, _)| key.clone()).collect::<Vec<_>>();
    forms(schema).iter().flat_map(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_completed_step_by_step() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let paths = settable(&root.join("pipelines/quickstart.yaml"));
        let next = |start: &str| matching(&paths, start).into_iter().collect::<Vec<_>>();
        assert!(next("").contains(&"nodes.".to_owned()) && next("").contains(&"iterations=".to_owned()), "{:?}", next(""));
        assert!(next("nodes.up").contains(&"nodes.update.".to_owned()), "{:?}", next("nodes.up"));
        assert_eq!(next("nodes.update.with.max_g"), ["nodes.update.with.max_grad_norm="], "a setting that the file doesn't say");
        assert!(next("models.actor.wid").contains(&"models.actor.width=".to_owned()));
        assert_eq!(next("nothing"), Vec::<String>::new());
        // What a file takes over from another one is there as well.
        let like = settable(&root.join("papers/empo2/no-novelty.yaml"));
        assert!(like.contains("nodes.memory.with.capacity") && !like.iter().any(|path| path.starts_with("nodes.novelty")));
    }
}
