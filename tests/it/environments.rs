//! Environments of protocol 2: splits, one live episode a process, lists of actions on request, panels, and experts that
//! can't be followed.

use crate::common::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Plays tests/programs/isolated.py, with its arguments.
fn isolated(arguments: &str, rollout: &str) -> String {
    format!(
        r#"
flow: isolated
iterations: 3
seed: 4
models:
  actor: {{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1, context: 256 }}
nodes:
  tasks:
    op: tasks
    with: {{ env: process, name: isolated, command: [python3, tests/programs/isolated.py, {arguments}], processes: 2, batch: 4 }}
  rollout:
    op: rollout
    inputs: {{ tasks: tasks, weights: {{ after: update }} }}
    with: {{ agent: {{ model: actor, max_turns: 5 }}, samples: 2, {rollout} }}
  group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}
  advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}
  update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor, lr: 1.0e-3 }} }}
log: [rollout, update]
"#
    )
}

fn csv(run: &Path, sql: &str) -> Vec<String> {
    answer(run, sql, "csv").lines().skip(1).map(String::from).collect()
}

/// The lines that the program noted, by process.
fn noted(notes: &Path) -> BTreeMap<String, Vec<String>> {
    let mut by_process: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in std::fs::read_to_string(notes).unwrap().lines() {
        let (process, what) = line.split_once(' ').unwrap();
        by_process.entry(process.into()).or_default().push(what.into());
    }
    by_process
}

#[test]
fn every_episode_is_closed_before_the_next_and_an_epoch_has_every_task_once() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let run = trained(folder.path(), "one", &isolated(&notes.display().to_string(), ""), &[]);
    assert_eq!(csv(&run, "select count(*) from errors"), ["0"], "no episode was begun in a process that held another");
    let mut lists = BTreeSet::new();
    for (process, lines) in noted(&notes) {
        let ends: Vec<&String> = lines.iter().filter(|line| line.starts_with("reset") || line.starts_with("close")).collect();
        assert!(ends.len() >= 2, "{process}: {ends:?}");
        // The last may have been ended before it could note it.
        for pair in ends.chunks_exact(2) {
            let (begun, over) = (pair[0].split(' ').nth(1), pair[1].split(' ').nth(1));
            assert!(pair[0].starts_with("reset") && pair[1].starts_with("close") && begun == over, "{process}: {pair:?}");
        }
        lists.extend(lines.iter().filter_map(|line| line.strip_prefix("list ")).map(String::from));
    }
    assert_eq!(lists.into_iter().collect::<Vec<_>>(), ["change", "full"]);
    // Eight tasks, four an iteration: two iterations are an epoch, the third begins another.
    let tasks = csv(
        &run,
        "select distinct regexp_extract(task, 'process-isolated-train-(.*)-s', 1) as t from rollout where iteration < 2 order by t",
    );
    assert_eq!(tasks.len(), 8, "{tasks:?}");
    assert_eq!(csv(&run, "select count(distinct task) from rollout where iteration = 2"), ["4"]);
    // The column has the environment's own score, and so has the figure.
    assert_eq!(csv(&run, "select count(*) from rollout where won <> (score = 100)"), ["0"]);
    assert_eq!(csv(&run, "select count(*) from metrics where name in ('score', 'world_place')"), ["6"]);
    let again = trained(folder.path(), "two", &isolated("'-'", ""), &["--workers", "2"]);
    assert_eq!(digest(&run), digest(&again), "neither workers nor the moment of an answer make another run");
}

#[test]
fn what_an_expert_says_in_vain_costs_its_episode_or_joins_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let errors = "select distinct cause, turn, error from errors";
    let expert = "actor: expert, max_failed: 1.0";
    let reads = |arguments: &str, rollout: &str| isolated(arguments, rollout).replace("max_turns: 5 }", "max_turns: 5, prompt: full }");
    let run = trained(folder.path(), "dance", &reads("'-', dance", expert), &[]);
    let output = csv(&run, errors);
    assert!(
        output.len() == 1 && output[0].starts_with("expert,1,") && output[0].contains("the expert's action `dance` isn't one of the 1"),
        "{output:?}"
    );
    let run = trained(folder.path(), "join", &reads("'-', dance", &format!("{expert}, join: true")), &[]);
    assert_eq!(csv(&run, "select count(*) from errors"), ["0"]);
    assert_ne!(csv(&run, "select count(*) from rollout where action = 'dance'"), ["0"]);
    let run = trained(folder.path(), "null", &reads("'-', 'null'", expert), &[]);
    let output = csv(&run, "select distinct cause, error, tries from errors");
    assert_eq!(output, ["expert,the expert knows no way on,1"], "it isn't asked again");
    // An expert that nobody reads a list for isn't held against one, and none is made.
    let notes = folder.path().join("notes");
    let arguments = format!("{}, dance", notes.display());
    let run = trained(folder.path(), "free", &isolated(&arguments, "actor: expert"), &[]);
    assert_eq!(csv(&run, "select count(*) from errors"), ["0"]);
    assert!(noted(&notes).values().flatten().all(|line| !line.starts_with("list")), "nobody reads lists");
}

#[test]
fn a_prompt_over_the_context_costs_its_episode() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "wide", &isolated("'-', wide", "max_failed: 1.0"), &[]);
    let output = csv(&run, "select distinct cause, error from errors");
    assert!(
        !output.is_empty() && output.iter().all(|line| line.starts_with("prompt,") && line.contains("don't fit the context of 256")),
        "{output:?}"
    );
    assert_eq!(csv(&run, "select count(*) from rollout where task like '%long%'"), ["0"]);
    assert_ne!(csv(&run, "select count(*) from rollout where task like '%short%'"), ["0"]);
}

#[test]
fn a_split_is_frozen_measured_while_training_and_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let command = "command=[\"python3\",\"tests/programs/isolated.py\",\"-\"]";
    let freeze = |out: &Path| {
        let settings = ["panel", "process", "name=isolated", command, "split=test", "--count", "10", "--out"];
        done(flow().args(settings).arg(out));
        let files: Vec<_> = std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1);
        files[0].clone()
    };
    let panel = freeze(&folder.path().join("a"));
    assert_eq!(panel.file_name(), freeze(&folder.path().join("b")).file_name(), "its name is its content");
    let frozen: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&panel).unwrap()).unwrap();
    assert_eq!(frozen["tasks"].as_array().unwrap().len(), 6, "the split has no more");
    assert_eq!(frozen["types"], serde_json::json!(["short", "short", "short", "long", "long", "long"]));
    assert_eq!(frozen["game"], serde_json::json!({ "env": "process", "name": "isolated", "split": "test" }));
    let measured = |split: &str| {
        let evaluate = format!(
            "  evaluate: {{ op: evaluate, inputs: {{ weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 5 }}, panel: {} }} }}\nlog: [rollout, update, evaluate]",
            panel.display()
        );
        isolated("'-'", "").replace("batch: 4", &format!("split: {split}, batch: 4")).replace("log: [rollout, update]", &evaluate)
    };
    let run = trained(folder.path(), "run", &measured("train"), &[]);
    assert_eq!(csv(&run, "select count(distinct task) from evaluate"), ["6"]);
    let output = done(flow().arg("eval").arg(&run).arg("--panel").arg(&panel).args(["--samples", "2"]));
    assert!(
        output.contains("6 tasks") && output.contains("by type of task") && output.contains("long ") && output.contains("3 tasks"),
        "{output}"
    );
    let output = fails(flow().arg("check").arg(pipeline(folder.path(), &measured("test"))));
    assert!(output.contains("the split `test`, from which `tasks` draws its tasks"), "{output}");
    let output = fails(flow().arg("check").arg(pipeline(folder.path(), &measured("dev"))));
    assert!(output.contains("the process `isolated` has no split `dev`; it has `test`, `train`"), "{output}");
}

#[test]
fn a_program_is_started_to_be_checked() {
    let folder = tempfile::tempdir().unwrap();
    let output = done(flow().arg("check").arg(pipeline(folder.path(), &isolated("'-'", ""))));
    assert!(
        output.contains("the process `isolated` says hello: isolated 1; 8 tasks of `train` are drawn from (splits: test 6, train 8)"),
        "{output}"
    );
    let speaks = |hello: &str| {
        let program = format!("[python3, -c, 'print(''{hello}'', flush=True); input(); input()']");
        let yaml = isolated("'-'", "").replace("[python3, tests/programs/isolated.py, '-']", &program);
        fails(flow().arg("check").arg(pipeline(folder.path(), &yaml)))
    };
    for (hello, word) in [
        (r#"{"protocol":4}"#, "it speaks version 4 of the protocol, flow speaks versions 2 and 3"),
        (r#"{"protocol":2}"#, "missing field `splits`"),
        (r#"{"protocol":2,"splits":{}}"#, "names no splits"),
        (r#"{"protocol":2,"splits":{"train":[]}}"#, "its split `train` has no tasks"),
        (r#"{"protocol":2,"splits":{"test":5}}"#, "has no split `train`; it has `test`"),
        (r#"{"protocol":2,"splits":{"train":5},"live":0}"#, "`live` must be 1 or more"),
        ("I am a program", "its answer to hello is invalid (expected value)"),
    ] {
        let output = speaks(hello);
        assert!(output.contains(word) && output.contains("process `isolated`"), "{hello}: {output}");
    }
    let missing = isolated("'-'", "")
        .replace("env: process, name: isolated, command: [python3, tests/programs/isolated.py, '-']", "env: scienceworld");
    // From a folder of its own, in which nothing is installed.
    let output = fails(flow().current_dir(folder.path()).arg("check").arg(pipeline(folder.path(), &missing)));
    assert!(output.contains("`flow env install scienceworld`"), "{output}");
    let output = done(flow().current_dir(folder.path()).arg("env"));
    assert!(output.contains("sokoban") && output.contains("scienceworld") && output.contains("verifiers"), "{output}");
    assert_eq!(output.matches("(not installed)").count(), 14, "{output}");
}

/// What a program says of a task's type and of each moment can be asked for in SQL.
#[test]
fn types_and_metrics_of_an_environment_are_columns() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "typed", &isolated("'-'", ""), &[]);
    let types = csv(
        &run,
        "select type, count(distinct task) > 0, bool_and(contains(task, '-' || type || '/')) from rollout group by type order by type",
    );
    assert_eq!(types, ["long,true,true", "short,true,true"]);
    // The place after a step is one more or one less than before it, and at the end of an episode the last of its
    // length.
    let places = csv(&run, "select distinct type, (info->>'place')::int from rollout where won order by all");
    assert_eq!(places, ["long,5", "short,3"]);
    assert_eq!(csv(&run, "select count(*) from rollout where info is null"), ["0"]);
}
