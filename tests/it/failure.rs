//! Environments that fail: each failure is a row, the run goes on without it, and what it would have been doesn't
//! change the rest.

use crate::common::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A corridor in a program that fails; see tests/programs/flaky.py for its arguments.
fn flaky(arguments: &str) -> String {
    format!(
        r#"
flow: flaky
iterations: 3
seed: 4
models:
  actor: {{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }}
nodes:
  tasks:
    op: tasks
    with: {{ env: process, name: flaky, command: [python3, tests/programs/flaky.py, {arguments}], processes: 2, seconds: 4, pass: [FLAKY, SLOW], batch: 32 }}
  rollout:
    op: rollout
    inputs: {{ tasks: tasks, weights: {{ after: update }} }}
    with: {{ agent: {{ model: actor, max_turns: 6 }}, samples: 2, max_failed: 0.5 }}
  group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}
  advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}
  update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor, lr: 1.0e-3 }} }}
log: [rollout, update]
"#
    )
}

fn csv(run: &Path, sql: &str) -> String {
    answer(run, sql, "csv")
}

/// Everything that a run has to be judged by: rows, errors, weights.
fn results(run: &Path) -> (String, String, Vec<u8>) {
    let rows = csv(run, "select * from trajectories order by iteration, task, sample, turn");
    let errors = csv(run, "select * exclude (error) from errors order by iteration, task, sample");
    let versions = std::fs::read_dir(run.join("weights")).unwrap();
    let newest = versions.filter_map(|v| v.unwrap().file_name().to_str()?.parse::<u64>().ok()).max().unwrap();
    (rows, errors, std::fs::read(run.join(format!("weights/{newest}/actor/model.safetensors"))).unwrap())
}

/// The turns that the program noted as failing: the task, and the turn as `errors` counts (a reset belongs to turn 0).
fn noted(notes: &Path) -> BTreeSet<(String, u32)> {
    let text = std::fs::read_to_string(notes).unwrap();
    let turn = |count: &str| count.parse::<u32>().unwrap().saturating_sub(1);
    text.lines().map(|line| line.split_once(' ').unwrap()).map(|(task, count)| (task.to_owned(), turn(count))).collect()
}

/// Whether some process of the program is still there.
fn alive(notes: &Path) -> bool {
    let mut pids = notes.to_owned().into_os_string();
    pids.push(".pids");
    let pids = std::fs::read_to_string(PathBuf::from(pids)).unwrap();
    let command = |pid: &str| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| text(&line).contains("flaky.py"));
    pids.lines().any(command)
}

#[test]
fn each_failure_is_a_row_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let run = |workers: &str| {
        let notes = folder.path().join(format!("notes-{workers}"));
        let yaml = flaky(&format!("'40', {}", notes.display()));
        (trained(folder.path(), workers, &yaml, &["--workers", workers]), notes)
    };
    let (one_worker, notes) = run("1");
    let errors = csv(&one_worker, "select distinct task, turn from errors");
    let failures: BTreeSet<(String, u32)> =
        errors.lines().skip(1).map(|l| l.split_once(',').unwrap()).map(|(task, turn)| (task.into(), turn.parse().unwrap())).collect();
    assert_eq!(failures, noted(&notes), "what failed is what the program says has failed");
    assert!(failures.len() >= 4, "too few failures to tell anything: {failures:?}");
    let kinds = csv(&one_worker, "select distinct cause from errors order by 1");
    assert_eq!(kinds.lines().skip(1).collect::<Vec<_>>(), ["crash", "malformed", "timeout"]);
    let count = |sql: &str| csv(&one_worker, sql).lines().nth(1).unwrap().to_owned();
    assert_eq!(count("select count(*) from errors where node <> 'rollout' or tries <> 2 or phase <> 'play' or error = ''"), "0");
    assert_eq!(
        count(
            "select count(*) from errors where cause = 'crash' and error not like '%exit status: 3%the roof of ' || task || ' came down'"
        ),
        "0"
    );
    assert_eq!(
        count(
            "select count(*) from (select iteration, task, sample from errors union select distinct iteration, task, sample from rollout)"
        ),
        (3 * 32 * 2).to_string()
    );
    assert_eq!(count("select count(*) from errors join rollout using (iteration, task, sample)"), "0", "no half episodes");
    assert_eq!(count("select count(*) from (select bool_or(done) as over, max(turn) + 1 = count(*) as whole from rollout group by iteration, task, sample) where not over or not whole"), "0");
    assert_eq!(count("select sum(value)::int = (select count(*) from errors) from metrics where name = 'failed'"), "true");
    // A group says how many of its samples it compares.
    let compared = "select count(distinct (task, sample)) / count(distinct task) from rollout group by iteration order by iteration";
    let figures = csv(&one_worker, "select value from metrics where node = 'advantage' and name = 'samples' order by iteration");
    assert_eq!(csv(&one_worker, compared).lines().skip(1).collect::<Vec<_>>(), figures.lines().skip(1).collect::<Vec<_>>());
    let short = "select iteration, task from errors where task in (select task from rollout where iteration = errors.iteration) limit 1";
    let short = csv(&one_worker, short);
    let (iteration, task) = short.lines().nth(1).unwrap().split_once(',').unwrap();
    let shown = done(flow().arg("show").arg(&one_worker).args(["--task", task, "--iteration", iteration]));
    assert!(shown.contains("1 of 2 samples of the task are compared: 1 failed (table `errors`)"), "{shown}");
    assert!(!alive(&notes), "no process outlives the run");
    let (two_workers, _) = run("2");
    assert!(results(&one_worker) == results(&two_workers), "another number of workers makes another run");
}

#[test]
fn what_fails_once_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let smooth = results(&trained(folder.path(), "smooth", &flaky("'0', '-'"), &[]));
    let notes = folder.path().join("notes");
    std::fs::write(&notes, "").unwrap();
    let mut command = flow();
    let yaml = pipeline(folder.path(), &flaky(&format!("'30', {}, once", notes.display())));
    let out = folder.path().join("once");
    // A task may have several turns that fail.
    command.arg("run").arg(yaml).arg("--out").arg(&out).args(["--set", "nodes.rollout.with.tries=7"]);
    done(command.env("FLAKY", "exit garbage text error"));
    assert!(noted(&notes).len() > 5, "something failed");
    assert!(results(&out) == smooth, "a second try gives what the first would have given");
    assert_ne!(csv(&out, "select sum(value)::int from metrics where name = 'retried'").lines().nth(1), Some("0"));
    let columns = csv(&out, "select column_name from (describe errors)");
    assert_eq!(
        columns.lines().skip(1).collect::<Vec<_>>(),
        ["iteration", "task", "sample", "attempt", "turn", "phase", "node", "cause", "error", "tries"],
        "the table is there without a row"
    );
}

#[test]
fn too_much_failure_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let yaml = pipeline(folder.path(), &flaky(&format!("'30', {}", notes.display())));
    let out = folder.path().join("run");
    let mut command = flow();
    command.arg("run").arg(yaml).arg("--out").arg(&out).args(["--set", "nodes.rollout.with.max_failed=0"]).env("FLAKY", "garbage");
    let error = fails(&mut command);
    let message = error.lines().find(|l| l.starts_with("error: rollout, iteration ")).unwrap_or_else(|| panic!("{error}"));
    let noted = noted(&notes);
    let named = |(task, turn): &(String, u32)| {
        message.contains(&format!("{task}, sample ")) && message.contains(&format!(", turn {turn} (malformed)"))
    };
    assert!(noted.iter().any(named), "{message}\n{noted:?}");
    assert!(message.contains("of 64 episodes ha") && message.contains("`max_failed: 0` allows"), "{message}");
    assert!(!error.contains("panicked"), "{error}");
    assert!(!alive(&notes), "no process outlives the run");
    // The iteration is not committed, and its failures can be asked for all the same, until it is played again.
    let errors = "select count(*) > 0, bool_and(error like '%garbage%' or cause = 'malformed') from errors";
    assert_eq!(csv(&out, errors).lines().nth(1), Some("true,true"));
    assert!(error.contains("stand in the table `errors`"), "{error}");
    fails(flow().arg("resume").arg(&out).env("FLAKY", "garbage"));
    let once = "select count(*) = count(distinct (iteration, task, sample)) from errors";
    assert_eq!(csv(&out, once).lines().nth(1), Some("true"));
}

#[test]
fn a_program_that_does_not_start_or_names_no_words_is_told_about_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |command: &str, sets: &[&str]| {
        let yaml = flaky("").replace("[python3, tests/programs/flaky.py, ]", command);
        let out = folder.path().join("run");
        let mut run = flow();
        run.arg("run").arg(pipeline(folder.path(), &yaml)).arg("--out").arg(&out);
        for set in sets {
            run.args(["--set", set]);
        }
        let message = fails(&mut run);
        assert!(!out.exists() || !sets.is_empty(), "nothing was begun");
        message
    };
    assert!(refused("[no-such-program]", &[]).contains("there is no program `no-such-program`"));
    let mute = r#"[python3, -c, "print('{\"protocol\": 2, \"splits\": {\"train\": 1}}', flush=True); input()"]"#;
    let message = refused(mute, &[]);
    assert!(message.contains("names no words") && message.contains("`tokens: bytes`"), "{message}");
    let bytes = mute.replace(r#"1}}'"#, r#"1}, \"words\": []}'"#);
    let message = refused(&bytes, &["iterations=1"]);
    assert!(!message.contains("names no words") && message.contains("its process ended"), "{message}");
    let message = refused("[no-such-program]", &["models.actor.tokens=bytes"]);
    assert!(message.contains("there is no program"), "{message}");
}

#[test]
fn the_example_is_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    done(flow().args(["run", "pipelines/process-corridor.yaml", "--out"]).arg(&out));
    let success = csv(&out, "select round(avg(value), 3) from metrics where name = 'success' and iteration >= 15");
    let success: f64 = success.lines().nth(1).unwrap().parse().unwrap();
    assert!(success > 0.9, "{success} of the corridors end at the flag");
}

/// A program that notes which variables it got, answers hello, and then hears nothing more, not even that it should
/// end.
const DEAF: &str = r#"
import json, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
hello = sys.stdin.readline()
print(json.dumps({"protocol": 2, "splits": {"train": 9}, "words": ["a"]}), flush=True)
sys.stdin.readline()
child = subprocess.Popen(["sleep", "600"])
part = f"{sys.argv[1]}.{os.getpid()}"
with open(part, "w") as notes:
    notes.write(f"{os.getpid()} {child.pid}\n" + "\n".join(os.environ))
os.rename(part, sys.argv[1])
time.sleep(600)
"#;

/// Whether the process is there and no zombie.
fn runs(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn programs_end_with_a_flow_that_is_killed_and_know_no_secrets_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (program, notes) = (folder.path().join("deaf.py"), folder.path().join("notes"));
    std::fs::write(&program, DEAF).unwrap();
    let command = format!("[python3, {}, {}]", program.display(), notes.display());
    let yaml = flaky("").replace("[python3, tests/programs/flaky.py, ]", &command).replace("seconds: 4", "seconds: 400");
    let mut command = flow();
    command.env("FLAKY", "none").env("A_SECRET", "1234").env("LC_TIME", "C");
    command.arg("run").arg(pipeline(folder.path(), &yaml)).arg("--out").arg(folder.path().join("run"));
    let mut run = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !notes.exists() {
        assert!(std::time::Instant::now() < until, "the program was never asked to play");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let noted = std::fs::read_to_string(&notes).unwrap();
    let (pids, names) = noted.split_once('\n').unwrap();
    let names: BTreeSet<&str> = names.lines().collect();
    assert!(["PATH", "LC_TIME", "FLAKY"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(!names.contains("A_SECRET"), "{names:?}");
    assert!(pids.split(' ').all(runs));
    run.kill().unwrap();
    run.wait().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while pids.split(' ').any(runs) {
        assert!(std::time::Instant::now() < until, "{pids} outlive the run");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// An environment that never answers holds up an iteration for ever, and with it a stop that waits for that iteration:
/// the run ends all the same.
#[test]
fn a_stage_that_hangs_after_a_stop_was_asked_for_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = flaky("").replace("command: [python3, tests/programs/flaky.py, ]", "command: [python3, tests/programs/broken.py, hang]");
    let yaml = yaml.replace("seconds: 4, pass: [FLAKY, SLOW]", "seconds: 86400");
    let out = folder.path().join("hangs");
    let mut command = flow();
    command.arg("run").arg(pipeline(folder.path(), &yaml)).arg("--out").arg(&out).args(["--stall", "2"]);
    let mut child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let waits = || {
        let status: serde_json::Value = serde_json::from_slice(&std::fs::read(out.join("status.json")).ok()?).ok()?;
        let rollout = status["nodes"].as_array()?.iter().find(|node| node["node"] == "rollout")?;
        rollout["running_seconds"].as_f64().filter(|seconds| *seconds > 1.0)
    };
    while waits().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "it had ended before");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let start = std::time::Instant::now();
    let term = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(term.success());
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed().as_secs() < 60, "it waits for ever");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let output = child.wait_with_output().unwrap();
    let message = text(&output.stderr);
    assert!(!output.status.success() && message.contains("stopping once this iteration is committed"), "{message}");
    assert!(message.contains("`rollout` is busy with iteration 0 and shows no sign of life"), "{message}");
}
