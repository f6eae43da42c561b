//! `flow schema --output VERB`: each verb's real answer in JSON is of its schema, which names every key.

use crate::common::*;
use serde_json::Value;
use std::process::Command;

/// The schema of a verb's answer, such that an object has no key which isn't in it.
fn closed(verb: &str) -> jsonschema::Validator {
    let mut schema: Value = serde_json::from_str(&done(flow().args(["schema", "--output", verb]))).unwrap();
    close(&mut schema);
    jsonschema::validator_for(&schema).unwrap()
}

fn close(schema: &mut Value) {
    if let Value::Object(map) = schema {
        if map.contains_key("properties") && !map.contains_key("additionalProperties") {
            map.insert("additionalProperties".into(), false.into());
        }
    }
    match schema {
        Value::Object(map) => map.values_mut().for_each(close),
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

fn of_schema(verb: &str, output: &str) {
    let answer: Value = serde_json::from_str(output).unwrap_or_else(|error| panic!("{verb}: {error}: {output}"));
    let errors: Vec<String> = closed(verb).iter_errors(&answer).map(|e| format!("{}: {e}", e.instance_path)).collect();
    assert!(errors.is_empty(), "{verb}: {errors:?}\n{output}");
}

/// Runs the verb with `--format json`, whatever its exit code, and holds its answer against the schema.
fn answers(verb: &str, arguments: impl Fn(&mut Command) -> &mut Command) -> String {
    let mut command = flow();
    arguments(command.arg(verb)).args(["--format", "json"]);
    let output = command.output().unwrap();
    let answer = text(&output.stdout);
    assert!(!answer.trim().is_empty(), "{command:?}: {}", text(&output.stderr));
    of_schema(verb, &answer);
    answer
}

/// The same of a verb with an object a line.
fn answers_by_line(verb: &str, arguments: impl Fn(&mut Command) -> &mut Command) {
    let mut command = flow();
    arguments(command.arg(verb)).args(["--format", "json"]);
    let output = command.output().unwrap();
    let lines = text(&output.stdout);
    assert!(lines.lines().count() > 1, "{command:?}: {lines}{}", text(&output.stderr));
    lines.lines().for_each(|line| of_schema(verb, line));
}

#[test]
fn verbs_with_answers_in_json_are_those_with_a_schema() {
    let listed: Vec<String> =
        done(flow().args(["schema", "--output"])).lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    let help = done(flow().arg("--help"));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs =
        commands.filter(|line| line.starts_with("  ") && !line.starts_with("   ")).map(|line| line.split_whitespace().next().unwrap());
    // `flow help VERB` is of these verbs, and `flow study` a program of its own.
    let verbs = verbs.filter(|verb| !["help", "study"].contains(verb));
    let json = |verb: &&str| {
        let help = done(flow().args([verb, "--help"]));
        help.contains("--format <FORMAT>") && help.contains("json")
    };
    let mut with: Vec<&str> = verbs.filter(json).collect();
    with.sort_unstable();
    assert_eq!(listed, with);
    assert!(fails(flow().args(["schema", "--output", "panel"])).contains("`panel` has no answer in JSON; these verbs have: audit, check"));
}

#[test]
fn each_verb_answers_by_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let file = pipeline(folder.path(), &SMALL.replace("seed: 5", "seed: 5\nkeep: { every: 1 }"));
    let run = at("run");
    answers("run", |c| c.arg(&file).arg("--out").arg(&run).args(["--set", "iterations=2"]));
    answers("run", |c| {
        c.arg(&file).args(["--seeds", "1", "--grid", "nodes.update.with.lr=1e-3,1e-4", "--set", "iterations=1", "--out"]).arg(at("grid"))
    });
    answers("resume", |c| c.arg(&run).args(["--iterations", "3"]));
    answers("replay", |c| c.arg(&run).arg("--out").arg(at("replay")).args(["--set", "nodes.step_advantage.with.gamma=0.5"]));
    let moved = answers("diff", |c| c.arg(&run).arg(at("replay")));
    assert!(moved.contains("\"up\": [\n"), "{moved}");
    answers("verify", |c| c.arg(&run));
    answers("audit", |c| c.arg(&run).args(["--turns", "4", "--plays", "2"]));
    answers("check", |c| c.arg(&file));
    assert!(answers("check", |c| c.arg(&file).args(["--set", "nodes.update.with.lrr=1"])).contains("\"line\": 1"));
    answers("check", |c| c.arg(&file).arg("--headroom").arg(&run));
    answers("doctor", |c| c);
    answers("query", |c| c.arg(&run).arg("select * from trajectories"));
    answers("report", |c| c.arg(&run).arg("--out").arg(at("pages")));
    answers("show", |c| c.arg(&run).arg("--best"));
    answers("top", |c| c.arg(&run));
    answers_by_line("tap", |c| c.arg(&run).arg("rollout"));
    let panel = "datasets/minesweeper-4x4-m2-d64920f25f41.json";
    answers("eval", |c| c.arg(&run).args(["--panel", panel, "--samples", "2"]));
    answers_by_line("test", |c| c.arg("pipelines/rloo-sokoban.yaml"));
    answers_by_line("test", |c| c.args(["pipelines/rloo-sokoban.yaml", "--set", "nodes.advantage.with.baseline=none"]));
    answers_by_line("test", |c| c.arg("--invariance").arg(&file));
}

#[test]
fn the_audit_of_a_memory_has_a_schema() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = REMEMBERING.replace("seed: 5", "seed: 5\nkeep: { every: 1 }");
    let run = trained(folder.path(), "run", &yaml, &[]);
    let worth = answers("audit", |c| c.arg(&run).args(["--memory", "--turns", "2", "--plays", "2"]));
    assert!(worth.contains("\"worth\""), "{worth}");
}
