//! Actions that an environment lists, for a model with a tokenizer of its own: what is chosen is an entry of the list,
//! and not what its tokens decode to.

use crate::common::*;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

/// A golden model whose tokenizer writes each letter in its composed form, as Qwen's does.
fn composing(folder: &Path) -> PathBuf {
    let to = folder.join("model");
    std::fs::create_dir(&to).unwrap();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models/qwen3")).unwrap().flatten() {
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    let tokenizer = to.join("tokenizer.json");
    let mut file: Value = serde_json::from_str(&std::fs::read_to_string(&tokenizer).unwrap()).unwrap();
    file["normalizer"] = json!({ "type": "NFC" });
    std::fs::write(tokenizer, file.to_string()).unwrap();
    to
}

/// A run of these tasks of the environment.
fn played(folder: &Path, tasks: &[&str], agent: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/lister.py");
    let (model, tasks) = (composing(folder), tasks.iter().map(|task| format!(", {task}")).collect::<String>());
    let text = format!(
        "flow: listed\niterations: 2\nmodels:\n  actor: {{ load: {model:?} }}\nnodes:\n  tasks: {{ op: tasks, with: {{ env: process, name: lister, \
         command: [python3, {program:?}{tasks}], batch: {} }} }}\n  rollout: {{ op: rollout, inputs: {{ tasks: tasks }}, with: {{ agent: {{ model: actor, \
         max_turns: 9{agent} }}, samples: 4, max_failed: 1 }} }}\nlog: [rollout]\n",
        tasks.matches(',').count()
    );
    let (file, out) = (folder.join("listed.yaml"), folder.join("run"));
    std::fs::write(&file, text).unwrap();
    done(flow().arg("run").arg(file).arg("--out").arg(&out));
    out
}

#[test]
fn a_listed_action_is_sent_as_it_stands_in_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let out = played(folder.path(), &["spelled"], "");
    let found = ask(&out, "SELECT action, valid, count(*) n FROM rollout GROUP BY ALL ORDER BY ALL");
    let seen: Vec<(&str, &Value)> = found.iter().map(|row| (row["action"].as_str().unwrap(), &row["valid"])).collect();
    assert_eq!(seen, [("A\u{30a}ngstrom", &json!(true)), ("stay", &json!(true))]);
}

/// Two entries of the same tokens, and an entry with the token that ends an answer: these episodes fail with their
/// reason, and no other does.
#[test]
fn a_list_that_no_answer_can_choose_from_costs_its_episode_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = played(folder.path(), &["alike", "end", "plain"], "");
    let failed =
        ask(&out, "SELECT split_part(task, '-', 4) AS kind, min(error) AS error, count(*) n FROM errors GROUP BY kind ORDER BY kind");
    assert_eq!(failed.iter().map(|row| row["n"].as_u64().unwrap()).collect::<Vec<_>>(), [8, 8], "{failed:?}");
    let errors = [0, 1].map(|i| failed[i]["error"].as_str().unwrap());
    assert!(errors[0].contains("are the same tokens to the model"), "{errors:?}");
    assert!(errors[1].contains("\"stay<|im_end|>\" contains <|im_end|>, the token that ends an answer"), "{errors:?}");
    let played = ask(&out, "SELECT count(*) n, bool_and(task LIKE '%-plain-%') plain FROM rollout");
    assert_eq!((&played[0]["n"], &played[0]["plain"]), (&json!(8), &json!(true)));
}

/// The model reads 256 tokens: a conversation that outgrows them is kept up to there.
#[test]
fn a_conversation_that_outgrows_the_context_is_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let out = played(folder.path(), &["long"], ", layout: chat, prompt: \"{{ observation }}\"");
    assert!(ask(&out, "SELECT * FROM errors").is_empty());
    let ends = ask(&out, "SELECT DISTINCT turn, done, truncated, sum(reward) OVER (PARTITION BY iteration, task, sample) AS \"return\" FROM rollout QUALIFY done");
    assert_eq!(ends.len(), 1, "{ends:?}");
    let turns = ends[0]["turn"].as_u64().unwrap() + 1;
    assert_eq!((&ends[0]["truncated"], &ends[0]["return"]), (&json!("context"), &json!(0.25 * turns as f64)));
    let folder = tempfile::tempdir().unwrap();
    let out = played(folder.path(), &["long"], ", prompt: \"{{ observation }}\"");
    assert_eq!(
        ask(&out, "SELECT DISTINCT truncated FROM rollout WHERE done")[0]["truncated"],
        "max_turns",
        "prompts of their own stay short"
    );
}
