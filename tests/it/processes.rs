//! Several processes make the same run as one, and end together.

use crate::common::*;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two models that learn from the same rows, in minibatches and with all that an update can read; a panel; tasks that
/// outnumber the processes by no multiple.
const TWO_MODELS: &str = r#"
flow: two-models
iterations: 3
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
  critic: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1, head: value }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 7 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 5 }, samples: 4 } }
  value: { op: value, inputs: { rows: rollout, weights: { after: learn } }, with: { model: critic } }
  batch: { op: group, inputs: value, with: { by: [iteration] } }
  advantage: { op: advantage, inputs: batch, with: { of: gae, gamma: 0.9, lambda: 0.8 } }
  learn: { op: gpu-update, inputs: advantage, with: { model: critic, objective: value, lr: 1.0e-2, minibatch: 32 } }
  update:
    op: gpu-update
    inputs: advantage
    with: { model: actor, lr: 1.0e-3, minibatch: 32, micro_batch: 16, epochs: 2, kl: 0.1, mask_below: 0.1, max_grad_norm: 0.5 }
  evaluate:
    op: evaluate
    inputs: { weights: { after: update } }
    with: { agent: { model: actor, max_turns: 5 }, panel: datasets/minesweeper-4x4-m2-d64920f25f41.json, every: 2 }
log: [rollout, value, advantage, learn, update, evaluate]
"#;

/// A game whose program answers garbage now and then, so that some episodes are given up.
const FLAKY: &str = r#"
flow: flaky
iterations: 2
seed: 4
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: process, name: flaky, command: [python3, tests/programs/flaky.py, '20', '-'], pass: [SLOW], batch: 24 } }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update } }
    with: { agent: { model: actor, max_turns: 6 }, samples: 2, max_failed: 0.9 }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, update]
"#;

/// Everything that a run has to be judged by: what it measured (but for times, for tries, which turn on who shares a
/// process of a game, and for the tokens that were read to play and to reflect, which processes don't share), rows,
/// errors, weights with their moments.
fn results(run: &Path) -> (String, String, (String, Vec<u8>)) {
    let times = "'seconds', 'busy_seconds', 'policy_busy_seconds', 'save_seconds', 'retried'";
    let metrics = format!("select node, iteration, name, value from metrics where name not in ({times}) and not (node <> 'update' and name like 'tokens_%') order by all");
    let errors = "select * exclude (error) from errors order by all";
    (answer(run, &metrics, "json"), answer(run, errors, "json"), digest(run))
}

/// A hosts file of free ports on loopback.
fn hosts(folder: &Path, processes: usize) -> PathBuf {
    let listeners: Vec<TcpListener> = (0..processes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let lines: Vec<String> = listeners.iter().map(|l| l.local_addr().unwrap().to_string()).collect();
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

/// All processes of a run, which must end well.
pub fn together(pipeline: &Path, out: &Path, processes: usize, extra: &[&str]) {
    let hosts = hosts(out.parent().unwrap(), processes);
    all_fine((0..processes).map(|p| started(process(pipeline, out, &hosts, p, extra))).collect());
}

fn all_fine(children: Vec<Child>) {
    for child in children {
        let (fine, output) = ended(child, Duration::from_secs(120));
        assert!(fine, "{output}");
    }
}

#[test]
fn several_processes_make_the_same_run_as_one() {
    for (yaml, failures) in [(SMALL, false), (LOOPED, false), (REMEMBERING, false), (TWO_MODELS, false), (FLAKY, true)] {
        let folder = tempfile::tempdir().unwrap();
        let alone = results(&trained(folder.path(), "one", yaml, &["--set", "seed=7"]));
        assert_eq!(alone.1.contains("flaky"), failures, "{}", alone.1);
        for (processes, workers) in [(2, "1"), (2, "2"), (3, "1")] {
            let out = folder.path().join(format!("{processes}-{workers}"));
            together(&pipeline(folder.path(), yaml), &out, processes, &["--workers", workers, "--set", "seed=7"]);
            let other = results(&out);
            assert!(other.0 == alone.0, "{processes} processes of {workers} workers: {}\nand not {}", other.0, alone.0);
            assert!(other == alone, "{processes} processes of {workers} workers");
        }
    }
}

#[test]
fn each_process_plays_its_share() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    together(&pipeline(folder.path(), SMALL), &out, 3, &[]);
    for iteration in 0..3 {
        for process in 0..3 {
            let part = out.join(format!("log/rollout/{iteration}/part-{process}.parquet"));
            assert!(part.exists(), "{}", part.display());
        }
    }
}

#[test]
fn a_run_of_several_processes_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    // Weights that may be an iteration old: two versions have to come back.
    let yaml = TWO_MODELS
        .replace("iterations: 3", "iterations: 8")
        .replace("{ after: update } }, with: { agent: { model: actor", "{ after: update, staleness: 1 } }, with: { agent: { model: actor");
    let whole = results(&trained(folder.path(), "whole", &yaml, &[]));
    let file = pipeline(folder.path(), &yaml);
    let resume = |out: &Path, processes: usize, extra: &[&str]| {
        let hosts = hosts(folder.path(), processes);
        let process = |p: usize| {
            let mut command = flow();
            command.arg("resume").arg(out).arg("--hosts").arg(&hosts).args(["--process", &p.to_string()]).args(extra);
            started(command)
        };
        all_fine((0..processes).map(process).collect());
    };
    for (victim, signal, then) in [(0, "-KILL", 3), (1, "-KILL", 2), (0, "-INT", 2)] {
        let out = folder.path().join(format!("{victim}{signal}"));
        let hosts = hosts(folder.path(), 2);
        let children: Vec<Child> = (0..2).map(|p| started(process(&file, &out, &hosts, p, &[]))).collect();
        while !out.join("log/update/2").exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
        done(Command::new("kill").args([signal, &children[victim].id().to_string()]));
        children.into_iter().for_each(|child| drop(ended(child, Duration::from_secs(10))));
        resume(&out, then, &[]);
        assert!(results(&out) == whole, "after {signal} to process {victim}");
    }
    let short = folder.path().join("short");
    together(&file, &short, 2, &["--set", "iterations=3"]);
    resume(&short, 2, &["--iterations", "8"]);
    assert!(digest(&short) == whole.2, "trained on");
}

#[test]
fn a_process_that_waits_for_another_one_is_not_stuck() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), FLAKY);
    let sets = ["'20'", "batch: 24", "samples: 2"].into_iter().zip(["'0'", "batch: 2, seconds: 30", "samples: 1"]);
    std::fs::write(&file, sets.fold(FLAKY.to_owned(), |text, (from, to)| text.replace(from, to))).unwrap();
    let (hosts, out) = (hosts(folder.path(), 2), folder.path().join("run"));
    let quick = started(process(&file, &out, &hosts, 0, &["--stall", "2"]));
    let mut slow = process(&file, &out, &hosts, 1, &["--stall", "2"]);
    slow.env("SLOW", "5");
    all_fine(vec![quick, started(slow)]);
}

/// Process 1 is stopped while it loads its models, for twice as long as nothing may move.
#[test]
fn a_process_that_loads_its_models_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), SMALL);
    let (hosts, out) = (hosts(folder.path(), 2), folder.path().join("run"));
    let quick = started(process(&file, &out, &hosts, 0, &["--stall", "2"]));
    let mut slow = started(process(&file, &out, &hosts, 1, &["--stall", "2"]));
    let maps = format!("/proc/{}/maps", slow.id());
    while !std::fs::read_to_string(&maps).unwrap_or_default().contains("libtorch_cpu") {
        assert!(slow.try_wait().unwrap().is_none(), "it has joined, and loads its models");
        std::thread::sleep(Duration::from_millis(1));
    }
    let signal = |signal: &str| done(Command::new("kill").args([signal, &slow.id().to_string()]));
    signal("-STOP");
    std::thread::sleep(Duration::from_secs(5));
    signal("-CONT");
    all_fine(vec![quick, slow]);
}

#[test]
fn when_one_process_dies_in_the_middle_of_an_update_the_others_end_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), &SMALL.replace("lr: 1.0e-3", "lr: 1.0e-3, epochs: 1000000, minibatch: 16"));
    for victim in [0, 1, 2] {
        let hosts = hosts(folder.path(), 3);
        let out = folder.path().join(victim.to_string());
        let mut children: Vec<Child> = (0..3).map(|p| started(process(&file, &out, &hosts, p, &[]))).collect();
        while !out.join("log/advantage/0").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Long enough for the update to have begun, and far too short for its end.
        std::thread::sleep(Duration::from_millis(500));
        let mut killed = children.remove(victim);
        killed.kill().unwrap();
        killed.wait().unwrap();
        let death = Instant::now();
        for child in children {
            let (fine, output) = ended(child, Duration::from_secs(5).saturating_sub(death.elapsed()));
            assert!(!fine && output.matches("is gone").count() == 1, "{output}");
        }
        assert!(!out.join("log/update").exists(), "the update was over before its end");
    }
}

#[test]
fn an_update_that_fails_fails_alike_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), &SMALL.replace("lr: 1.0e-3", "lr: 1.0e+30"));
    let hosts = hosts(folder.path(), 2);
    let out = folder.path().join("run");
    let children: Vec<Child> = (0..2).map(|p| started(process(&file, &out, &hosts, p, &[]))).collect();
    for child in children {
        let (fine, output) = ended(child, Duration::from_secs(60));
        assert!(!fine && output.contains("isn't a number, so `actor` was not updated") && !output.contains("is gone"), "{output}");
    }
    let manifest = std::fs::read_to_string(out.join("manifest.json")).unwrap();
    assert!(manifest.contains("isn't a number"), "the log says why the run ended");
}

#[test]
fn when_one_process_dies_the_other_ends_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), &SMALL.replace("iterations: 3", "iterations: 100000"));
    for victim in [0, 1] {
        let hosts = hosts(folder.path(), 2);
        let out = folder.path().join(victim.to_string());
        let mut children: Vec<Child> = (0..2).map(|p| started(process(&file, &out, &hosts, p, &[]))).collect();
        while !out.join("log/update/1").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut killed = children.remove(victim);
        killed.kill().unwrap();
        killed.wait().unwrap();
        let (fine, output) = ended(children.remove(0), Duration::from_secs(5));
        assert!(!fine && output.contains(&format!("process {victim} is gone")), "{output}");
        assert!(ask(&out, "select * from trajectories").len() > 10, "what was committed can be read");
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
    let (fine, output) = ended(second, Duration::from_secs(60));
    assert!(!fine && output.contains("another pipeline"), "{output}");
    // The other one waits on, and the right process joins it.
    let third = started(process(&file, &out, &hosts, 1, &[]));
    for (child, is_told) in [(first, true), (third, false)] {
        let (fine, output) = ended(child, Duration::from_secs(60));
        assert!(fine && output.contains("another pipeline") == is_told, "{output}");
    }
    let message = fails(flow().arg("run").arg(&file).args(["--process", "1"]));
    assert!(message.contains("--hosts"), "{message}");
}
