//! Faults that people met in their first hours: each is told where it is, and in words that say what to do.

use crate::common::*;
use std::path::Path;

fn refused(folder: &Path, yaml: &str) -> String {
    fails(flow().arg("check").arg(pipeline(folder, yaml)))
}

#[test]
fn an_environment_in_python_needs_a_python() {
    let empty = tempfile::tempdir().unwrap();
    let check = |env: &str| {
        let yaml = SMALL.replace("env: minesweeper, size: 4, mines: 2", env);
        flow().arg("check").arg(pipeline(empty.path(), &yaml)).env("PATH", empty.path()).output().unwrap()
    };
    for env in ["env: search", "env: webshop"] {
        let output = check(env);
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains("`tasks` plays an environment in Python, and there is no program `python3`"),
            "{said}"
        );
        assert!(said.contains("pipeline.yaml:8:10"), "{said}");
    }
    assert!(check("env: sokoban, size: 6, boxes: 1").status.success());
}

#[test]
fn an_address_that_is_none_is_told_by_an_example() {
    let folder = tempfile::tempdir().unwrap();
    let trained = |train: &str| {
        let model = format!("{{ load: tests/golden/models/llama-tied, lora: {{ rank: 1 }}, train: {{ {train} }} }}");
        refused(folder.path(), &SMALL.replace("{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }", &model))
    };
    let tinker = trained("tinker: nonsense");
    assert!(tinker.contains("`tinker` must be an address such as `https://HOST`, found the text `nonsense`"), "{tinker}");
    let address = trained("address: nonsense");
    assert!(address.contains("`address` must be a host and a port, such as `10.0.0.1:29500`"), "{address}");
    // No pattern of the schema is left without words.
    let schema = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/flow.schema.json")).unwrap();
    let words = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/crates/pipeline/src/check/explain.rs")).unwrap();
    for pattern in schema.lines().filter_map(|line| line.trim().strip_prefix("\"pattern\": \"")) {
        let pattern = pattern.trim_end_matches(',').trim_end_matches('"').replace("\\\\", "\\");
        let address = pattern.starts_with("^http://") || pattern.starts_with("^https?://") || pattern.ends_with(":[0-9]+$");
        assert!(address || words.contains(&format!("\"{pattern}\"")), "{pattern}");
    }
}

#[test]
fn an_audit_of_no_node_names_the_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &["--set", "iterations=1"]);
    let said = fails(flow().arg("audit").arg(&run).args(["--node", "nope"]));
    assert!(said.contains("no logged node `nope` plays with a model; --node names one of `rollout`"), "{said}");
}

#[test]
fn a_program_that_was_copied_alone_says_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let bare = folder.path().join("flow");
    std::fs::copy(env!("CARGO_BIN_EXE_flow"), &bare).unwrap();
    let said = fails(std::process::Command::new(bare).current_dir(folder.path()).args(["env", "install", "program"]));
    assert!(said.contains("`flow_env` isn't found") && said.contains("pip install flow-rl") && said.contains("--package"), "{said}");
    assert!(!folder.path().join(".flow").exists());
}

/// A program that refuses its settings names one of them: that is the place of the mistake, in text and in JSON.
#[test]
fn a_setting_that_a_program_refuses_has_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let refuses = r#"[python3, -c, 'import sys; sys.exit("`seconds` is too short, and `nothing` else")']"#;
    let yaml = SMALL.replace("env: minesweeper, size: 4, mines: 2", &format!("env: process, name: picky, command: {refuses}, seconds: 7"));
    let said = refused(folder.path(), &yaml);
    assert!(said.contains("the process `picky` can't be played with: it ended before it answered hello"), "{said}");
    let line = yaml.lines().nth(7).unwrap();
    let column = line.find("seconds: 7").unwrap() + "seconds: ".len() + 1;
    assert!(said.contains("`seconds` is too short") && said.contains(&format!("pipeline.yaml:8:{column}")), "{column}: {said}");
    let json = flow().arg("check").arg(pipeline(folder.path(), &yaml)).args(["--format", "json"]).output().unwrap();
    let mistakes: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json.status.code(), &mistakes[0]["line"], &mistakes[0]["column"]), (Some(1), &8.into(), &column.into()));
}

/// torchrun and its ranks must not import from the working folder: a `json.py` there would be Python's.
#[test]
fn a_trainer_imports_nothing_from_the_working_folder() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    std::fs::write(&python, "#!/bin/sh\necho \"flow_train, rank 0: safe path is $PYTHONSAFEPATH\" >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let model = "{ load: tests/golden/models/llama-tied, lora: { rank: 1 }, train: { torchrun: 1, timeout: 20 } }";
    let yaml = SMALL.replace("{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }", model);
    let run = |c: &mut std::process::Command| fails(c.arg(pipeline(folder.path(), &yaml)).env("FLOW_TRAIN_PYTHON", &python));
    let said = run(flow().arg("run").arg("--out").arg(folder.path().join("run")));
    assert!(said.contains("safe path is 1"), "{said}");
}

/// Greedy answers are of another distribution than the one that a server's log-probabilities and an update are of.
#[test]
fn greedy_rollouts_of_a_server_are_not_learnt_from() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{ load: tests/golden/models/llama-tied, lora: { rank: 1 }, serve: { openai: "http://127.0.0.1:1" } }"#;
    let served = SMALL
        .replace("{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }", model)
        .replace("max_turns: 5 }", "max_turns: 5, decode: free, max_tokens: 4 }, temperature: 0");
    let said = refused(folder.path(), &served);
    assert!(said.contains("`rollout` samples at 0") && said.contains("temperature"), "{said}");
    let reader = "  baseline: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, decode: free, max_turns: 5, max_tokens: 4 }, samples: 1, temperature: 0 } }\n  update:";
    let compared = served.replace(", temperature: 0", "").replace("  update:", reader).replace("log: [rollout", "log: [baseline, rollout");
    done(flow().arg("check").arg(pipeline(folder.path(), &compared)));
}
