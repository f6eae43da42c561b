//! The runs of a report, and which of them are one experiment under several seeds.

use crate::cli::error::{Error, Result};
use crate::files;
use crate::log::{Manifest, NodeInfo, Run};
use crate::ops;
use crate::pipeline::{contents, differences, Role};
use serde_json::{json, Value};
use std::path::Path;

/// A run that is drawn.
pub struct ReportRun {
    pub run: Run,
    pub folder: String,
    pub manifest: Manifest,
    pipeline: Value,
    yaml: String,
}

/// Runs of one pipeline that differ in their seeds: one curve, with a band.
pub struct Experiment {
    pub label: String,
    /// Which of the sources.
    pub runs: Vec<usize>,
}

/// The keys in which runs of one experiment may differ.
const APART: [&str; 4] = ["seed", "iterations", "about", "keep"];

impl ReportRun {
    pub fn open(folder: &Path) -> Result<ReportRun> {
        let run = Run::open(folder)?;
        let manifest = run.manifest()?;
        let pipeline = contents(&run.pipeline())?;
        let yaml = files::text(&run.pipeline(), 64 << 20).map_err(Error::file(&run.pipeline()))?;
        Ok(ReportRun { folder: folder.display().to_string(), run, manifest, pipeline, yaml })
    }

    /// The logged nodes that played: those whose rows have a board and an action.
    pub fn players(&self) -> impl Iterator<Item = &NodeInfo> {
        let plays = |n: &&NodeInfo| n.columns.iter().any(|c| c == "observation") && n.columns.iter().any(|c| c == "action");
        self.manifest.info.nodes.iter().filter(plays)
    }

    /// The operator of a node, logged or not; empty if the pipeline doesn't say.
    pub fn op(&self, node: &str) -> &str {
        node_entry(&self.pipeline, node)["op"].as_str().unwrap_or_default()
    }

    /// What the operator of a node, logged or not, is there for; nothing of a loop.
    pub fn role(&self, node: &str) -> Option<Role> {
        ops::role(self.op(node))
    }

    /// Whether a node's episodes are the environment's expert's.
    pub fn expert(&self, node: &str) -> bool {
        node_entry(&self.pipeline, node)["with"]["actor"] == "expert"
    }

    /// Seconds from the first commit's work to the last.
    pub fn seconds(&self) -> f64 {
        self.manifest.committed.iter().map(|i| i.seconds).sum()
    }

    pub fn json(&self) -> Value {
        let status = serde_json::to_value(&self.manifest.status).unwrap_or_default();
        json!({
            "folder": self.folder, "name": self.manifest.info.name, "about": self.pipeline["about"], "seed": self.manifest.info.seed,
            "iterations": self.manifest.info.iterations, "trained": self.manifest.trained(), "status": status,
            "seconds": self.seconds(), "replays": self.manifest.info.replays.as_ref().map(|r| &r.run), "yaml": self.yaml,
        })
    }
}

/// The entry of a node in the pipeline, also if it stands inside a loop.
fn node_entry<'a>(pipeline: &'a Value, node: &str) -> &'a Value {
    let nodes = &pipeline["nodes"];
    let inside = || nodes.as_object().and_then(|all| all.values().map(|n| &n["nodes"][node]).find(|n| n.is_object()));
    nodes.get(node).or_else(inside).unwrap_or(&Value::Null)
}

/// The experiments, in the order in which their first runs are given. Experiments of one name are told apart by their folders.
pub fn families(sources: &[ReportRun]) -> Vec<Experiment> {
    let alike = |a: &Value, b: &Value| differences(a, b).iter().all(|d| APART.contains(&d.path.split('.').next().unwrap_or_default()));
    let mut families: Vec<Experiment> = Vec::new();
    for (i, source) in sources.iter().enumerate() {
        // Two runs with one seed are no two witnesses: the second one stands for itself.
        let fits = |f: &&mut Experiment| {
            alike(&sources[f.runs[0]].pipeline, &source.pipeline)
                && f.runs.iter().all(|r| sources[*r].manifest.info.seed != source.manifest.info.seed)
        };
        match families.iter_mut().find(fits) {
            Some(family) => family.runs.push(i),
            None => families.push(Experiment { label: source.manifest.info.name.clone(), runs: vec![i] }),
        }
    }
    let names: Vec<String> = families.iter().map(|f| f.label.clone()).collect();
    // What runs of one name differ in says more than their folders.
    let apart: Vec<Option<String>> = (0..families.len()).map(|i| settings(sources, &families, i)).collect();
    let last = |f: &Experiment| Path::new(&sources[f.runs[0]].folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let lasts: Vec<String> = families.iter().map(last).collect();
    for (i, family) in families.iter_mut().enumerate() {
        if names.iter().filter(|name| **name == family.label).count() > 1 {
            if let Some(settings) = &apart[i] {
                family.label += &format!(" ({settings})");
                continue;
            }
            let known = lasts.iter().filter(|last| **last == lasts[i]).count() == 1;
            let folder = if known { &lasts[i] } else { &sources[family.runs[0]].folder };
            family.label += &format!(" ({folder})");
        }
    }
    families
}

/// The settings in which an experiment differs from the others of its name, such as `gamma 0.9`; none where they are many, or don't tell it
/// from each of them.
fn settings(sources: &[ReportRun], families: &[Experiment], which: usize) -> Option<String> {
    let pipeline_of = |family: &Experiment| &sources[family.runs[0]].pipeline;
    let namesakes = || families.iter().enumerate().filter(|(i, f)| *i != which && f.label == families[which].label).map(|(_, f)| f);
    let mut paths: Vec<String> = namesakes()
        .flat_map(|other| differences(pipeline_of(&families[which]), pipeline_of(other)))
        .map(|d| d.path)
        .filter(|path| !APART.contains(&path.split('.').next().unwrap_or_default()))
        .collect();
    paths.sort();
    paths.dedup();
    let value = |family: &Experiment, path: &str| {
        path.split('.').fold(pipeline_of(family), |value, step| value.get(step).unwrap_or(&Value::Null)).clone()
    };
    let values_at = |family: &Experiment| paths.iter().map(|path| value(family, path)).collect::<Vec<_>>();
    let own = values_at(&families[which]);
    let plain = own.iter().all(|value| value.is_number() || value.is_string() || value.is_boolean());
    if paths.is_empty() || paths.len() > 3 || !plain || namesakes().any(|other| values_at(other) == own) {
        return None;
    }
    let setting_text = |(path, value): (&String, &Value)| {
        let name = path.rsplit('.').next().unwrap_or(path);
        format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), String::from))
    };
    Some(paths.iter().zip(&own).map(setting_text).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_inside_a_loop_is_found() {
        let pipeline =
            json!({ "nodes": { "tasks": { "op": "tasks" }, "trial": { "loop": {}, "nodes": { "rollout": { "op": "rollout" } } } } });
        let op = |node: &str| node_entry(&pipeline, node)["op"].as_str().unwrap_or_default();
        assert_eq!((op("tasks"), op("rollout"), op("trial"), op("nobody")), ("tasks", "rollout", "", ""));
    }
}
