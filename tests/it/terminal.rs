//! What models, programs and authors wrote never makes a terminal do anything.

use crate::common::*;

fn yaml(argument: &str) -> String {
    format!(
        "flow: escapes\niterations: 1\nmodels:\n  actor: {{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }}\nnodes:
  tasks: {{ op: tasks, with: {{ env: process, name: escapes, command: [python3, tests/programs/escapes.py, {argument}], batch: 4 }} }}
  rollout: {{ op: rollout, inputs: tasks, with: {{ agent: {{ model: actor, max_turns: 2 }}, samples: 2, tries: 1, max_failed: 0.9 }} }}
log: [rollout]\n"
    )
}

/// Whether nothing in there is more than text.
fn harmless(output: &str) {
    let bad = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!output.contains(bad), "{:?}", output.chars().find(|c| bad(*c)));
}

#[test]
fn texts_of_a_program_are_shown_and_not_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", &yaml("plain"), &[]);
    let output = done(flow().arg("show").arg(&run));
    harmless(&output);
    assert!(output.contains("\\u001b[31mred\\u001b]0;title\\u0007 \\u009b2J \\u0000 \\u007f \\u202ereversed"), "{output}");
    for (verb, arguments) in [
        ("tap", vec!["rollout"]),
        ("tap", vec!["rollout", "--format", "json"]),
        ("show", vec!["--format", "json"]),
        ("query", vec!["select * from rollout"]),
        ("query", vec!["select observation, action from rollout", "--format", "json"]),
        ("top", vec![]),
    ] {
        let output = done(flow().arg(verb).arg(&run).args(&arguments));
        harmless(&output);
        assert!(verb == "top" || output.contains("\\u001b"), "{verb}: {output}");
    }
    let json = done(flow().arg("query").arg(&run).args(["select observation from rollout limit 1", "--format", "json"]));
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(rows[0]["observation"].as_str().unwrap().starts_with("\u{1b}[31mred"), "JSON means the same");
    let csv = done(flow().arg("query").arg(&run).args(["select observation from rollout limit 1", "--format", "csv"]));
    assert!(csv.contains("\u{1b}[31mred"), "a file gets what was asked for, byte for byte");
    harmless(&fails(flow().arg("query").arg(&run).arg("select \"\u{1b}[31m\" from rollout")));
    harmless(&fails(flow().arg("check").arg("no\u{1b}[31mfile.yaml")));
}

#[test]
fn a_programs_own_error_is_shortened_and_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipeline(folder.path(), &yaml("error"));
    let message =
        fails(flow().arg("run").arg(&path).arg("--out").arg(folder.path().join("run")).args(["--set", "nodes.rollout.with.max_failed=0"]));
    harmless(&message);
    assert!(message.contains("\\u001b[31m") && message.lines().all(|line| line.chars().count() < 3000), "{message}");
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let start = std::time::Instant::now();
    for panel in ["/dev/zero", pipe.to_str().unwrap(), "/"] {
        let message = fails(flow().arg("eval").arg(folder.path()).args(["--panel", panel]));
        assert!(message.contains(panel) && (message.contains("no regular file") || message.contains("directory")), "{message}");
    }
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("manifest.json")).unwrap();
    let message = fails(flow().arg("query").arg(folder.path()).arg("select 1"));
    assert!(message.contains("manifest.json") && message.contains("no regular file"), "{message}");
    let deep = folder.path().join("deep.yaml");
    std::fs::write(&deep, "[".repeat(250 * 1024)).unwrap();
    assert!(fails(flow().arg("check").arg(&deep)).contains("values are nested too deeply"));
    assert!(start.elapsed().as_secs() < 30);
}

#[test]
fn the_first_mistake_is_called_one_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("manifest.json"), "{").unwrap();
    for arguments in [vec!["report"], vec!["replay"], vec!["resume"], vec!["diff", "nowhere"]] {
        let message = fails(flow().arg(arguments[0]).arg(folder.path()).args(&arguments[1..]));
        assert!(message.starts_with("error: ") && message.matches("error:").count() == 1, "{arguments:?}: {message}");
    }
}
