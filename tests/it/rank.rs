//! Retrospex from end to end: a critic learnt by implicit Q-learning from a frozen policy's games, which then ranks the
//! actions beside it.

use crate::common::*;
use serde_json::Value;
use std::path::Path;

const CRITIC: &str = r#"
flow: critic
iterations: 3
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
  critic: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1, head: value }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 6 } }
  rollout: { op: rollout, inputs: tasks, with: { agent: { model: actor, max_turns: 5 }, samples: 4 } }
  value: { op: value, inputs: { rows: rollout, weights: { after: update } }, with: { model: critic, per: token } }
  batch: { op: group, inputs: value, with: { by: [] } }
  advantage: { op: advantage, inputs: batch, with: { of: iql, gamma: 0.9, scale: none, baseline: none } }
  update: { op: gpu-update, inputs: advantage, with: { model: critic, objective: value, lr: 1.0e-2, value_clip: 0, expectile: 0.7 } }
log: [rollout, value, advantage, update]
"#;

const RANKED: &str = r#"
flow: ranked
iterations: 2
seed: 6
models:
  actor: { load: FOLDER }
  critic: { load: FOLDER }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 6 } }
  rollout: { op: rollout, inputs: tasks, with: { agent: { model: actor, max_turns: 5, critic: critic, rank: { least: 0.2, decay: 0.5 } }, samples: 2 } }
log: [rollout]
"#;

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn a_critic_learns_offline_and_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "critic", CRITIC, &[]);
    // An action's last token has its reward and what the next state promises, those before it what the action promises.
    let rows = ask(
        &run,
        "with turns as (
            select v.*, r.reward + 0.9 * coalesce(lead(v.token_values[1]) over w, 0) as earned
            from rollout r join value v using (iteration, task, sample, attempt, turn, phase)
            window w as (partition by r.iteration, r.task, r.sample, r.attempt order by r.turn))
        select case when i = len(t.token_values) then t.earned else t.token_values[-1] end as wanted, a.token_targets[i] as found
        from turns t join advantage a using (iteration, task, sample, attempt, turn, phase), unnest(range(1, len(t.token_values) + 1)) u(i)",
    );
    assert!(rows.len() > 300, "{}", rows.len());
    for row in &rows {
        assert!((number(&row["wanted"]) - number(&row["found"])).abs() < 1e-4, "{row}");
    }
    let moved = ask(&run, "select count(distinct token_values[-1]) as n from value where iteration = 2");
    assert!(number(&moved[0]["n"]) > 20.0, "it tells actions apart: {moved:?}");

    let ranked = RANKED.replace("FOLDER", run.to_str().unwrap());
    let all = |run: &Path| ask(run, "select * from rollout order by all");
    let best = trained(folder.path(), "best", &ranked, &[]);
    let certain = ask(&best, "select count(*) as n from rollout where list_sum(logprobs) <> 0 or len(logprobs) <> len(response_tokens)");
    assert_eq!(certain[0]["n"], 0, "the best action is taken with certainty");
    let samples =
        "select count(*) as n from (select task, turn from rollout group by iteration, task, turn having count(distinct action) > 1)";
    assert_eq!(ask(&best, samples)[0]["n"], 0);
    let alone = trained(folder.path(), "alone", &ranked, &["--set", "nodes.rollout.with.agent.rank.least=1"]);
    assert!(all(&best) != all(&alone), "the critic counts for something");
    // Drawn by the scores: others in each sample, the same ones on any number of workers.
    let drawn = ["--set", "nodes.rollout.with.agent.rank.temperature=0.2"];
    let (first, second) = (
        trained(folder.path(), "one", &ranked, &drawn),
        trained(folder.path(), "two", &ranked, &[&drawn[..], &["--workers", "2"]].concat()),
    );
    assert!(all(&first) == all(&second), "the number of workers changes nothing");
    assert!(number(&ask(&first, samples)[0]["n"]) > 0.0);
    let chances = ask(&first, "select exp(list_sum(logprobs)) as chance from rollout");
    assert!(chances.iter().all(|row| number(&row["chance"]) > 0.0 && number(&row["chance"]) < 1.0001), "{chances:?}");
    assert!(chances.iter().any(|row| number(&row["chance"]) < 0.9));

    // A panel is played with the critic, too: with none it goes otherwise.
    let panel = "datasets/minesweeper-4x4-m2-d64920f25f41.json";
    let eval = |extra: &[&str]| -> Value {
        serde_json::from_str(&done(flow().arg("eval").arg(&best).args(["--panel", panel, "--format", "json"]).args(extra))).unwrap()
    };
    assert!(eval(&[])["return"] != eval(&["--set", "nodes.rollout.with.agent.rank.least=1"])["return"]);
}

/// What a critic chose is no draw of the policy: at temperature 0 its recorded probability is 1, and every ratio would
/// be the policy's own.
#[test]
fn no_policy_gradient_of_what_a_critic_chose() {
    let folder = tempfile::tempdir().unwrap();
    let learns = RANKED.replace("log: [rollout]", "  group: { op: group, inputs: rollout, with: { by: [task] } }\n  advantage: { op: advantage, inputs: group, with: { of: episode_return } }\n  update: { op: gpu-update, inputs: advantage, with: { model: actor } }\nlog: [rollout]");
    let path = pipeline(folder.path(), &learns.replace("FOLDER", "runs/nowhere"));
    let message = fails(flow().arg("check").arg(&path));
    assert!(message.contains("a critic chose the actions of `rollout`") && message.contains("objective: sft"), "{message}");
}
