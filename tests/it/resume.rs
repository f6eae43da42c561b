//! A run that was stopped or killed goes on as if it never had been: the same rows, the same weights.

use crate::common::*;
use flow::log::Run;
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
    let _ = Command::new("kill").args([signal, &child.id().to_string()]).status();
    child.wait().unwrap();
    out
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
        for (after, signal) in [(0, "-KILL"), (3, "-KILL"), (7, "-KILL"), (5, "-INT")] {
            let run = broken_off(folder.path(), &yaml, after, signal);
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
    assert!(run.join("log/rollout/0-63").is_dir() && !run.join("log/rollout/iteration=63").exists());
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
