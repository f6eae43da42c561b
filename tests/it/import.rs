//! `flow import`: another trainer's rollouts as a run. The samples were written by the trainers' own classes:
//! tests/data/import/README.md.

use crate::common::*;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

const DATA: &str = "tests/data/import";

fn imported(folder: &Path, file: &str) -> (PathBuf, String) {
    let run = folder.join("imported");
    let output = flow().args(["import", &format!("{DATA}/{file}"), "--out"]).arg(&run).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (run, text(&output.stdout) + &text(&output.stderr))
}

/// Rewrites the lines of a sample, and answers with the file's path.
fn changed(folder: &Path, sample: &str, change: impl Fn(usize, Value) -> String) -> PathBuf {
    let whole = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(DATA).join(sample)).unwrap();
    let lines = whole.lines().enumerate().map(|(i, line)| change(i, serde_json::from_str(line).unwrap()) + "\n");
    let path = folder.join("changed.jsonl");
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    path
}

/// Another pipeline on imported rows.
const CREDIT: &str = "flow: credit
iterations: 1
nodes:
  rollout: { op: import }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return, baseline: leave_one_out, scale: none } }
log: [rollout, advantage]
";

const TRAINING: &str = "flow: training
iterations: 1
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  rollout: { op: import }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [advantage, update]
";

#[test]
fn a_trace_becomes_an_episode_with_a_turn_a_sampled_message() {
    let folder = tempfile::tempdir().unwrap();
    let (run, said) = imported(folder.path(), "traces.jsonl");
    assert!(said.contains("6 episodes of 2 tasks, 11 turns, 1 failed"), "{said}");
    assert!(!said.contains("absent"), "{said}");
    let by_task = ask(
        &run,
        "select count(distinct sample) as n, sum(reward) as r, count(*) filter (won) as won, min(split_part(task, '-', 2)) as name
         from rollout group by task order by n",
    );
    assert_eq!(by_task, [json!({"n": 2, "r": 1.0, "won": 1, "name": "sums"}), json!({"n": 3, "r": 1.5, "won": 1, "name": "sums"})]);
    let rows = ask(
        &run,
        "select turn, observation, response, prompt_tokens, response_tokens, logprobs, parent = 0 as root, fork, reward, done, weights,
         nullif(info, '')->>'length' as length, temperature, response_cut from rollout
         where task = (select task from rollout group by task having sum(reward) = 1.5) and sample = 2 order by turn",
    );
    let row = |turn: u32, seen: &str, said: &str, tokens: (&[u32], &[u32], &[f32]), end: (bool, &str, f32, bool, Option<&str>)| {
        json!({"turn": turn, "observation": seen, "response": said, "prompt_tokens": tokens.0, "response_tokens": tokens.1,
               "logprobs": tokens.2, "root": end.0, "fork": end.1, "reward": end.2, "done": end.3, "weights": 4, "length": end.4,
               "temperature": 1.0, "response_cut": false})
    };
    // The call's arguments are b, a in the file: JSON has one spelling here. The third call begins again from the
    // user's message.
    let begin: &[u32] = &[1, 2, 3, 4, 5, 6];
    let tool = "add({\"a\":2,\"b\":2})";
    let further: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 6];
    let forked: &[u32] = &[1, 2, 3, 4, 5, 13, 6];
    let brief = "system: Add.\nuser: What is 2 + 2?\nuser: Be brief.";
    let expected = [
        row(0, "system: Add.\nuser: What is 2 + 2?", tool, (begin, &[7, 8], &[-0.5, -0.25]), (true, "", 0.0, false, None)),
        row(1, "4", "4 or 5", (further, &[11, 12], &[-1.0, -0.125]), (false, "", 0.0, false, None)),
        row(2, brief, "4?", (forked, &[14], &[-2.0]), (true, "compacted", 0.5, true, Some("6.0"))),
    ];
    assert_eq!(rows, expected);
    let links = ask(&run, "select count(*) as n from rollout b join rollout a on a.call = b.parent and a.task = b.task and a.sample = b.sample and a.turn + 1 = b.turn");
    assert_eq!(links[0]["n"], 5, "the second call of each episode goes on from the first");
    let errors = ask(&run, "select sample, cause, error, tries from errors");
    assert_eq!(errors, [json!({"sample": 2, "cause": "error", "error": "SandboxError: the box died", "tries": 1})]);
    assert!(done(flow().arg("show").arg(&run).args(["--best"])).contains("the episode is over, won"));
    done(flow().arg("report").arg(&run).arg("--out").arg(folder.path().join("report")));
    assert!(fails(flow().arg("run").arg(run.join("pipeline.yaml"))).contains("`rollout` plays nothing"));
}

#[test]
fn imported_rows_are_replayed_through_other_credit() {
    let folder = tempfile::tempdir().unwrap();
    let (run, _) = imported(folder.path(), "traces.jsonl");
    let replay = folder.path().join("replay");
    done(flow().arg("replay").arg(&run).arg("--with").arg(pipeline(folder.path(), CREDIT)).arg("--out").arg(&replay));
    let rows = ask(&replay, "select distinct \"return\" as r, baseline as b, advantage as a, group_size as n from trajectories join (select count(distinct (sample)) as group_size, task from rollout group by task) using (task) order by n, r");
    let row = |r: f32, b: f32, a: f32, n: u32| json!({"r": r, "b": b, "a": a, "n": n});
    // Of returns 1, 0 and 0.5 the others' means are 0.25, 0.75 and 0.5; of 1 and 0 the other one. The failed episode is
    // in no group.
    let expected =
        [row(0.0, 1.0, -1.0, 2), row(1.0, 0.0, 1.0, 2), row(0.0, 0.75, -0.75, 3), row(0.5, 0.5, 0.0, 3), row(1.0, 0.25, 0.75, 3)];
    assert_eq!(rows, expected);
    // Of itself an imported run has nothing that is computed.
    let message = fails(flow().arg("verify").arg(&run));
    assert!(message.contains("logged nothing but rollouts and keeps no weights") && !message.contains("--iterations"), "{message}");
}

#[test]
fn rows_with_ids_can_be_trained_on_and_rows_without_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let training = pipeline(folder.path(), TRAINING);
    let (run, _) = imported(folder.path(), "traces.jsonl");
    let replay = folder.path().join("replay");
    done(flow().arg("replay").arg(&run).arg("--with").arg(&training).arg("--out").arg(&replay));
    let used = ask(&replay, "select count(*) filter (used = 'yes') as n, bool_or(logit_grad > 0) as moved from \"update\"");
    assert_eq!(used, [json!({"n": 11, "moved": true})]);

    let folder = tempfile::tempdir().unwrap();
    let (run, said) = imported(folder.path(), "traces_without_ids.jsonl");
    let note = "absent: `prompt_tokens`, `response_tokens`, `choices`: without token ids rows can be grouped and compared, not trained on";
    assert!(said.contains(note), "{said}");
    let columns = ask(
        &run,
        "select column_name as c from (describe rollout) where c in ('prompt_tokens', 'response_tokens', 'choices', 'logprobs', 'reward')",
    );
    assert_eq!(columns, [json!({"c": "reward"})]);
    let refused = fails(flow().arg("replay").arg(&run).arg("--with").arg(&training).arg("--out").arg(folder.path().join("no")));
    assert!(refused.contains("prompt_tokens") && refused.contains("the log has no such column"), "{refused}");
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = changed(folder.path(), "traces.jsonl", |_, mut line| {
        line["traces"][0]["nodes"][0]["token_ids"] = json!([1, 900_000]);
        line.to_string()
    });
    let run = folder.path().join("run");
    done(flow().arg("import").arg(file).arg("--out").arg(&run));
    let refused = fails(
        flow().arg("replay").arg(&run).arg("--with").arg(pipeline(folder.path(), TRAINING)).arg("--out").arg(folder.path().join("no")),
    );
    assert!(refused.contains("there is no token 900000 in a vocabulary of"), "{refused}");
}

#[test]
fn a_rollout_is_joined_with_its_input_and_its_failed_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let (run, said) = imported(folder.path(), "rollouts.jsonl");
    // Six attempts failed of two rollouts; one was made good.
    assert!(said.contains("4 episodes of 2 tasks, 6 turns, 1 failed"), "{said}");
    assert!(said.contains("absent: `weights`") && !said.contains("token ids"), "{said}");
    let rows = ask(
        &run,
        "select nullif(info, '')->>'_ng_task_index' as t, sample, turn, observation as o, response as r, action as a, prompt_tokens as p, response_tokens as k,
         logprobs as l, reward, type, temperature as x from rollout where sample = 0 and task = (select task from rollout where reward = 0.5)
         order by turn",
    );
    let think = "<think>\nI look it up.\n</think>\nweather({\"city\":1})";
    let first = json!({"t": null, "sample": 0, "turn": 0, "o": "How warm is city 1?", "r": think, "a": "weather({\"city\":1})", "p": [1, 2],
                       "k": [3, 4], "l": [-0.5, -1.0], "reward": 0.0, "type": "weather_agent", "x": 0.5});
    let second = json!({"t": "1", "sample": 0, "turn": 1, "o": "20 degrees", "r": "Warm.", "a": "Warm.", "p": [1, 2, 3, 4, 5], "k": [6],
                        "l": [-0.25], "reward": 0.5, "type": "weather_agent", "x": 0.5});
    assert_eq!(rows, [first, second], "the line has no input of its own");
    let won = ask(&run, "select sample, won, score, (nullif(info, '')->>'judged')::float as judged from rollout where done and (nullif(info, '')->>'_ng_task_index') = '0' order by sample");
    let row = |sample: u32, won: bool, score: f32, judged: f32| json!({"sample": sample, "won": won, "score": score, "judged": judged});
    assert_eq!(won, [row(0, true, 1.0, 0.75), row(1, false, 0.0, 0.25)], "a sample has the rollout's index, whichever ended first");
    let errors = ask(&run, "select sample, error, tries from errors");
    assert_eq!(errors, [json!({"sample": 1, "error": "transient: no host", "tries": 2})]);
}

#[test]
fn a_prompt_that_does_not_go_on_from_the_tokens_before_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let file = changed(folder.path(), "rollouts.jsonl", |_, mut line| {
        line["responses_create_params"] = json!({"input": "How warm is it?"});
        line["response"]["output"][3]["prompt_token_ids"] = json!([1, 2, 3, 7, 5]);
        line.to_string()
    });
    let run = folder.path().join("run");
    let said = flow().arg("import").arg(file).arg("--out").arg(&run).output().unwrap();
    assert!(text(&said.stderr).contains("absent: `temperature`"), "{}", text(&said.stderr));
    let rows = ask(&run, "select turn, fork, parent = 0 as root, count(*) as n from rollout group by all order by turn");
    assert_eq!(
        rows,
        [json!({"turn": 0, "fork": "", "root": true, "n": 3}), json!({"turn": 1, "fork": "retokenised", "root": true, "n": 3})]
    );
}

#[test]
fn a_line_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let refused = |file: &Path, extra: &[&str]| {
        let message = fails(flow().arg("import").arg(file).arg("--out").arg(&out).args(extra));
        assert!(!out.exists(), "nothing is left behind");
        message
    };
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str); 9] = [
        (
            "traces.jsonl",
            |line| line["run"] = json!({ "work": { "step": 1_000_000_000_000_u64 } }),
            ":2: `run.work.step` is 1000000000000, and a step becomes an iteration: it is at most 1000000",
        ),
        ("traces.jsonl", |line| drop(line["traces"][0].as_object_mut().unwrap().remove("nodes")), ":2: missing field `nodes`"),
        ("traces.jsonl", |line| line["traces"][0]["version"] = json!(2), ":2: a trace has version 2, and version 1 is understood"),
        (
            "traces.jsonl",
            |line| line["traces"][0]["nodes"][1]["parent"] = json!(7),
            ":2: node 1 has a `parent` that doesn't stand before it",
        ),
        (
            "traces.jsonl",
            |line| line["traces"][0]["nodes"][2]["logprobs"] = json!([-1.0]),
            ":2: node 2 has 1 values in `logprobs` for 2 sampled",
        ),
        (
            "traces.jsonl",
            |line| line["traces"][0]["nodes"][2]["logprobs"] = json!([-1.0, 5.0]),
            ":2: 5 is no log-probability of a sampled token",
        ),
        ("rollouts.jsonl", |line| line["reward"] = json!(1e39), " is no number of 32 bits"),
        ("rollouts.jsonl", |line| drop(line.as_object_mut().unwrap().remove("reward")), ":2: missing field `reward`"),
        (
            "rollouts.jsonl",
            |line| drop(line.as_object_mut().unwrap().remove("responses_create_params")),
            ":2: missing field `responses_create",
        ),
    ];
    for (sample, change, message) in cases {
        let file = changed(folder.path(), sample, |i, mut line| {
            line["a_field_of_tomorrow"] = json!([1]);
            if i == 2 {
                line["responses_create_params"] = json!({"input": "How warm?"});
            }
            if i == 1 {
                change(&mut line);
            }
            line.to_string()
        });
        let said = refused(&file, &[]);
        assert!(said.contains("changed.jsonl:2: ") && said.contains(message) && said.contains("--skip-bad"), "{said}");
    }
    // The last line of a file whose writer was killed.
    let file =
        changed(folder.path(), "traces.jsonl", |i, line| line.to_string()[..if i == 5 { 100 } else { line.to_string().len() }].into());
    let said = refused(&file, &[]);
    assert!(said.contains("changed.jsonl:6: ") && said.contains("line 1 column"), "{said}");
    let output = flow().arg("import").arg(&file).arg("--skip-bad").arg("--out").arg(&out).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("5 episodes of 2 tasks, 11 turns ->") && said.contains("1 of 6 lines can't be read"), "{said}");
    std::fs::remove_dir_all(&out).unwrap();

    std::fs::write(&file, "{\"prompt\": 1}\n").unwrap();
    assert!(refused(&file, &[]).contains("`flow import --from FORMAT` reads it by name"));
    assert!(refused(&file, &["--from", "verifiers"]).contains("changed.jsonl:1: missing field `task`"));
    assert!(refused(&folder.path().join("none"), &[]).contains("none"));
}

/// A rollout without a reward was not judged: that is no reward of 0.
#[test]
fn what_was_not_judged_has_no_reward() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let file = changed(folder.path(), "traces.jsonl", |i, mut line| {
        match i {
            0 => line["traces"][0]["rewards"] = json!({}),
            1 => line["traces"][0]["rewards"]["exact"]["score"] = Value::Null,
            2 => (line["ok"], line["is_timeout"]) = (json!(false), json!(true)),
            3 => (line["traces"], line["errors"]) = (json!([]), json!([{"type": "EnvError", "message": "no agent"}])),
            4 => line["traces"][0]["agent"]["trainable"] = json!(false),
            _ => line["traces"][0]["nodes"] = json!([]),
        }
        line.to_string()
    });
    let said = flow().arg("import").arg(file).arg("--out").arg(&run).output().unwrap();
    assert!(text(&said.stdout).contains("5 episodes of 2 tasks, 0 turns, 5 failed"), "{}", text(&said.stdout));
    assert!(text(&said.stderr).contains("1 traces of agents that are not trained are left out"), "{}", text(&said.stderr));
    let errors = ask(&run, "select cause, error, count(*) as n from errors group by all order by error");
    let row = |cause: &str, error: &str, n: u32| json!({"cause": cause, "error": error, "n": n});
    let expected = [
        row("error", "EnvError: no agent", 1),
        row("error", "SandboxError: the box died", 1),
        row("timeout", "the episode did not complete", 1),
        row("error", "the trace has no reward", 2),
    ];
    assert_eq!(errors, expected);
    assert_eq!(ask(&run, "select count(*) as n from rollout")[0]["n"], 0);
}

/// A `json.py` of the working folder is nobody's: the verbs that use Python import their own.
#[test]
fn a_file_of_the_working_folder_is_not_imported() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["json.py", "argparse.py", "flow_runs.py"] {
        std::fs::write(folder.path().join(name), "raise SystemExit('taken from the working folder')").unwrap();
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/import/traces.jsonl");
    done(flow().current_dir(folder.path()).args(["import", file, "--out", "run"]));
    done(flow().current_dir(folder.path()).args(["export", "run", "--tensorboard", "board"]));
    assert!(folder.path().join("board").is_dir());
}

/// GRPO, GiGPO and RTMC as pipelines: a page computes the same without a replay.
const JUDGED: &str = "flow: judged
iterations: 1
nodes:
  rollout: { op: import }
  task: { op: group, inputs: rollout, with: { by: [task] } }
  grpo: { op: advantage, inputs: task, with: { of: episode_return } }
  states: { op: group, inputs: rollout, with: { by: [task, state] } }
  step: { op: advantage, inputs: states, with: { of: step_return, gamma: 0.95 } }
  gigpo: { op: combine, inputs: { episode: grpo, step: step }, with: { weights: { episode: 1.0, step: 1.0 } } }
  returns: { op: advantage, inputs: states, with: { of: step_return, gamma: 0.95, scale: none } }
  value: { op: derive, inputs: returns, with: { columns: { value: 'avg(\"return\") over \"group\"' } } }
  batch: { op: group, inputs: value, with: { by: [] } }
  rtmc: { op: advantage, inputs: batch, with: { of: gae, gamma: 0.95, lambda: 0 } }
log: [rollout, grpo, gigpo, rtmc]
";

/// The answer of a page of the only run that was written to `pages`.
fn answer(pages: &Path, question: &str) -> Value {
    let read = |name: &str| std::fs::read_to_string(pages.join("data").join(name)).unwrap();
    let inside = |text: &str, begin: &str, end: &str| -> Value {
        serde_json::from_str(text.split_once(begin).unwrap().1.trim_end().strip_suffix(end).unwrap()).unwrap()
    };
    let index = inside(&read("index.js"), "window.FLOW_FILES = ", ";");
    let number = index.get(question).unwrap_or_else(|| panic!("no {question} in {index}"));
    inside(&read(&format!("{number}.js")), "||= {}, ", ");")[question].clone()
}

/// prime-rl writes the episodes that it trained on, with an advantage a sampled token, beside all episodes.
#[test]
fn a_folder_of_another_trainer_is_shown_with_its_advantages_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = changed(folder.path(), "traces.jsonl", |i, mut line| {
        for node in line["traces"][0]["nodes"].as_array_mut().unwrap() {
            if node["sampled"] == true {
                node["advantages"] = json!([0.25 * i as f32, 0.25 * i as f32 + 0.5]);
            }
        }
        line.to_string()
    });
    let outputs = folder.path().join("outputs");
    for (subset, rest) in [("effective", ""), ("all", "{}\n")] {
        let inside = outputs.join("rollouts/step_0/train").join(subset);
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("traces.jsonl"), std::fs::read_to_string(&file).unwrap() + rest).unwrap();
    }
    std::fs::write(outputs.join("metrics.jsonl"), "{\"step\": 0}\n").unwrap();
    let (pages, passing) = (folder.path().join("pages"), folder.path().join("passing"));
    std::fs::create_dir(&passing).unwrap();
    let said = done(flow().env("TMPDIR", &passing).arg("view").arg(&outputs).arg("--static").arg(&pages));
    assert!(said.contains("6 episodes of 2 tasks, 11 turns, 1 failed"), "{said}");
    assert_eq!(std::fs::read_dir(&passing).unwrap().count(), 0, "no run stays");

    let run = folder.path().join("run");
    let imported = flow().arg("import").arg(&outputs).arg("--out").arg(&run).output().unwrap();
    assert!(!text(&imported.stderr).contains("aren't read"), "{}", text(&imported.stderr));
    let theirs = ask(&run, "select sample, turn, advantage as a from rollout order by task, sample, turn");
    assert!(theirs.len() == 11 && theirs.iter().any(|row| row["a"] == 1.0), "the mean of 0.75 and 1.25: {theirs:?}");
    let replay = folder.path().join("replay");
    done(flow().arg("replay").arg(&run).arg("--with").arg(pipeline(folder.path(), JUDGED)).arg("--out").arg(&replay));
    let columns = "g.advantage as grpo, i.advantage as gigpo, r.advantage as rtmc";
    let name = "using (iteration, task, sample, attempt, turn, phase)";
    let replayed =
        ask(&replay, &format!("select task, sample, turn, {columns} from grpo g join gigpo i {name} join rtmc r {name} order by all"));
    let page = answer(&pages, "runs/0/credit&iteration=0");
    assert_eq!((&page["known"], &page["count"]), (&json!("theirs"), &json!(11)));
    let columns = page["turns"]["columns"].as_array().unwrap();
    let at = |name: &str| columns.iter().position(|column| column == name).unwrap();
    let rows = page["turns"]["rows"].as_array().unwrap();
    assert_eq!((rows.len(), replayed.len()), (11, 11));
    for (i, ((shown, replayed), theirs)) in rows.iter().zip(&replayed).zip(&theirs).enumerate() {
        assert_eq!((&shown[at("task")], &shown[at("turn")], &shown[at("advantage")]), (&replayed["task"], &replayed["turn"], &theirs["a"]));
        for name in ["grpo", "gigpo", "rtmc"] {
            let (shown, replayed) = (page["by"][name][i].as_f64().unwrap(), replayed[name].as_f64().unwrap());
            assert!((shown - replayed).abs() < 1e-5, "{name}: {shown} is not {replayed}");
        }
    }
}

#[test]
fn an_advantage_that_some_turns_have_is_named_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        json!({"messages": [{"role": "user", "content": "1?"}, {"role": "assistant", "content": "1"}], "reward": 1, "advantage": 0.5}),
        json!({"messages": [{"role": "user", "content": "1?"}, {"role": "assistant", "content": "2"}], "reward": 0}),
    ];
    let file = folder.path().join("chats.jsonl");
    std::fs::write(&file, lines.map(|line| line.to_string() + "\n").concat()).unwrap();
    let run = folder.path().join("run");
    let output = flow().arg("import").arg(&file).arg("--out").arg(&run).output().unwrap();
    assert!(text(&output.stderr).contains("absent: `advantage` (only 1 of 2 turns have it)"), "{}", text(&output.stderr));
    assert_eq!(ask(&run, "select count(*) as n from (describe rollout) where column_name = 'advantage'"), [json!({"n": 0})]);
}

#[test]
fn a_folder_without_a_run_and_without_rollouts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = fails(flow().arg("view").arg(folder.path()));
    assert!(refused.contains("has neither a run nor a file of rollouts"), "{refused}");
    assert!(fails(flow().arg("view").arg(folder.path().join("none"))).contains("none"));
}
