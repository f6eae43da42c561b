//! A run that was stopped or killed goes on as if it never had been: the same rows, the same weights.

use crate::common::*;
use flow_log::Run;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn resumed(run: &Path) {
    done(flow().arg("resume").arg(run));
}

/// Starts a run, waits until some iterations are committed, sends it a signal, and waits for its end.
fn broken_off(folder: &Path, yaml: &str, after: u64, signal: &str) -> std::path::PathBuf {
    let out = folder.join(format!("after-{after}-{signal}"));
    let mut command = flow();
    command.arg("run").arg(pipeline(folder, yaml)).arg("--out").arg(&out).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let committed = |run: &Path| Run::open(run).and_then(|run| run.manifest()).map_or(0, |manifest| manifest.next());
    while committed(&out) <= after && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(child.try_wait().unwrap().is_none(), "the run had ended before {signal} after {after} iterations");
    match signal {
        "-KILL" => child.kill().unwrap(),
        _ => assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success()),
    }
    let ended = child.wait().unwrap();
    assert!(signal != "-KILL" || ended.signal() == Some(9), "{signal} after {after} iterations reached a run that had ended: {ended}");
    out
}

/// The files of `log/<node>/*/*.parquet`, which other programs read, that no commit names.
fn seen_and_uncommitted(run: &Path) -> Vec<std::path::PathBuf> {
    let manifest = Run::open(run).unwrap().manifest().unwrap();
    let committed: Vec<_> = manifest.committed.iter().flat_map(|i| &i.parts).map(|part| run.join(&part.path)).collect();
    let entries = |folder: std::path::PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries(run.join("log")).flat_map(entries).flat_map(entries);
    files.filter(|file| file.extension().is_some_and(|end| end == "parquet") && !committed.contains(file)).collect()
}

fn ten() -> String {
    SMALL.replace("iterations: 3", "iterations: 10")
}

/// As [`SMALL`], with weights that may be one iteration old, and an evaluation.
fn stale() -> String {
    ten().replace("{ after: update }", "{ after: update, staleness: 1 }")
}

#[test]
fn a_killed_run_ends_like_one_that_was_never_stopped() {
    for (name, yaml) in [("fresh", ten()), ("stale", stale())] {
        let folder = tempfile::tempdir().unwrap();
        let whole = digest(&trained(folder.path(), name, &yaml, &[]));
        for (after, signal) in [(0, "-KILL"), (3, "-KILL"), (6, "-KILL"), (5, "-INT")] {
            let run = broken_off(folder.path(), &yaml, after, signal);
            let uncommitted = seen_and_uncommitted(&run);
            assert!(uncommitted.is_empty(), "{name}: {after} {signal}: {uncommitted:?}");
            resumed(&run);
            assert!(digest(&run) == whole, "{name}: {after} {signal}");
        }
    }
}

/// Long enough that files are put together while it runs.
#[test]
fn a_long_run_that_was_killed_ends_like_one_that_was_never_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let long = SMALL.replace("iterations: 3", "iterations: 200").replace("batch: 6", "batch: 2").replace("samples: 4", "samples: 2");
    let whole = digest(&trained(folder.path(), "whole", &long, &[]));
    let run = broken_off(folder.path(), &long, 66, "-KILL");
    for _ in 0..3 {
        let mut child = flow().arg("resume").arg(&run).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let _ = child.kill();
        child.wait().unwrap();
    }
    resumed(&run);
    assert!(digest(&run) == whole);
    assert!(run.join("log/rollout/0-63").is_dir() && !run.join("log/rollout/63").exists());
}

#[test]
fn a_finished_run_trains_on() {
    let folder = tempfile::tempdir().unwrap();
    let whole = digest(&trained(folder.path(), "whole", &ten(), &[]));
    let run = trained(folder.path(), "short", SMALL, &[]);
    assert!(done(flow().arg("resume").arg(&run)).contains("is finished"));
    done(flow().arg("resume").arg(&run).args(["--iterations", "10"]));
    assert!(digest(&run) == whole);
    let message = fails(flow().arg("resume").arg(&run).args(["--iterations", "5"]));
    assert!(message.contains("would take some back"), "{message}");
}

/// What its pipeline names is found from where the folder was.
#[test]
fn a_run_that_was_moved_to_another_depth_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::copy("datasets/minesweeper-4x4-m2-d64920f25f41.json", folder.path().join("data/panel.json")).unwrap();
    let evaluate = "  evaluate:\n    op: evaluate\n    inputs: { weights: { after: update } }\n    \
                    with: { agent: { model: actor, max_turns: 5 }, panel: data/panel.json, every: 2 }\nlog:";
    let yaml = SMALL.replace("\nlog:", &format!("\n{evaluate}"));
    let file = folder.path().join("pipeline.yaml");
    std::fs::write(&file, yaml).unwrap();
    let before = folder.path().join("run");
    done(flow().arg("run").arg(&file).arg("--out").arg(&before));
    let after = folder.path().join("kept/of/autumn/run");
    std::fs::create_dir_all(after.parent().unwrap()).unwrap();
    std::fs::rename(&before, &after).unwrap();
    done(flow().arg("resume").arg(&after).args(["--iterations", "4"]));
    assert_eq!(ask(&after, "select count(distinct iteration) as n from metrics where node = 'update'")[0]["n"], 4);
}

/// A folder that is moved while a run writes it ends the run, is begun nowhere else, and goes on where it is.
#[test]
fn a_run_whose_folder_was_moved_ends_and_goes_on_there() {
    let folder = tempfile::tempdir().unwrap();
    let long = SMALL.replace("iterations: 3", "iterations: 60");
    let whole = digest(&trained(folder.path(), "whole", &long, &[]));
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let mut command = flow();
    command.arg("run").arg(pipeline(folder.path(), &long)).arg("--out").arg(&before).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    while Run::open(&before).and_then(|run| run.manifest()).map_or(0, |manifest| manifest.next()) < 3 {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::fs::rename(&before, &after).unwrap();
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && message.contains("was moved or removed while the run was writing it"), "{message}");
    assert!(!message.contains("can be queried"), "{message}");
    assert!(!before.exists(), "nothing is begun in the old place");
    resumed(&after);
    assert!(digest(&after) == whole);
}

#[test]
fn one_process_at_a_time_writes_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("busy");
    let mut command = flow();
    command.arg("run").arg(pipeline(folder.path(), &ten().replace("iterations: 10", "iterations: 1000"))).arg("--out").arg(&out);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    while !out.join("lock").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    let message = fails(flow().arg("resume").arg(&out));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(message.contains("another process"), "{message}");
}

/// What a run goes on with is what it began with: its pipeline, and its iterations without a gap.
#[test]
fn a_run_that_was_changed_does_not_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &[]);
    let path = run.join("pipeline.yaml");
    let whole = std::fs::read_to_string(&path).unwrap();
    let other = whole.replacen("seed: 5", "seed: 6", 1);
    assert_ne!(whole, other);
    std::fs::write(&path, other).unwrap();
    let message = fails(flow().arg("resume").arg(&run).args(["--iterations", "4"]));
    assert!(message.contains("pipeline.yaml isn't what the run began with"), "{message}");
    std::fs::write(&path, &whole).unwrap();
    let journal = std::fs::read_dir(run.join("journal")).unwrap().next().unwrap().unwrap().path();
    let lines = std::fs::read_to_string(&journal).unwrap();
    let gap: Vec<&str> = lines.split_inclusive('\n').enumerate().filter(|(i, _)| *i != 1).map(|(_, line)| line).collect();
    std::fs::write(&journal, gap.concat()).unwrap();
    let message = fails(flow().arg("resume").arg(&run).args(["--iterations", "4"]));
    assert!(message.contains("has changed since its commit, or one before it is gone"), "{message}");
    std::fs::write(&journal, lines).unwrap();
    // A folder of weights that is named by itself is held against its run's sums, too.
    let weights = std::fs::read_dir(run.join("weights")).unwrap().map(|e| e.unwrap().path()).max().unwrap().join("actor");
    let load = SMALL.replace("{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }", &format!("{{ load: {} }}", weights.display()));
    let loading = pipeline(folder.path(), &load);
    done(flow().arg("run").arg(&loading).args(["--set", "iterations=1", "--out"]).arg(folder.path().join("fine")));
    let file = weights.join("model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let message = fails(flow().arg("run").arg(&loading).args(["--set", "iterations=1", "--out"]).arg(folder.path().join("not")));
    assert!(message.contains("its bytes have changed since it was saved"), "{message}");
}
