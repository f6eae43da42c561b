//! A run that trains adapters alone: what it leaves, and that it can be resumed, replayed, loaded and exported like any
//! other.

use crate::common::*;
use std::path::Path;

/// As [`SMALL`], with adapters and a reference that costs no copy.
fn low_rank() -> String {
    SMALL.replace("kv_heads: 1 }", "kv_heads: 1, lora: { rank: 4 } }").replace("lr: 1.0e-3 }", "lr: 1.0e-2, kl: 0.01 }")
}

#[test]
fn a_run_with_adapters_is_resumed_replayed_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let whole = trained(folder.path(), "whole", &low_rank(), &["--set", "iterations=5", "--workers", "2"]);
    let short = trained(folder.path(), "short", &low_rank(), &["--set", "iterations=2"]);
    done(flow().arg("resume").arg(&short).args(["--iterations", "5"]));
    assert!(digest(&short) == digest(&whole), "resumed, and on another number of workers");
    let replayed = folder.path().join("replayed");
    done(flow().arg("replay").arg(&whole).arg("--out").arg(&replayed));
    assert!(digest(&replayed).1 == digest(&whole).1, "replayed");
    let weights = |version: u64| whole.join(format!("weights/{version}/actor"));
    let config = |version: u64| std::fs::read_to_string(weights(version).join("adapter_config.json")).unwrap();
    assert!(config(5) == config(0) && config(5).contains("\"peft_type\": \"LORA\"") && config(5).contains("\"r\": 4"));
    let base = |version: u64| std::fs::read(weights(version).join("model.safetensors")).unwrap();
    assert!(base(0) == base(5), "the model's own weights stay as they were");
    // Another pipeline begins with what the two are together.
    let load = |more: &str| {
        let text =
            SMALL.replace("{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }", &format!("{{ load: {}{more} }}", whole.display()));
        let note = done(flow().arg("check").arg(pipeline(folder.path(), &text)));
        (text, note.contains("all weights learn"))
    };
    assert!(!load(", lora: { rank: 4 }").1);
    let (on, noted) = load("");
    assert!(noted, "that the adapter isn't what learns is said");
    let on = trained(folder.path(), "on", &on, &["--set", "iterations=1"]);
    let merged = std::fs::read(on.join("weights/0/actor/model.safetensors")).unwrap();
    assert!(merged != base(5) && merged.len() == base(5).len());
    let message = fails(flow().args(["model", "export"]).arg(&whole).arg("--out").arg(folder.path().join("out")));
    assert!(message.contains("no other program reads"), "{message}");
}

/// What adapters have learnt is compared, beside base weights that are the same in every run.
#[test]
fn runs_with_adapters_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, lr: &str| trained(folder.path(), name, &low_rank(), &["--set", &format!("nodes.update.with.lr={lr}")]);
    let (one, again, other) = (run("one", "1e-2"), run("again", "1e-2"), run("other", "2e-2"));
    let equal = |a: &Path, b: &Path| {
        let diff: serde_json::Value = serde_json::from_str(&done(flow().arg("diff").arg(a).arg(b).args(["--format", "json"]))).unwrap();
        diff["weights"][0]["equal"].clone()
    };
    assert_eq!([equal(&one, &again), equal(&one, &other)], [serde_json::json!(true), serde_json::json!(false)]);
}

/// A run's adapter refers to the published model that it adapts, and so does its bundle.
#[test]
fn a_bundle_names_the_model_that_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let (base, golden) = (folder.path().join("base"), Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models/llama-tied"));
    std::fs::create_dir(&base).unwrap();
    for file in std::fs::read_dir(golden).unwrap().flatten() {
        std::fs::copy(file.path(), base.join(file.file_name())).unwrap();
    }
    let model = format!("{{ load: {}, lora: {{ rank: 2, targets: [q_proj] }} }}", base.display());
    let player = r#"max_turns: 2, decode: free, max_tokens: 6, prompt: "{{ observation }}\n{{ form }}""#;
    let yaml = SMALL.replace("{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }", &model).replace("max_turns: 5", player);
    assert!(yaml.contains(&model) && yaml.contains(player));
    let run = trained(folder.path(), "run", &yaml, &["--set", "iterations=1"]);
    let bundle = folder.path().join("run.tar");
    let said = done(flow().arg("bundle").arg(&run).arg("--out").arg(&bundle));
    assert!(said.contains(&format!("it lacks the model `{}`, whose adapter was trained\n", base.display())), "{said}");
    let away = folder.path().join("away");
    std::fs::rename(&base, &away).unwrap();
    let said = fails(flow().arg("verify").arg(&bundle));
    assert!(said.contains(&format!("isn't there: `{}`", base.display())) && said.contains("put the model there"), "{said}");
    std::fs::rename(&away, &base).unwrap();
    assert!(done(flow().arg("verify").arg(&bundle)).contains("\nevery digit agrees\n"));
}

#[test]
fn a_published_model_is_exported_with_and_without_its_adapter() {
    let folder = tempfile::tempdir().unwrap();
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models/adapters/plain");
    let export = |name: &str, more: &[&str]| {
        let out = folder.path().join(name);
        let output = done(flow().args(["model", "export"]).arg(&adapter).args(more).arg("--out").arg(&out));
        (out, output)
    };
    let (merged, output) = export("merged", &["--merge"]);
    assert!(output.contains("transformers loads"), "{output}");
    for file in
        ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "model.safetensors"]
    {
        assert!(merged.join(file).exists(), "{file}");
    }
    let config = std::fs::read_to_string(merged.join("config.json")).unwrap();
    assert!(config.contains("\"dtype\": \"float32\"") && config.contains("LlamaForCausalLM"), "{config}");
    let (alone, output) = export("alone", &[]);
    assert!(output.contains("PEFT loads"), "{output}");
    assert!(!alone.join("model.safetensors").exists());
    let weights = |folder: &Path| std::fs::read(folder.join("adapter_model.safetensors")).unwrap().len();
    assert!(weights(&alone).abs_diff(weights(&adapter)) < 4096);
    assert!(done(flow().args(["model", "show"]).arg(&merged)).contains("architecture     llama"));
}

/// PPO whose critic is a further adapter on the actor's base.
const SHARED: &str = r#"
flow: shared
iterations: 2
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1, lora: { rank: 4 } }
  critic: { on: actor, lora: { rank: 4 }, head: value }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 6 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 5 }, samples: 4 } }
  value: { op: value, inputs: { rows: rollout, weights: { after: learn } }, with: { model: critic } }
  batch: { op: group, inputs: value, with: { by: [iteration] } }
  advantage: { op: advantage, inputs: batch, with: { of: gae, gamma: 0.9, lambda: 0.8 } }
  learn: { op: gpu-update, inputs: advantage, with: { model: critic, objective: value, lr: 1.0e-2 } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-2 } }
log: [rollout, value, advantage, learn, update]
"#;

#[test]
fn two_adapters_on_one_base_are_resumed_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let base = trained(folder.path(), "base", SMALL, &["--set", "iterations=1"]);
    let new = "{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1, lora: { rank: 4 } }";
    let rounded = SHARED.replace(new, &format!("{{ load: {}, base: int8, lora: {{ rank: 4 }} }}", base.display()));
    assert!(rounded != SHARED);
    // Before anything runs: weights that are all learnt aren't rounded.
    let message = fails(flow().arg("check").arg(pipeline(folder.path(), &rounded.replace("base: int8, lora: { rank: 4 }", "base: int8"))));
    assert!(message.contains("only the base of one is kept as int8") && message.contains("lora: { rank: 1 }"), "{message}");
    for (name, yaml) in [("new", SHARED), ("int8", rounded.as_str())] {
        let whole = trained(folder.path(), &format!("{name}-whole"), yaml, &["--set", "iterations=4", "--workers", "2"]);
        let short = trained(folder.path(), &format!("{name}-short"), yaml, &["--set", "iterations=2"]);
        done(flow().arg("resume").arg(&short).args(["--iterations", "4"]));
        assert!(digest(&short) == digest(&whole), "{name}: resumed");
        let replayed = folder.path().join(format!("{name}-replayed"));
        done(flow().arg("replay").arg(&whole).arg("--out").arg(&replayed));
        assert!(digest(&replayed).1 == digest(&whole).1, "{name}: replayed");
        let made = ask(&whole, "select max(version) as newest from learn");
        assert_eq!(made[0]["newest"], 4, "{name}: versions of its own");
        let config = std::fs::read_to_string(whole.join("weights/4/critic/adapter_config.json")).unwrap();
        assert!(config.contains("\"value_head\""), "{config}");
        // What is measured is computed as what was trained.
        let measured = folder.path().join(format!("{name}-measured"));
        let panel = ["--panel", "datasets/minesweeper-4x4-m2-d64920f25f41.json", "--samples", "1"];
        done(flow().arg("eval").arg(&whole).args(panel).arg("--out").arg(&measured));
        let recipe = std::fs::read_to_string(measured.join("pipeline.yaml")).unwrap();
        assert_eq!(recipe.contains("base: int8"), name == "int8", "{recipe}");
        let message = fails(flow().args(["model", "export"]).arg(&whole).arg("--out").arg(folder.path().join("out")));
        assert!(message.contains("--model") && message.contains("actor, critic"), "{message}");
    }
}

/// A model that acts in 8 bits and learns in f32: on any number of workers, resumed, replayed and measured like any
/// other.
#[test]
fn what_acts_in_8_bits_is_resumed_replayed_and_measured() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = SMALL.replace("kv_heads: 1 }", "kv_heads: 1, act: int8 }");
    let checked = done(flow().arg("check").arg(pipeline(folder.path(), &yaml)));
    assert!(checked.contains("acts in int8 and learns in f32"), "{checked}");
    let whole = trained(folder.path(), "whole", &yaml, &["--set", "iterations=4", "--workers", "2"]);
    let short = trained(folder.path(), "short", &yaml, &["--set", "iterations=2"]);
    done(flow().arg("resume").arg(&short).args(["--iterations", "4"]));
    assert!(digest(&short) == digest(&whole), "resumed, and on another number of workers");
    let replayed = folder.path().join("replayed");
    done(flow().arg("replay").arg(&whole).arg("--out").arg(&replayed));
    assert!(digest(&replayed).1 == digest(&whole).1, "replayed");
    let own = trained(folder.path(), "own", SMALL, &["--set", "iterations=4"]);
    assert!(digest(&own) != digest(&whole), "in f32 it is another run");
    let gap = ask(&whole, "select min(value) as least, max(value) as most from metrics where name = 'logprob_gap'");
    let (least, most) = (gap[0]["least"].as_f64().unwrap(), gap[0]["most"].as_f64().unwrap());
    assert!(least > 1e-5 && most < 0.1, "{least} to {most}");
    let measured = folder.path().join("measured");
    let panel = ["--panel", "datasets/minesweeper-4x4-m2-d64920f25f41.json", "--samples", "1"];
    done(flow().arg("eval").arg(&whole).args(panel).arg("--out").arg(&measured));
    let recipe = std::fs::read_to_string(measured.join("pipeline.yaml")).unwrap();
    assert!(recipe.contains("act: int8"), "{recipe}");
}
