//! Distillation and slow references, as their users run them: by libtorch and on a base in int8, on any number of
//! workers, stopped and gone on with, replayed; and the pipelines that begin with them.

use crate::common::*;

const TINY: &str = "{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }";

/// The model itself is the teacher, by its slow mean and behind what came of a turn; a turn that nothing came of isn't
/// learnt from.
const DISTIL: &str = r#"
flow: distil
iterations: 4
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 4 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 4 }, samples: 3 } }
  hindsight:
    op: rewrite
    inputs: rollout
    with: { model: actor, prompt: "{{ row.observation }}\n{{ after.observation }}", response: "{{ row.response }}" }
  told:
    op: derive
    inputs: { rows: rollout, other: hindsight }
    with:
      columns:
        teacher_tokens: any_value(prompt_tokens) filter (where other) over same
        derived_weight: "case when lead(turn) over turns is null then 0.0 else 1.0 end"
  update:
    op: gpu-update
    inputs: told
    with: { model: actor, objective: distill, divergence: jsd, top_k: 5, reference_ema: 0.5, weigh_by: derived_weight, lr: 1.0e-2, minibatch: 16 }
log: [rollout, told, update]
"#;

#[test]
fn distillation_repeats_is_resumed_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let base = trained(folder.path(), "base", SMALL, &["--set", "iterations=1"]);
    let rounded = DISTIL.replace(TINY, &format!("{{ load: {}, base: int8, lora: {{ rank: 4 }} }}", base.display()));
    assert!(rounded != DISTIL);
    for (name, yaml) in [("own", DISTIL), ("int8", rounded.as_str())] {
        let whole = trained(folder.path(), name, yaml, &["--workers", "1"]);
        let two = trained(folder.path(), &format!("{name}-two"), yaml, &["--workers", "2"]);
        assert!(digest(&two) == digest(&whole), "{name}: on two workers");
        let short = trained(folder.path(), &format!("{name}-short"), yaml, &["--set", "iterations=2"]);
        done(flow().arg("resume").arg(&short).args(["--iterations", "4"]));
        assert!(digest(&short) == digest(&whole), "{name}: resumed");
        let replayed = folder.path().join(format!("{name}-replayed"));
        done(flow().arg("replay").arg(&whole).arg("--out").arg(&replayed));
        assert!(digest(&replayed).1 == digest(&whole).1, "{name}: replayed");
        let rows = ask(
            &whole,
            "select count(*) filter (derived_weight = 0 and loss_share <> 0) as idle, count(*) filter (derived_weight = 1 and loss_share > 0) as learnt,
             count(*) filter (row_kl > 0) as apart, max(row_kl) as most from told join \"update\" using (iteration, task, sample, attempt, turn, phase)",
        );
        let count = |name: &str| rows[0][name].as_f64().unwrap();
        assert!(count("idle") == 0.0 && count("learnt") > 20.0 && count("apart") >= count("learnt"), "{name}: {rows:?}");
        // Two distributions are never further apart than this.
        assert!(count("most") < std::f64::consts::LN_2, "{name}: {rows:?}");
        // With another mean it is another run.
        let other = trained(folder.path(), &format!("{name}-other"), yaml, &["--set", "nodes.update.with.reference_ema=0.9"]);
        assert!(digest(&other).1 != digest(&whole).1, "{name}: the mean counts");
    }
}

/// Each pipeline of this family for two iterations, on models small enough for a test.
#[test]
fn the_pipelines_of_distillation_run() {
    let folder = tempfile::tempdir().unwrap();
    for (name, teacher, learns) in [
        ("gkd-sokoban", true, "update"),
        ("sdpo-sokoban", false, "update"),
        ("sdar-sokoban", false, "guide"),
        ("clip-cov-sokoban", false, "update"),
        ("vespo-sokoban", false, "update"),
        ("igpo-search", false, "update"),
    ] {
        let small = "{ load: null, new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }";
        let teacher = if teacher { format!("teacher: {}", small.replace("load: null", "load: null, of: null")) } else { String::new() };
        let own = if name == "igpo-search" { "own: { with: { batch: 2 } }" } else { "" };
        let yaml = format!(
            "like: pipelines/{name}.yaml\nflow: {name}\niterations: 2\nmodels:\n  actor: {small}\n  {teacher}\nnodes:\n  evaluate: null\n  {own}\n  \
             tasks: {{ with: {{ batch: 2 }} }}\n  rollout: {{ with: {{ samples: 2 }} }}\nlog: [rollout, {learns}]\ntests: []\n"
        );
        let run = trained(folder.path(), name, &yaml, &[]);
        let rows =
            ask(&run, &format!("select count(*) as n, max(version) as version, bool_and(isfinite(loss_share)) as fine from \"{learns}\""));
        assert!(rows[0]["n"].as_u64().unwrap() > 10 && rows[0]["fine"] == true, "{name}: {rows:?}");
        assert_eq!(
            rows[0]["version"],
            if ["sdar-sokoban", "igpo-search"].contains(&name) { 4 } else { 2 },
            "{name}: two updates of two make four"
        );
        let learnt = ask(&run, &format!("select sum(logit_grad) as pulled from \"{learns}\""));
        let spread = name.starts_with("clip-cov") || name.starts_with("vespo");
        assert!(learnt[0]["pulled"].as_f64().unwrap() > 0.0 || spread, "{name}: {learnt:?}");
        if name == "igpo-search" {
            let told = ask(&run, "select bool_and((turn = 0) = (gold <> '')) as first from rollout");
            assert_eq!(told[0]["first"], true, "the right answer stands with the first turn");
        }
    }
}
