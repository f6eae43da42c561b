//! The parts that methods are made of, together: derived columns, values from groups, a greedy episode beside, groups
//! by history, a running mean, a weighted mean over what says something, and a mask in place of a clip.

use crate::common::*;

const PARTS: &str = r#"
flow: parts
iterations: 4
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 6 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 5 }, samples: 4 } }
  greedy:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update } }
    with: { agent: { model: actor, max_turns: 5 }, samples: 1, temperature: 0 }
  states: { op: group, inputs: rollout, with: { by: [task, state], history: 1 } }
  returns: { op: advantage, inputs: states, with: { of: step_return, gamma: 0.95, scale: none, singleton: drop } }
  value:
    op: derive
    inputs: returns
    with: { columns: { value: 'avg("return") over "group"', derived_gain: 'reward - lag(reward, 1, 0.0) over turns', used: "'yes'" } }
  kinds: { op: group, inputs: value, with: { by: [type] } }
  surprise: { op: advantage, inputs: kinds, with: { of: gae, gamma: 0.95, baseline: ema, decay: 0.5, scale: none } }
  carried:
    op: derive
    inputs: surprise
    with: { by: [type], columns: { derived_mean: 'coalesce(0.5 * last_derived_mean, 0) + 0.5 * avg("return") over (partition by type)' } }
  greedily:
    op: derive
    inputs: { rows: returns, other: shown }
    with: { columns: { advantage: "sum(reward) over episode - coalesce(sum(reward) filter (where other) over (partition by task), 0)" } }
  shown: { op: derive, inputs: greedy, with: { columns: { score_x: "exp(-turn)" } } }
  advantage: { op: combine, inputs: { surprise: carried, greedy: greedily }, with: { weights: { greedy: 0.5 }, over: used } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3, surrogate: dppo, region: kl, clip: 0.01, minibatch: 24 } }
log: [rollout, greedy, returns, value, surprise, carried, greedily, advantage, update]
"#;

#[test]
fn parts_of_methods_are_the_same_on_any_number_of_workers_and_in_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "one", PARTS, &["--workers", "1"]);
    let whole = digest(&run);
    for workers in ["2", "4"] {
        assert!(digest(&trained(folder.path(), workers, PARTS, &["--workers", workers])) == whole, "on {workers} workers");
    }
    let count = |sql: &str| answer(&run, sql, "csv").lines().nth(1).unwrap().to_owned();
    let gain = "select count(*) from value v join rollout r using (iteration, task, sample, attempt, turn) left join rollout before
        on before.iteration = r.iteration and before.task = r.task and before.sample = r.sample and before.turn + 1 = r.turn
        where abs(derived_gain - (r.reward - coalesce(before.reward, 0))) > 1e-6";
    assert_eq!(count(gain), "0");
    let value = "select max(abs(value - baseline)) < 1e-5 and count(*) > 100 from value join returns using (iteration, task, sample, attempt, turn)";
    assert_eq!(count(value), "true", "a group's mean return is its baseline");
    // Each row of a group has the same running mean: half of the one before, and half of the iteration's own mean.
    let running = "with g as (select iteration, min(running) as m, max(running) as most, avg(\"return\") as own, max(baseline) as b from surprise group by all)
        select bool_and(m = most and abs(m - (0.5 * b + 0.5 * own)) < 1e-4) and bool_and(b = coalesce(before, 0))
        from (select *, lag(m) over (order by iteration) as before from g)";
    assert_eq!(count(running), "true");
    let carried = "select bool_and(abs(derived_mean - running) < 1e-4) and max(abs(derived_mean)) > 0.01 and count(distinct iteration) = 4
        from carried join surprise using (iteration, task, sample, attempt, turn)";
    assert_eq!(count(carried), "true", "a value of an earlier iteration makes the same running mean");
    assert_eq!(count("select count(*) > 0 from returns where used = 'singleton'"), "true");
    assert_eq!(count("select count(*) from advantage where used <> 'yes'"), "0", "the other input says something of every row");
    let out = folder.path().join("replay");
    done(flow().arg("replay").arg(&run).arg("--out").arg(&out).args(["--workers", "2"]));
    assert!(digest(&out) == whole, "credit and weights from the log");
}

/// Of a run that was stopped and went on, the running means go on where they were.
#[test]
fn running_means_go_on_with_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let short = PARTS.replace("iterations: 4", "iterations: 2");
    let run = trained(folder.path(), "short", &short, &["--workers", "2"]);
    done(flow().arg("resume").arg(&run).args(["--iterations", "4"]));
    assert!(digest(&run) == digest(&trained(folder.path(), "whole", PARTS, &[])));
}

/// Random network distillation: one network predicts what another, which never learns, makes of a state.
const CURIOUS: &str = r#"
flow: curious
iterations: 6
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
  random: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
  predictor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1, head: value }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 4, variations: 4 } }
  rollout: { op: rollout, inputs: { tasks: tasks }, with: { agent: { model: actor, max_turns: 5 }, samples: 8 } }
  unknown: { op: score, inputs: rollout, with: { model: random, mode: log_prob, prompt: "{{ row.observation }}", targets: { random: "{{ row.observation }}" } } }
  target:
    op: derive
    inputs: unknown
    with:
      columns:
        value_target: >-
          (score_random - avg(score_random) over (partition by iteration)) / (stddev_pop(score_random) over (partition by iteration) + 1e-6)
  guess: { op: value, inputs: { rows: target, weights: { after: predict } }, with: { model: predictor } }
  predict: { op: gpu-update, inputs: guess, with: { model: predictor, objective: value, lr: 3.0e-3, minibatch: 16 } }
log: [rollout, target, guess, predict]
"#;

#[test]
fn a_critic_learns_a_target_that_an_expression_made() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", CURIOUS, &[]);
    let error = |iteration: u32| -> f64 {
        let sql = format!(
            "select avg((value - value_target) ^ 2) from guess join target using (iteration, task, sample, attempt, turn, phase) where iteration = {iteration}"
        );
        answer(&run, &sql, "csv").lines().nth(1).unwrap().parse().unwrap()
    };
    let (first, last) = (error(0), error(5));
    // Of a target of deviation 1 a guess of 0 has the error 1.
    assert!((0.8..2.0).contains(&first) && last < first / 2.0, "from {first} to {last}");
}
