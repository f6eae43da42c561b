//! A run that was stopped or killed goes on as if it never had been: the same rows, the same weights.

use crate::common::*;
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
    let committed =
        |run: &Path| std::fs::read_to_string(run.join("manifest.json")).map_or(0, |m| m.matches("\"iteration\":").count() as u64);
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
        for (after, signal) in [(0, "-KILL"), (8, "-KILL"), (30, "-KILL"), (12, "-INT")] {
            let run = broken_off(folder.path(), &yaml, after, signal);
            resumed(&run);
            assert!(digest(&run) == whole, "{name}: {after} {signal}");
        }
    }
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
