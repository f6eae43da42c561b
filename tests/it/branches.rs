//! Several answers a turn from end to end: the same rows on any number of workers, with the seed of the answer that was
//! given, and a panel that is played with them.

use crate::common::*;
use serde_json::Value;
use std::path::Path;

const BRANCHED: &str = r#"
flow: branched
iterations: 2
seed: 6
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
agents:
  player: { model: actor, max_turns: 5, branches: { samples: 4, ask: "{{ observation }}{{ action }}", say: "{{ action }}" } }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 6 } }
  rollout: { op: rollout, inputs: tasks, with: { agent: player, samples: 2 } }
log: [rollout]
"#;

#[test]
fn the_answer_that_is_given_is_one_of_several() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, more: &[&str]| trained(folder.path(), name, BRANCHED, more);
    let all = |run: &Path| ask(run, "select * from rollout order by all");
    let asked = run("asked", &[]);
    assert!(all(&asked) == all(&run("shared", &["--workers", "2"])), "the number of workers changes nothing");
    let alone = run("alone", &["--set", "agents.player.branches=null"]);
    // In a first turn all runs see the same, and the first branch is the answer that there is without.
    let firsts =
        |run: &Path| ask(run, "select task, sample, seed, action, logprobs from rollout where iteration = 0 and turn = 0 order by all");
    let (with, without) = (firsts(&asked), firsts(&alone));
    let same = with.iter().zip(&without).filter(|(with, without)| with["seed"] == without["seed"]).count();
    assert!(with.len() == without.len() && same > 0 && same < with.len(), "{same} of {}", with.len());
    assert!(with.iter().zip(&without).all(|(with, without)| with["seed"] != without["seed"] || with == without));
    let likeliest = run("likeliest", &["--set", "agents.player.branches={ask: null, say: null}"]);
    let chance = |run: &Path| {
        let rows = ask(run, "select avg(list_sum(logprobs) / len(logprobs)) as mean from rollout where iteration = 0 and turn = 0");
        rows[0]["mean"].as_f64().unwrap()
    };
    assert!(chance(&likeliest) > chance(&alone), "the likeliest of four is likelier than one");
    let panel = "datasets/minesweeper-4x4-m2-d64920f25f41.json";
    let eval = |extra: &[&str]| -> Value {
        serde_json::from_str(&done(flow().arg("eval").arg(&asked).args(["--panel", panel, "--format", "json"]).args(extra))).unwrap()
    };
    assert!(eval(&[])["return"] != eval(&["--set", "nodes.rollout.with.agent.branches=null"])["return"]);
}
