//! SLEA-RL's library: what a stranger recomputes from the log is what the run did, whoever keeps it.

use crate::common::*;
use std::path::Path;
use std::process::Command;

/// The pipeline of the method with a new model, small enough for a test: by its fifth iteration there are some hundred
/// entries.
fn trained_library(folder: &Path, name: &str, extra: &[&str]) -> std::path::PathBuf {
    let pipeline = std::fs::read_to_string("papers/slea-rl/slea-rl.yaml").unwrap();
    // With the fallback, which links.
    let pipeline = pipeline.replace("fallback: none,", "above: 0.85,");
    let pipeline =
        pipeline.replace("{ load: ../../runs/slea-rl/warmstart, act: own }", "{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }");
    let settings = ["--set", "iterations=9", "--set", "nodes.tasks.with.batch=6", "--set", "nodes.rollout.with.samples=4"];
    trained(folder, name, &pipeline, &[&settings[..], extra].concat())
}

#[test]
fn clusters_library_and_what_is_told_are_those_of_a_plain_recomputation() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained_library(folder.path(), "run", &[]);
    let recounted = |run: &Path| {
        let flow = flow().get_program().to_owned();
        let output = Command::new("python3").arg("scripts/recount_library.py").arg(run).arg(flow).output().unwrap();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let (right, printed, error) = recounted(&run);
    assert!(right && printed.ends_with(": 0 mistakes\n"), "{printed}{error}");
    let numbers: Vec<u64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.iter().all(|number| *number >= 10 || *number == 0), "too little to compare: {printed}");
    let linked = ask(&run, "select count(*) as n from clusters, unnest(linked) as link(id)");
    assert!(linked[0]["n"].as_u64().unwrap() > 0, "no entry was linked");

    // Of what was told to turns whose clusters have nothing, a rule that tells them nothing has no word.
    let source = run.join("pipeline.yaml");
    let yaml = std::fs::read_to_string(&source).unwrap();
    assert!(yaml.contains("above: 0.85"), "{yaml}");
    std::fs::write(&source, yaml.replace("above: 0.85", "fallback: none")).unwrap();
    assert!(!recounted(&run).0, "the script saw no difference");

    // A run whose library is smaller isn't what the script recomputes.
    let other = trained_library(folder.path(), "other", &["--set", "nodes.library.with.capacity=5"]);
    assert!(!recounted(&other).0, "the script saw no difference");
}

/// Of other boards, some of whose states are those of boards that were trained on: where a cluster has entries they are
/// its own.
#[test]
fn a_panel_is_played_with_the_library_and_its_clusters() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained_library(folder.path(), "run", &[]);
    let out = folder.path().join("played");
    let panel = "datasets/minesweeper-4x4-m3-512-b8f15f2ca73a.json";
    done(flow().arg("eval").arg(&run).args(["--panel", panel, "--memory"]).arg(&run).arg("--out").arg(&out));
    let known = ask(
        &out,
        "with told as (select observation, unnest(retrieved) as id from rollout), own as (select distinct id, key, kind from library where change > 0) \
         select count(*) as told, count(*) filter (key = observation) as own, \
         count(*) filter (kind = 'strategy' and key <> observation and observation in (select key from own where kind = 'strategy')) as others \
         from told join own using (id)",
    );
    let count = |name: &str| known[0][name].as_u64().unwrap();
    assert!(count("told") > 100 && count("own") > 10, "{known:?}");
    // Linked entries stand beside a cluster's own.
    assert!(count("others") < count("told") / 10, "{known:?}");
}

#[test]
fn a_library_is_the_same_on_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let one = trained_library(folder.path(), "one", &["--workers", "1"]);
    let three = trained_library(folder.path(), "three", &["--workers", "3"]);
    assert!(digest(&one) == digest(&three), "other rows on three workers");
}
