//! `flow test --invariance`: pipelines whose updates are the same in every way, and two that aren't.

use crate::common::*;
use serde_json::Value;
use std::path::Path;

/// A critic beside a policy, in minibatches, several times.
const CRITIC: &str = r#"
flow: critic
iterations: 9
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
  critic: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1, head: value }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 6 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 5 }, samples: 4 } }
  value: { op: value, inputs: { rows: rollout, weights: { after: learn } }, with: { model: critic } }
  batch: { op: group, inputs: value, with: { by: [iteration] } }
  advantage: { op: advantage, inputs: batch, with: { of: gae, gamma: 0.9, lambda: 0.8 } }
  learn: { op: gpu-update, inputs: advantage, with: { model: critic, objective: value, lr: 1.0e-3, minibatch: 32 } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3, minibatch: 32, epochs: 2, aggregation: seq_mean_token_mean } }
log: [rollout, advantage, learn, update]
"#;

/// Each case as an object, and whether all were the same.
fn cases(folder: &Path, yaml: &str) -> (Vec<Value>, bool) {
    let output = flow().args(["test", "--invariance", "--format", "json"]).arg(pipeline(folder, yaml)).output().unwrap();
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert!(lines.len() >= 13, "{}{}", text(&output.stdout), text(&output.stderr));
    (lines, output.status.success())
}

#[test]
fn an_update_is_the_same_in_every_way() {
    let folder = tempfile::tempdir().unwrap();
    for yaml in [SMALL, LOOPED, CRITIC] {
        let (cases, good) = cases(folder.path(), yaml);
        let had: Vec<&Value> = cases.iter().filter(|case| case["not_had"].is_null()).collect();
        assert!(good && had.len() >= 12 && had.iter().all(|case| case["same"] == true), "{cases:#?}");
        let exact = had.iter().filter(|case| case["bound"] == 0.0);
        assert_eq!(exact.filter(|case| case["largest"] == 0.0).count(), 6, "{cases:#?}");
        assert!(had.iter().any(|case| case["largest"].as_f64() > Some(0.0)), "sums in another order round in another way: {cases:#?}");
    }
}

/// A credit by the clock, and a loss that is a mean over whatever rows stand in one pass: the field's loudest fault.
#[test]
fn what_must_not_matter_and_does_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let functions = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/functions.py");
    let clock = SMALL
        .replace("advantage: { op: combine", "judged: { op: combine")
        .replace("  update: { op: gpu-update, inputs: advantage,", &format!(
            "  advantage: {{ op: python, inputs: judged, with: {{ call: {functions}:clock, check: never }} }}\n  update: {{ op: gpu-update, inputs: advantage,"
        ));
    let (found, good) = cases(folder.path(), &clock);
    let place = |name: &str| found.iter().find(|case| case["case"] == name).map(|case| case["place"].to_string()).unwrap_or_default();
    assert!(!good && place("replayed, not played").contains("`advantage`"), "{found:#?}");
    let mean = SMALL.replace("lr: 1.0e-3", &format!("lr: 1.0e-3, surrogate: {{ call: {functions}:later_mean }}"));
    let (found, good) = cases(folder.path(), &mean);
    let by_pass = found.iter().find(|case| case["case"].as_str().is_some_and(|case| case.starts_with("micro_batch: 2"))).unwrap();
    assert!(!good && by_pass["same"] == false && by_pass["largest"].as_f64() > Some(0.1), "{found:#?}");
    let workers = found.iter().find(|case| case["case"] == "4 workers").unwrap();
    assert_eq!(workers["same"], true, "it is the same wherever rows are: {found:#?}");
}
