//! The list of runs, and a run at a glance.

use super::clusters;
use super::experiments::experiments;
use super::graph::drawn;
use super::runs::{ServedRun, ServedRuns};
use super::Answer;
use crate::cli::bottleneck;
use crate::cli::error::Error;
use flow_log::TimeShares;
use flow_pipeline::Role;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// The last value of these figures stands in the list of runs.
const SHOWN: [&str; 3] = ["success", "return", "loss"];

/// The list of runs: what each is, how it stands, its last figures.
pub fn runs(served: &ServedRuns) -> Answer {
    let all = served.list();
    let line = |(number, run): (usize, &std::sync::Arc<ServedRun>)| {
        match run.snapshot() {
            Ok((snapshot, manifest)) => {
                let mut figures = Map::new();
                for (node, values) in manifest.committed.iter().rev().take(50).flat_map(|iteration| &iteration.metrics) {
                    let role = manifest.info.nodes.iter().find(|known| known.id == *node).and_then(|known| known.role);
                    for name in SHOWN.iter().filter(|name| values.contains_key(**name)) {
                        let name = if role == Some(Role::Measures) { format!("panel {name}") } else { (*name).to_string() };
                        figures.entry(name.clone()).or_insert_with(|| json!(values.get(name.trim_start_matches("panel "))));
                    }
                }
                json!({
                    "number": number, "folder": run.folder, "name": manifest.info.name, "seed": manifest.info.seed, "state": snapshot.state,
                    "next": manifest.next(), "iterations": manifest.info.iterations, "figures": figures,
                    "seconds": manifest.committed.iter().map(|iteration| iteration.seconds).sum::<f64>(),
                })
            }
            // One that can't be read is listed with the reason.
            Err(error) => json!({ "number": number, "folder": run.folder, "error": error.to_string() }),
        }
    };
    let experiments = experiments(&all);
    let experiments: Vec<Value> = experiments.into_iter().map(|e| json!({ "label": e.label, "runs": e.runs })).collect();
    Ok(json!({ "runs": all.iter().enumerate().map(line).collect::<Vec<_>>(), "experiments": experiments, "study": served.study().is_ok() }))
}

/// A run: its pipeline as a graph, how it stands, its tables, its figures by node, the iterations that are committed.
pub fn run(run: &ServedRun) -> Answer {
    run.overview(|| glance(run))
}

fn glance(run: &ServedRun) -> Answer {
    let (snapshot, manifest) = run.snapshot()?;
    let mut figures: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for (node, values) in manifest.committed.iter().flat_map(|iteration| &iteration.metrics) {
        let known = figures.entry(node).or_default();
        values.keys().for_each(|name| *known.entry(name).or_default() += 1);
    }
    let yaml = std::fs::read_to_string(run.run.pipeline()).unwrap_or_default();
    let graph = drawn(run);
    let mut shares = TimeShares::default();
    manifest.committed.iter().for_each(|iteration| shares.add(&iteration.metrics));
    let committed: Vec<u64> = manifest.committed.iter().map(|iteration| iteration.iteration).collect();
    let tables = run.tables()?;
    let tables: Vec<Value> = tables
        .iter()
        .map(|table| json!({ "name": table.name, "columns": table.columns.iter().map(|(name, kind)| json!([name, kind])).collect::<Vec<_>>() }))
        .collect();
    Ok(json!({
        "folder": run.folder, "info": manifest.info, "state": snapshot, "yaml": yaml, "graph": graph.as_ref().ok(),
        "graph_error": graph.as_ref().err(), "bottleneck": bottleneck::sentence(&shares, &run.run.pipeline()), "figures": figures, "tables": tables,
        "iterations": { "first": committed.first(), "last": committed.last(), "count": committed.len() },
        "audits": super::audit::of_credit(run)?, "clusters": clusters::nodes(run)?,
        "roles": manifest.info.nodes.iter().map(|node| (node.id.clone(), json!(node.role))).collect::<Map<_, _>>(),
    }))
}

/// How a run stands now: what changes while it goes on.
pub fn state(run: &ServedRun) -> Answer {
    let (snapshot, manifest) = run.snapshot()?;
    Ok(json!({ "state": snapshot, "last": manifest.committed.last().map(|iteration| iteration.iteration) }))
}

/// The figures of an iteration and of the committed one before it, as far as that measured them.
pub fn figures(run: &ServedRun, iteration: u64) -> Answer {
    let manifest = run.manifest()?;
    let committed = &manifest.committed;
    let at = committed.iter().position(|committed| committed.iteration == iteration);
    let now = at.ok_or_else(|| Error::Request(format!("iteration {iteration} isn't committed")))?;
    let before = |node: &str, name: &str| now.checked_sub(1).and_then(|i| committed[i].metrics.get(node)?.get(name).copied());
    let figures = committed[now].metrics.iter().flat_map(|(node, values)| values.iter().map(move |(name, value)| (node, name, *value)));
    Ok(figures.map(|(node, name, value)| json!({ "node": node, "name": name, "value": value, "before": before(node, name) })).collect())
}
