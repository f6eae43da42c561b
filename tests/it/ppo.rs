//! PPO from end to end: a critic that values, advantages and targets made of its values, and both models learning.

use crate::common::*;
use std::path::Path;

const PPO: &str = r#"
flow: ppo
iterations: 3
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
  learn: { op: gpu-update, inputs: advantage, with: { model: critic, objective: value, lr: 1.0e-2 } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, value, advantage, learn, update]
"#;

fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn advantages_and_targets_follow_from_rewards_and_values() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", PPO, &[]);
    // The recursion of generalised advantage estimation, row by row, over the next turn of the same trajectory; where
    // `max_turns` cut it the critic expects after the last turn what it expected before it.
    let rows = ask(
        &run,
        "select r.reward + 0.9 * coalesce(lead(v.value) over w, if(r.truncated <> '', v.value, 0)) - v.value + 0.9 * 0.8 * coalesce(lead(a.\"return\") over w, 0) as wanted,
            a.\"return\" as found, a.value_target - v.value as target, v.value, r.iteration
        from rollout r join value v using (iteration, task, sample, attempt, turn, phase)
            join advantage a using (iteration, task, sample, attempt, turn, phase)
        window w as (partition by r.iteration, r.task, r.sample, r.attempt order by r.turn)",
    );
    assert!(rows.len() > 100);
    let cut = ask(&run, "select count(*) filter (truncated = 'max_turns') as cut, count(*) filter (turn = 4 and not won) as last, count(*) filter (truncated <> '' and not done) as open from rollout");
    assert!(number(&cut[0]["cut"]) > 0.0 && number(&cut[0]["cut"]) <= number(&cut[0]["last"]) && cut[0]["open"] == 0, "{cut:?}");
    for row in &rows {
        assert!((number(&row["wanted"]) - number(&row["found"])).abs() < 1e-4, "{row}");
        assert!((number(&row["target"]) - number(&row["found"])).abs() < 1e-4, "{row}");
        assert_eq!(number(&row["value"]) == 0.0, row["iteration"] == 0, "a new critic expects nothing, one that learnt does: {row}");
    }
    let white = ask(&run, "select avg(advantage) as mean, stddev_samp(advantage) as deviation from advantage group by iteration");
    assert!(white.iter().all(|row| number(&row["mean"]).abs() < 1e-4 && (number(&row["deviation"]) - 1.0).abs() < 1e-3), "{white:?}");
    let learnt = ask(&run, "select name, value from metrics where node = 'learn' and iteration = 2 order by name");
    let names: Vec<&str> =
        learnt.iter().filter_map(|row| row["name"].as_str()).filter(|name| !["busy_seconds", "rows_out"].contains(name)).collect();
    assert_eq!(
        names,
        [
            "clip_fraction",
            "explained_variance",
            "grad_norm",
            "loss",
            "lr",
            "rows",
            "save_seconds",
            "seconds",
            "tokens",
            "tokens_computed",
            "tokens_distinct"
        ]
    );
}

#[test]
fn tokens_are_valued_compared_and_learnt_from_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let by_token = ["nodes.value.with.per=token", "nodes.advantage.with.of=token_gae"];
    let extra: Vec<&str> = by_token.iter().flat_map(|set| ["--set", set]).collect();
    let run = trained(folder.path(), "run", PPO, &extra);
    // The recursion over all response tokens of an episode, one after the other; the reward comes with a turn's last
    // token.
    let rows = ask(
        &run,
        "with tokens as (
            select r.iteration, r.task, r.sample, r.turn, i, i = len(r.response_tokens) as last, r.reward, r.truncated, v.token_values[i] as value,
                a.token_targets[i] - v.token_values[i] as raw, a.token_advantages[i] as advantage
            from rollout r join value v using (iteration, task, sample, attempt, turn, phase)
                join advantage a using (iteration, task, sample, attempt, turn, phase), unnest(range(1, len(r.response_tokens) + 1)) t(i))
        select case when last then reward else 0 end + 0.9 * coalesce(lead(value) over w, if(truncated <> '', value, 0)) - value
            + 0.9 * 0.8 * coalesce(lead(raw) over w, 0) as wanted, raw as found, value, iteration
        from tokens window w as (partition by iteration, task, sample order by turn, i)",
    );
    let turns = ask(&run, "select count(*) as n from rollout");
    assert!(rows.len() as f64 > number(&turns[0]["n"]), "there are more tokens than turns");
    for row in &rows {
        assert!((number(&row["wanted"]) - number(&row["found"])).abs() < 1e-4, "{row}");
        assert_eq!(number(&row["value"]) == 0.0, row["iteration"] == 0, "a new critic expects nothing, one that learnt does: {row}");
    }
    let white = "select iteration, avg(advantage) as mean, stddev_samp(advantage) as deviation
        from (select iteration, unnest(token_advantages) as advantage from advantage) group by iteration";
    let white = ask(&run, white);
    assert!(white.iter().all(|row| number(&row["mean"]).abs() < 1e-4 && (number(&row["deviation"]) - 1.0).abs() < 1e-3), "{white:?}");
    let query = "select count(*) as n from advantage where abs(advantage - list_avg(token_advantages)) > 1e-5 or len(token_advantages) = 0";
    assert_eq!(ask(&run, query)[0]["n"], 0, "a row's advantage is the mean over its tokens");
    let two_workers = trained(folder.path(), "two", PPO, &[&extra[..], &["--workers", "2"]].concat());
    let all = |run: &Path| ask(run, "select * from trajectories order by iteration, task, sample, turn");
    assert!(all(&run) == all(&two_workers), "the number of workers changes nothing");
}

#[test]
fn workers_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |workers: &str| {
        let run = trained(folder.path(), workers, PPO, &["--workers", workers]);
        ask(&run, "select * from trajectories order by iteration, task, sample, turn")
    };
    assert!(rows("1") == rows("2"));
}

#[test]
fn both_models_are_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let whole = trained(folder.path(), "whole", PPO, &[]);
    let run = trained(folder.path(), "short", PPO, &["--set", "iterations=2"]);
    done(flow().arg("resume").arg(&run).args(["--iterations", "3"]));
    let rows = |run: &Path| ask(run, "select * from trajectories order by iteration, task, sample, turn");
    assert!(rows(&run) == rows(&whole));
}

#[test]
fn a_critic_begins_as_a_policy_that_a_run_left() {
    let folder = tempfile::tempdir().unwrap();
    let first = trained(folder.path(), "first", SMALL, &["--set", "iterations=1"]);
    let load = |more: &str| format!("{{ load: {}{more} }}", first.display());
    let (actor, critic) = (load(""), load(", of: actor, head: value"));
    let sets = [format!("models.actor={actor}"), format!("models.critic={critic}"), "iterations=1".into()];
    let extra: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let run = trained(folder.path(), "second", PPO, &extra);
    let learnt = ask(&run, "select count(*) as n from learn where used = 'yes' and version = 1 and loss_share > 0");
    assert!(number(&learnt[0]["n"]) > 10.0);
}
