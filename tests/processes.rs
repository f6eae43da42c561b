//! Several processes make the same run as one, and end together.

mod common;
use common::*;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn rows(run: &Path) -> String {
    let query = "select * from trajectories order by iteration, task, sample, turn";
    done(flow().arg("query").arg(run).arg(query).args(["--format", "json"]))
}

fn weights(run: &Path, version: u64) -> Vec<u8> {
    std::fs::read(run.join(format!("weights/{version}/actor/model.safetensors"))).unwrap()
}

/// A hosts file of free ports on loopback.
fn hosts(folder: &Path, processes: usize) -> PathBuf {
    let held: Vec<TcpListener> = (0..processes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let lines: Vec<String> = held.iter().map(|l| l.local_addr().unwrap().to_string()).collect();
    let path = folder.join(format!("hosts-{processes}-{}", lines[0].replace([':', '.'], "-")));
    std::fs::write(&path, lines.join("\n")).unwrap();
    path
}

fn process(pipeline: &Path, out: &Path, hosts: &Path, process: usize, extra: &[&str]) -> Command {
    let mut command = flow();
    command.arg("run").arg(pipeline).arg("--out").arg(out).arg("--hosts").arg(hosts).args(["--process", &process.to_string()]).args(extra);
    command
}

fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the end, but not for ever.
fn ended(mut child: Child, within: Duration) -> (bool, String) {
    let end = Instant::now() + within;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "a process still runs after {within:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.success(), text(&output.stderr))
}

#[test]
fn two_processes_make_the_same_run_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let one = trained(folder.path(), "one", SMALL, &[]);
    for (processes, workers) in [(2, "1"), (2, "2"), (3, "1")] {
        let file = pipeline(folder.path(), SMALL);
        let hosts = hosts(folder.path(), processes);
        let out = folder.path().join(format!("{processes}-{workers}"));
        let children: Vec<Child> = (0..processes).map(|p| started(process(&file, &out, &hosts, p, &["--workers", workers]))).collect();
        for child in children {
            let (fine, said) = ended(child, Duration::from_secs(120));
            assert!(fine, "{said}");
        }
        assert!(rows(&out) == rows(&one), "{processes} processes of {workers} workers");
        assert!(weights(&out, 3) == weights(&one, 3));
    }
}

#[test]
fn when_one_process_dies_the_other_ends_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), &SMALL.replace("iterations: 3", "iterations: 100000"));
    for victim in [0, 1] {
        let hosts = hosts(folder.path(), 2);
        let out = folder.path().join(victim.to_string());
        let mut children: Vec<Child> = (0..2).map(|p| started(process(&file, &out, &hosts, p, &[]))).collect();
        while !out.join("log/update/iteration=1").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut killed = children.remove(victim);
        killed.kill().unwrap();
        killed.wait().unwrap();
        let (fine, said) = ended(children.remove(0), Duration::from_secs(5));
        assert!(!fine && said.contains(&format!("process {victim} is gone")), "{said}");
        assert!(rows(&out).lines().count() > 10, "what was committed can be read");
    }
}

#[test]
fn processes_that_mean_different_runs_are_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), SMALL);
    let hosts = hosts(folder.path(), 2);
    let out = folder.path().join("out");
    let first = started(process(&file, &out, &hosts, 0, &[]));
    let second = started(process(&file, &out, &hosts, 1, &["--set", "seed=9"]));
    for child in [first, second] {
        let (fine, said) = ended(child, Duration::from_secs(60));
        assert!(!fine && said.contains("another pipeline"), "{said}");
    }
    let message = fails(flow().arg("run").arg(&file).args(["--process", "1"]));
    assert!(message.contains("--hosts"), "{message}");
}
