//! `flow test`: the tests that the repository's pipelines bring along, and the verb itself.

use crate::common::*;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Every pipeline of the repository that has tests.
fn tested() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["pipelines", "pipelines/tests"].iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let mut files: Vec<PathBuf> = files.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "yaml")).collect();
    files.retain(|p| std::fs::read_to_string(p).unwrap().lines().any(|l| l == "tests:"));
    files.sort();
    files
}

#[test]
fn the_pipelines_make_the_rows_that_were_worked_out_by_hand() {
    let files = tested();
    let output = done(flow().arg("test").args(&files));
    assert!(files.len() >= 13 && output.ends_with(&format!("{} tests, 0 failed\n", output.matches("ok  ").count())), "{output}");
    for formula in [
        "the advantage of GRPO",
        "the advantage of Dr.GRPO",
        "the advantage of RLOO",
        "the advantage of REINFORCE++",
        "the advantage of REINFORCE++ with a group baseline",
        "the advantage of PPO",
        "the advantage of DAPO",
        "the advantage of GSPO",
        "the ratio of GSPO",
        "the advantage of GiGPO",
        "the advantage of GiGPO, each turn counted",
        "the advantage of SLEA-RL",
        "groups of alike texts",
        "groups by state and visitation depth",
        "EAPO's three rewards, by state and visitation depth",
        "EAPO by Eq. 14 to the letter, and by Eq. 4",
        "actions that take a turn back",
        "the ratio of GMPO",
        "the mask of DPPO",
        "the mask of DeepSeek-V3.2",
        "the advantage of HGPO",
        "the advantage of GDPO",
        "best less second best",
        "the advantage of RAE",
        "the advantage of ReMax",
        "values from groups",
        "hindsight credit",
        "the advantage of OPD",
        "what is foreseen by ECHO",
        "the advantage of AT2PO",
        "a written number is the reward",
    ] {
        assert!(output.contains(&format!(": {formula}\n")), "{formula} is not in\n{output}");
    }
    for credit in ["the cross-episode return of LaMer", "the advantage of LaMer on GiGPO, as released"] {
        assert!(output.contains(&format!("lamer-gigpo.yaml: {credit}\n")), "{output}");
    }
}

/// A test that passes whatever the pipeline says would be worth nothing.
#[test]
fn another_formula_fails_the_test_of_each_pipeline() {
    for (file, set, column) in [
        ("pipelines/grpo-sokoban.yaml", "nodes.advantage.with.ddof=0", "advantage"),
        ("pipelines/grpo-sokoban.yaml", "nodes.advantage.with.eps=1e-5", "scale"),
        ("pipelines/gigpo-sokoban.yaml", "nodes.step_advantage.with.gamma=0.9", "return"),
        ("pipelines/gigpo-sokoban.yaml", "nodes.advantage.with.weights.step=0.5", "advantage"),
        ("pipelines/eapo-grouping-sokoban.yaml", "nodes.group.with.by=[task, state]", "group_size"),
        ("pipelines/eapo-grouping-sokoban.yaml", "nodes.advantage.with.singleton=raw", "baseline"),
        ("pipelines/dr-grpo-sokoban.yaml", "nodes.advantage.with.scale=std", "scale"),
        ("pipelines/rloo-sokoban.yaml", "nodes.advantage.with.baseline=mean", "baseline"),
        ("pipelines/reinforce-plus-plus-sokoban.yaml", "nodes.advantage.with.gamma=0.5", "baseline"),
        ("pipelines/reinforce-plus-plus-baseline-sokoban.yaml", "nodes.group.with.by=[]", "advantage"),
        ("pipelines/dapo-sokoban.yaml", "nodes.advantage.with.equal=keep", "used"),
        ("pipelines/dapo-sokoban.yaml", "nodes.reward.with.overlong.buffer=16", "reward"),
        ("pipelines/ppo-sokoban.yaml", "nodes.advantage.with.lambda=1", "value_target"),
        ("pipelines/ppo-sokoban.yaml", "nodes.advantage.with.unit=turn", "baseline"),
        ("pipelines/gspo-sokoban.yaml", "nodes.advantage.with.scale=none", "advantage"),
        ("pipelines/tests/gspo-ratio.yaml", "nodes.update.with.ratio=token", "clip_share"),
        ("pipelines/tests/gspo-ratio.yaml", "nodes.update.with.clip_high=6.0e-4", "clip_share"),
        ("pipelines/tests/gspo-ratio.yaml", "nodes.update.with.clip=2.0e-4", "loss_share"),
        ("pipelines/gigpo-similar-sokoban.yaml", "nodes.alike.with.similar.at_least=0.981", "group_size"),
        ("pipelines/gigpo-similar-sokoban.yaml", "nodes.alike.with.similar.at_least=0.96", "group_size"),
        ("pipelines/tests/gmpo-ratio.yaml", "nodes.update.with.clip=4.0e-4", "loss_share"),
        ("pipelines/tests/dppo-mask.yaml", "nodes.update.with.clip_high=7.0e-4", "clip_share"),
        ("pipelines/tests/off-policy-mask.yaml", "nodes.update.with.mask_drift=5.0e-4", "loss_share"),
        ("pipelines/hgpo-sokoban.yaml", "nodes.advantage.with.over=all", "used"),
        ("pipelines/hgpo-sokoban.yaml", "nodes.last_2.with.history=2", "group_size"),
        ("pipelines/hgpo-sokoban.yaml", "nodes.last_2.with.early_turns=shared", "group_size"),
        ("pipelines/hgpo-sokoban.yaml", "nodes.of_2.with.ddof=1", "advantage"),
        ("pipelines/hgpo-sokoban.yaml", "nodes.of_2.with.equal=keep", "advantage"),
        ("pipelines/gdpo-sokoban.yaml", "nodes.sum.with={ weights: { valid: 2 } }", "advantage"),
        ("pipelines/passk-sokoban.yaml", "nodes.advantage.with.baseline=mean", "baseline"),
        ("pipelines/rae-sokoban.yaml", "nodes.advantage.with.decay=0.5", "running"),
        ("pipelines/rae-sokoban.yaml", "nodes.advantage.with.ema=after", "baseline"),
        ("pipelines/remax-sokoban.yaml", "nodes.advantage.with.columns.advantage=sum(reward) over episode", "advantage"),
        ("pipelines/gagpo-sokoban.yaml", "nodes.value.with.columns.value=avg(reward) over \"group\"", "value"),
        ("pipelines/gagpo-sokoban.yaml", "nodes.advantage.with.lambda=0", "return"),
        ("pipelines/hcapo-sokoban.yaml", "nodes.returns.with.scale=none", "advantage"),
        ("pipelines/at2po-sokoban.yaml", "nodes.tree.with.of=step_return", "return"),
        ("pipelines/at2po-sokoban.yaml", "nodes.tree.with.gamma=0.9", "advantage"),
        ("pipelines/judge-sokoban.yaml", "nodes.reward.with.columns.reward=done::int", "reward"),
        ("pipelines/opd-sokoban.yaml", "nodes.advantage.with.gamma=1", "token_advantages"),
        ("pipelines/igpo-search.yaml", "nodes.compared.with.scale=none", "advantage"),
        ("pipelines/sdpo-sokoban.yaml", "nodes.told.with.columns.teacher_tokens=prompt_tokens", "teacher_tokens"),
        ("pipelines/sdar-sokoban.yaml", "nodes.gate.with.columns.token_advantages=token_rewards", "token_advantages"),
        ("pipelines/echo-sokoban.yaml", "nodes.seen.with.columns.response_tokens=prompt_tokens", "response_tokens"),
        ("pipelines/tests/slea-rl-credit.yaml", "nodes.clusters.with.at_least=0.99", "advantage"),
        ("pipelines/tests/slea-rl-library.yaml", "nodes.library.with.ties=older", "text"),
        ("pipelines/tests/slea-rl-library.yaml", "nodes.extract.with.template='example: {{ turn }}'", "action"),
        ("pipelines/tests/eapo.yaml", "nodes.reward-of-attempt.with.explore.gamma=0.99", "reward"),
        ("pipelines/tests/eapo.yaml", "nodes.reward-of-attempt.with.task_of=to_go", "reward"),
        ("pipelines/tests/eapo.yaml", "nodes.reward-of-attempt.with.format_per=tag", "reward"),
        ("pipelines/tests/eapo.yaml", "nodes.return-to-go.with.gamma=1", "return"),
        ("pipelines/tests/eapo.yaml", "nodes.raw.with.singleton=zero", "advantage"),
        ("pipelines/tests/eapo.yaml", "nodes.group.with.by=[task, state]", "group_size"),
        ("pipelines/tests/gigpo-turns.yaml", "nodes.episode_advantage.with.unit=trajectory", "advantage"),
        ("pipelines/tests/lamer-gigpo.yaml", "nodes.grpo.with.boundary=code", "return"),
        ("pipelines/tests/lamer-gigpo.yaml", "nodes.rloo.with.gamma_attempt=0.9", "return"),
        ("pipelines/tests/lamer-gigpo.yaml", "nodes.step.with.boundary=paper", "return"),
        ("pipelines/tests/lamer-gigpo.yaml", "nodes.states.with.by=[task, attempt, state]", "advantage"),
    ] {
        let output = flow().args(["test", file, "--set", set]).output().unwrap();
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{file} --set {set}: {printed}");
        let named =
            printed.lines().any(|l| l.split_whitespace().nth(1) == Some(column) && (l.contains(", play") || l.contains(", reflect")));
        assert!(printed.contains("FAILED  ") && printed.ends_with(" 1 failed\n") && named, "{file} --set {set}: {printed}");
    }
}

/// A pipeline with tests, and the files that they name.
fn written(folder: &Path, tests: &str, files: &[(&str, &str)]) -> PathBuf {
    files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
    let small = SMALL.replace(", overlong: { max: 8, buffer: 4, weight: 0.1 }", "");
    pipeline(folder, &format!("{small}tests:\n{tests}\n"))
}

const FOUR: &str = "{\"task\": \"a\", \"sample\": 0, \"state\": 1, \"action\": \"\", \"reward\": 1}\n\
                    {\"task\": \"a\", \"sample\": 1, \"state\": 1, \"action\": \"\", \"reward\": 0}\n";

#[test]
fn differences_are_shown_row_by_row() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = "{\"task\": \"a\", \"sample\": 0, \"advantage\": 0.5}\n\
                 {\"task\": \"a\", \"sample\": 1, \"advantage\": -0.707105, \"used\": \"no\"}\n{\"task\": \"b\"}\n";
    let tests = "  - { name: one, feed: { rollout: four }, expect: { episode_advantage: wrong } }\n  - { name: two, feed: { rollout: four }, expect: { reward: four } }";
    let path = written(folder.path(), tests, &[("four", FOUR), ("wrong", wrong)]);
    let output = flow().arg("test").arg(&path).output().unwrap();
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let lines: Vec<String> = printed.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let name = |task: &str, sample: u32| format!("iteration 0, task {task}, sample {sample}, attempt 0, turn 0, play");
    let expected = [
        format!("FAILED {}: one", path.display()),
        "node column expected got difference row".into(),
        format!("episode_advantage advantage 0.5 0.70710576 +0.207106 {}", name("a", 0)),
        format!("episode_advantage used no yes {}", name("a", 1)),
        format!("episode_advantage a row none {}", name("b", 0)),
        format!("ok {}: two", path.display()),
        "2 tests, 1 failed".into(),
    ];
    assert_eq!(lines, expected, "{printed}");

    let output = flow().arg("test").arg(&path).args(["--name", "one", "--format", "json"]).output().unwrap();
    let objects: Vec<Value> = text(&output.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((output.status.code(), objects.len()), (Some(1), 4), "three rows and the test");
    assert_eq!((&objects[0]["row"]["task"], &objects[0]["expected"]["advantage"]), (&"a".into(), &0.5.into()));
    assert!((objects[0]["difference"]["advantage"].as_f64().unwrap() - 0.20710576).abs() < 1e-7);
    assert_eq!((&objects[1]["got"]["used"], &objects[1]["ok"], &objects[2]["got"]), (&"yes".into(), &false.into(), &Value::Null));
    assert_eq!((&objects[3]["test"], &objects[3]["ok"], &objects[3]["differing"]), (&"one".into(), &false.into(), &3.into()));

    let printed = fails(flow().arg("test").arg(&path).args(["--name", "three"]));
    assert!(printed.contains("there is no test `three`") && printed.contains("`one`, `two`"), "{printed}");
}

#[test]
fn many_differences_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String =
        (0..15).map(|i| format!("{{\"task\": \"a\", \"sample\": {i}, \"state\": 1, \"action\": \"\", \"reward\": 1}}\n")).collect();
    let path =
        written(folder.path(), "  - { name: one, feed: { rollout: rows }, expect: { reward: none } }", &[("rows", &rows), ("none", "")]);
    let output = text(&flow().arg("test").arg(path).output().unwrap().stdout);
    assert!(output.matches("no row").count() == 10 && output.contains("\n  and 5 more\n"), "{output}");
}

#[test]
fn iterations_follow_from_the_rows_and_never_mix() {
    let folder = tempfile::tempdir().unwrap();
    let row = |i: u32, s: u32, r: u32| {
        format!("{{\"iteration\": {i}, \"task\": \"a\", \"sample\": {s}, \"state\": 1, \"action\": \"\", \"reward\": {r}}}\n")
    };
    let rows: String = [(0, 0, 1), (0, 1, 0), (2, 0, 1), (2, 1, 1), (2, 2, 4)].iter().map(|(i, s, r)| row(*i, *s, *r)).collect();
    // Iteration 2 is no multiple of anything, and 1 has no rows. Its mean is 2 and its deviation sqrt(3).
    let expected = |i: u32, s: u32, b: f32| format!("{{\"iteration\": {i}, \"task\": \"a\", \"sample\": {s}, \"baseline\": {b}}}\n");
    let all: String =
        [(0, 0, 0.5), (0, 1, 0.5), (2, 0, 2.0), (2, 1, 2.0), (2, 2, 2.0)].iter().map(|(i, s, b)| expected(*i, *s, *b)).collect();
    let tests = "  - { name: one, feed: { rollout: rows }, expect: { episode_advantage: all } }";
    let path = written(folder.path(), tests, &[("rows", &rows), ("all", &all)]);
    assert!(done(flow().arg("test").arg(&path)).ends_with("1 test, 0 failed\n"));
    std::fs::write(folder.path().join("rows"), row(10_000, 0, 1)).unwrap();
    let output = text(&flow().arg("test").arg(&path).output().unwrap().stdout);
    assert!(output.contains("rows:1: iteration 10000 is too late for a test"), "{output}");
}

#[test]
fn a_loop_is_fed_under_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let looped = "  trial:\n    loop: { attempts: 1 }\n    nodes:\n      rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 5 } } }\n    output: rollout\n";
    let tests = "  - { name: one, feed: { trial: four }, expect: { episode_advantage: half } }";
    let half = "{\"task\": \"a\", \"sample\": 0, \"baseline\": 0.5}\n{\"task\": \"a\", \"sample\": 1, \"baseline\": 0.5}\n";
    let path = written(folder.path(), tests, &[("four", FOUR), ("half", half)]);
    let text = std::fs::read_to_string(&path).unwrap();
    let rollout = text.lines().find(|l| l.starts_with("  rollout:")).unwrap();
    let text = text.replace(&format!("{rollout}\n"), looped).replace("inputs: rollout, with: { format", "inputs: trial, with: { format");
    std::fs::write(&path, text.replace("log: [rollout, ", "log: [trial, ")).unwrap();
    assert!(done(flow().arg("test").arg(&path)).ends_with("1 test, 0 failed\n"));
    std::fs::write(folder.path().join("half"), half.replace("0.5", "0.25")).unwrap();
    assert_eq!(flow().arg("test").arg(&path).output().unwrap().status.code(), Some(1));
}

/// An expectation of an update makes the model, and nothing else does.
#[test]
fn a_model_is_made_where_one_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let row = |s: u32, used: &str| {
        format!("{{\"task\": \"a\", \"sample\": {s}, \"prompt_tokens\": [5, 6], \"response_tokens\": [5, 2], \"logprobs\": [-3, -3], \"advantage\": 1, \"used\": \"{used}\"}}\n")
    };
    let expected = "{\"task\": \"a\", \"sample\": 0, \"used\": \"yes\", \"version\": 1}\n{\"task\": \"a\", \"sample\": 1, \"used\": \"singleton\", \"version\": 1}\n";
    let tests = "  - { name: one, feed: { advantage: rows }, expect: { update: all } }";
    let path = written(folder.path(), tests, &[("rows", &(row(0, "yes") + &row(1, "singleton"))), ("all", expected)]);
    assert!(done(flow().arg("test").arg(&path)).ends_with("1 test, 0 failed\n"));
    // A model that can't be loaded is in nobody's way unless it is asked for.
    let load = ["--set", "models.actor={ load: nowhere }"];
    let output = text(&flow().arg("test").arg(&path).args(load).output().unwrap().stdout);
    assert!(output.starts_with("FAILED") && output.contains("nowhere"), "{output}");
    let tests = "  - { name: one, feed: { rollout: rows }, expect: { reward: rows } }";
    let path = written(folder.path(), tests, &[("rows", "{\"task\": \"a\", \"action\": \"\", \"reward\": 2}")]);
    done(flow().arg("test").arg(&path).args(load));
}

#[test]
fn what_is_wrong_in_a_rows_file_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let tests = "  - { name: one, feed: { rollout: rows }, expect: { episode_advantage: all } }";
    for (rows, all, words) in [
        ("{\"task\": \"a\", \"state\": 1, \"action\": \"\"}", "", "rows:1: the column `reward` is missing, and `"),
        ("{\"state\": 1, \"action\": \"\", \"reward\": 1}", "", "rows:1: the column `task` is missing, and `"),
        (FOUR, "\n{\"task\": \"a\", \"advantge\": 1}", "all:2: there is no column `advantge`"),
        (FOUR, "{\"task\": \"a\", \"advantage\": \"1\"}", "all:1: `advantage` must be a number, found the text \"1\""),
        ("{\"task\": \"a\", \"state\": 1, \"action\": \"\", \"reward\": [1]}", "", "rows:1: `reward` must be a number, found a list"),
        (
            FOUR,
            "{\"task\": \"a\", \"won\": true}",
            "rows:1: the column `won` is missing, and the expectation of `episode_advantage` needs it",
        ),
    ] {
        let path = written(folder.path(), tests, &[("rows", rows), ("all", all)]);
        let output = flow().arg("test").arg(path).output().unwrap();
        let printed = text(&output.stdout);
        assert!(output.status.code() == Some(1) && printed.starts_with("FAILED") && printed.contains(words), "{words}\n{printed}");
    }
}

#[test]
fn a_training_has_no_use_for_the_tests() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!("{SMALL}tests:\n  - {{ name: one, feed: {{ rollout: nowhere }}, expect: {{ advantage: nowhere }} }}\n");
    let run = trained(folder.path(), "run", &yaml, &["--set", "iterations=1"]);
    assert!(!std::fs::read_to_string(run.join("pipeline.yaml")).unwrap().contains("tests"));
    done(flow().arg("resume").arg(&run).args(["--iterations", "2"]));
    let message = fails(flow().arg("test").arg(folder.path().join("pipeline.yaml")));
    assert!(
        message.contains("there is no such file") && message.contains("nowhere: paths are relative to the pipeline's file"),
        "{message}"
    );
    let message = fails(flow().args(["test", "pipelines/quickstart.yaml"]));
    assert!(message.contains("error: there are no tests") && message.contains("- { name: ..., feed"), "{message}");
}
