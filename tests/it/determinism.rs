//! The same pipeline and seed give the same rows, advantages and weights, bit for bit, on any number of workers.

use crate::common::*;
use std::path::{Path, PathBuf};

/// The weights a run left behind.
fn weights(run: &Path) -> Vec<u8> {
    let mut files: Vec<PathBuf> = vec![run.join("weights")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        } else if path.ends_with("model.safetensors") {
            return std::fs::read(path).unwrap();
        }
    }
    panic!("no weights in {run:?}");
}

#[test]
fn workers_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let query = "select * from trajectories order by iteration, task, sample, turn";
    let rows = |run: &Path| done(flow().arg("query").arg(run).arg(query).args(["--format", "json"]));
    let alone = trained(folder.path(), "one", SMALL, &["--workers", "1"]);
    let (first_rows, first_weights) = (rows(&alone), weights(&alone));
    assert!(first_rows.lines().count() > 100, "a run this small still has more than a hundred turns");
    for workers in ["2", "4"] {
        let run = trained(folder.path(), workers, SMALL, &["--workers", workers]);
        assert!(rows(&run) == first_rows, "rows differ on {workers} workers");
        assert!(weights(&run) == first_weights, "weights differ on {workers} workers");
    }
}

/// The whole batch as one group, tokens as what counts, and tasks that are played until enough of them tell.
const SAMPLED: &str = r#"
flow: sampled
iterations: 3
seed: 3
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 4, batch: 9 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 2 }, samples: 2, groups: 4 } }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  centred: { op: advantage, inputs: group, with: { of: episode_return, scale: none, equal: drop } }
  batch: { op: group, inputs: centred, with: { by: [] } }
  advantage: { op: advantage, inputs: batch, with: { of: advantage, unit: token, eps: 1.0e-8, eps_in: variance } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, centred, advantage, update]
"#;

#[test]
fn workers_change_nothing_where_tasks_are_resampled() {
    let folder = tempfile::tempdir().unwrap();
    let all = "select iteration, task, sample, turn, r.action, r.reward, a.advantage, u.used, u.version
        from rollout r join advantage a using (iteration, task, sample, turn) join update u using (iteration, task, sample, turn) order by all";
    let one_worker = trained(folder.path(), "one", SAMPLED, &["--workers", "1"]);
    let two_workers = trained(folder.path(), "two", SAMPLED, &["--workers", "2"]);
    assert!(ask(&one_worker, all) == ask(&two_workers, all), "rows differ on two workers");
    assert!(weights(&one_worker) == weights(&two_workers), "weights differ on two workers");

    let played = "select iteration, count(distinct task) from rollout group by all order by all";
    let telling = "select iteration, count(distinct task) from update where used = 'yes' group by all order by all";
    let dull = "select count(distinct (iteration, task)) from update where used = 'dropped_equal_rewards'";
    let figures = "select iteration, value::int from metrics where node = 'rollout' and name = 'groups' order by all";
    let lines = |sql: &str| answer(&one_worker, sql, "csv").lines().skip(1).map(String::from).collect::<Vec<_>>();
    assert_eq!(lines(telling), lines(figures), "what rollout counts is what advantage keeps");
    assert!(lines(telling).iter().all(|line| line.ends_with(",4")), "{:?}", lines(telling));
    assert!(lines(played).iter().any(|line| !line.ends_with(",4")) && lines(dull) != ["0"], "{:?}", lines(played));
    let whole = "select sum(advantage * len(response_tokens)) as s, sum(advantage * advantage * len(response_tokens)) - sum(len(response_tokens)) + 1 as v
        from rollout join advantage using (iteration, task, sample, turn) join update using (iteration, task, sample, turn)
        where update.used = 'yes' group by iteration";
    for line in lines(whole) {
        let off: Vec<f64> = line.split(',').map(|x| x.parse().unwrap()).collect();
        assert!(off.iter().all(|x| x.abs() < 1e-3), "mean 0 and variance 1 over the tokens: {line}");
    }
}

#[test]
fn another_seed_is_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let first = trained(folder.path(), "one", SMALL, &[]);
    let second = trained(folder.path(), "two", SMALL, &["--set", "seed=6"]);
    assert!(weights(&first) != weights(&second));
}

/// Groups of alike observations across tasks: all rows that could share one must meet, on whichever worker they were
/// made.
#[test]
fn workers_change_no_group_of_alike_observations() {
    let folder = tempfile::tempdir().unwrap();
    let (by, similar) = ("by: [task, state, visitation_depth]", "by: [visitation_depth], similar: { at_least: 0.9 }");
    assert!(SMALL.contains(by));
    let yaml = SMALL.replace(by, similar);
    let rows = |run: &Path, query: &str| done(flow().arg("query").arg(run).arg(query).args(["--format", "json"]));
    let groups = "select iteration, task, sample, turn, \"group\", group_size from states order by all";
    let one_worker = trained(folder.path(), "one", &yaml, &["--workers", "1"]);
    let expected = rows(&one_worker, groups);
    let mixed = "select count(*) > 0 as mixed from (select count(distinct task) as tasks from states group by iteration, \"group\") where tasks > 1";
    assert!(rows(&one_worker, mixed).contains("true"), "some groups hold rows of several tasks");
    for workers in ["2", "4"] {
        let run = trained(folder.path(), workers, &yaml, &["--workers", workers]);
        assert!(rows(&run, groups) == expected, "groups differ on {workers} workers");
    }
}
