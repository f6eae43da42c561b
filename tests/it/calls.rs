//! Agent programs: who asks is the environment. The program here asks at the same time, in whatever order the clock
//! brings.

use super::common::{ask as rows, done, fails, flow, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn pipeline(folder: &Path, more: &str, batch: usize, agent: &str) -> std::path::PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/caller.py");
    let yaml = format!(
        "flow: calls\niterations: 3\nseed: 4\nmodels:\n  actor: {{ new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }}\nnodes:\n  tasks: {{ op: tasks, with: {{ env: process, name: caller, command: [python3, {program:?}], batch: {batch}, pass: [CALLER_TASKS]{more} }} }}\n  rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 6, max_tokens: 5{agent} }}, samples: 3, max_failed: 1 }} }}\n  group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}\n  advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}\n  update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor, lr: 1.0e-2, side: [right] }} }}\nlog: [rollout, advantage, update]\n"
    );
    let file = folder.join("calls.yaml");
    std::fs::write(&file, yaml).unwrap();
    file
}

/// The same with tools in the system message, for answers of so many tokens.
fn hermes(folder: &Path, tokens: usize) -> std::path::PathBuf {
    let file = pipeline(folder, "", 1, ", tools: hermes");
    let yaml = std::fs::read_to_string(&file).unwrap();
    let yaml = yaml.replace("max_tokens: 5", &format!("max_tokens: {tokens}")).replace("kv_heads: 1 }", "kv_heads: 1, context: 4096 }");
    std::fs::write(&file, yaml).unwrap();
    file
}

fn run(file: &Path, out: &Path, workers: &str, tasks: &str) -> Output {
    flow().arg("run").arg(file).args(["--workers", workers, "--out"]).arg(out).env("CALLER_TASKS", tasks).output().unwrap()
}

/// Which answer is wanted first differs from run to run; rows, advantages and weights don't. A call that goes on begins
/// with the tokens of the one before and of its answer.
#[test]
fn calls_that_overlap_give_the_same_rows_on_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "", 6, "");
    let all = "SELECT * FROM rollout ORDER BY ALL";
    let mut first: Option<Vec<Value>> = None;
    for (count, workers) in ["1", "2", "1"].iter().enumerate() {
        let out = folder.path().join(format!("run-{count}"));
        let output = run(&file, &out, workers, "one two three credit stop short");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found = [rows(&out, all), rows(&out, "SELECT * FROM advantage ORDER BY ALL")].concat();
        let first = first.get_or_insert_with(|| found.clone());
        let other = first.iter().zip(&found).find(|(a, b)| a != b);
        assert!(first.len() == found.len() && other.is_none(), "{workers} workers: {other:?}");
    }
    let out = folder.path().join("run-0");
    let count = |sql: &str| rows(&out, sql)[0]["n"].as_u64().unwrap();
    assert_eq!(count("SELECT count(*) n FROM rollout"), 3 * 6 * 3 * 4, "four calls an episode");
    let ended = "SELECT count(*) n FROM trajectories WHERE (info->>'letters')::int >= 0";
    assert_eq!(count(ended), 3 * 6 * 3, "only the last turn has figures, and the others are no error");
    let joined =
        "FROM rollout b JOIN rollout a ON a.iteration = b.iteration AND a.task = b.task AND a.sample = b.sample AND a.call = b.parent";
    let on =
        "list_concat(a.prompt_tokens, a.response_tokens) = list_slice(b.prompt_tokens, 1, len(a.prompt_tokens) + len(a.response_tokens))";
    assert_eq!(count(&format!("SELECT count(*) n {joined} WHERE {on}")), 3 * 6 * 3 * 2, "none is encoded again");
    assert_eq!(count("SELECT count(*) n FROM rollout WHERE parent = 0 AND fork = 'sub_agent'"), 3 * 6 * 3);
    assert_eq!(count("SELECT count(*) n FROM rollout WHERE task LIKE '%-short-%' AND len(response_tokens) > 2"), 0);
    let side =
        "FROM \"update\" u JOIN rollout r USING (iteration, task, sample, turn) WHERE (u.used = 'side_call') <> (r.called = 'right')";
    assert_eq!(count(&format!("SELECT count(*) n {side}")), 0, "what was asked of a side model isn't learnt");
    assert!(count("SELECT count(*) n FROM rollout WHERE task LIKE '%-stop-%' AND regexp_matches(response, '[a-z]$')") > 0);
    assert_eq!(count("SELECT count(*) n FROM rollout WHERE task LIKE '%-credit-%' AND reward % 1 = 0.5"), 3 * 3, "one call's own reward");
}

/// A failure is a row of `errors` and never a reward; who is late fails alone; who is too long is told so, and may ask
/// in fewer words.
#[test]
fn a_failure_is_no_reward_and_no_end_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), ", seconds: 1", 3, "");
    let out = folder.path().join("failed");
    let output = run(&file, &out, "1", "one fails late");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = rows(&out, "SELECT cause, count(*) n FROM errors GROUP BY cause ORDER BY cause");
    assert_eq!(found.iter().map(|row| row["cause"].as_str().unwrap()).collect::<Vec<_>>(), ["error", "timeout"], "{found:?}");
    assert_eq!(found.iter().map(|row| row["n"].as_u64().unwrap()).collect::<Vec<_>>(), [9, 9], "{found:?}");
    assert_eq!(
        rows(&out, "SELECT DISTINCT task FROM rollout")[0]["task"].as_str().unwrap().split("-s").next(),
        Some("process-caller-train-one")
    );
    let short = pipeline(folder.path(), "", 2, ", prompt_tokens: 6");
    let out = folder.path().join("refused");
    let output = run(&short, &out, "2", "one two");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(rows(&out, "SELECT max(len(prompt_tokens)) <= 6 fits FROM rollout")[0]["fits"], Value::Bool(true));
    assert!(rows(&out, "SELECT count(*) n FROM rollout WHERE observation LIKE 'no %'")[0]["n"].as_u64().unwrap() > 0);
}

/// A call whose answer its program didn't read is no row, and is counted.
#[test]
fn what_a_program_did_not_read_is_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let output = run(&pipeline(folder.path(), "", 1, ""), &out, "1", "unread");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = rows(&out, "SELECT sample, count(*) n, max(turn) + 1 turns, bool_or(done) done FROM rollout GROUP BY iteration, sample");
    assert_eq!(found.len(), 9);
    assert!(found.iter().all(|row| row["n"] == 3 && row["turns"] == 3 && row["done"] == true), "{found:?}");
    let left = rows(&out, "SELECT count(*) n FROM rollout WHERE called = 'left'");
    assert_eq!(left[0]["n"], 9, "the other answer to the same conversation is one");
    assert_eq!(rows(&out, "SELECT DISTINCT value FROM metrics WHERE name = 'unread'")[0]["value"], 3.0);
}

/// A call with tools is never asked without them: it is refused where the prompt would lack them, or they are written
/// into its system message.
#[test]
fn a_call_with_tools_is_refused_or_has_them_in_its_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("refused");
    let output = run(&pipeline(folder.path(), "", 1, ""), &out, "1", "tools");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = rows(&out, "SELECT cause, min(error) AS error, count(*) n FROM errors GROUP BY cause");
    assert!(found.len() == 1 && found[0]["n"] == 9, "{found:?}");
    let error = found[0]["error"].as_str().unwrap();
    assert!(
        error.contains("was refused: it has tools, and `actor` has no chat template that renders them: give the agent `tools: hermes`"),
        "{error}"
    );
    let file = hermes(folder.path(), 5);
    let noted = done(flow().arg("check").arg(&file).env("CALLER_TASKS", "tools"));
    assert!(noted.contains("in the form of Hermes (`tools: hermes`)"), "{noted}");
    let out = folder.path().join("hermes");
    let output = run(&file, &out, "1", "tools");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told =
        rows(&out, "SELECT count(*) n, count(*) FILTER (contains(text(prompt_tokens, 'actor'), '\"name\": \"look\"')) told FROM rollout");
    assert!(told[0]["n"].as_u64().unwrap() > 0 && told[0]["n"] == told[0]["told"], "{told:?}");
}

/// The beginning of an answer that must call a tool is bound, whatever the policy would write, and training knows it.
#[test]
fn a_forced_call_begins_as_it_must() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (hermes(folder.path(), 80), folder.path().join("run"));
    let output = run(&file, &out, "1", "must");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = rows(&out, "SELECT response, len(response_tokens) > 60 AS whole, list_last(choices) AS open FROM rollout");
    assert!(!found.is_empty());
    let names = ["look", "leave"].map(|name| format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\":"));
    for row in &found {
        let said = row["response"].as_str().unwrap();
        assert!(names.iter().any(|name| said.starts_with(name.as_str())) && row["open"] == u32::MAX, "{row:?}");
    }
    assert!(
        names.iter().all(|name| found.iter().any(|row| row["response"].as_str().unwrap().starts_with(name.as_str()))),
        "both are drawn"
    );
    assert!(found.iter().any(|row| row["whole"] == true), "it goes on freely");
    let gap = rows(&out, "SELECT max(value) gap FROM metrics WHERE name = 'logprob_gap'");
    assert!(gap[0]["gap"].as_f64().unwrap() < 1e-4, "training computes what was sampled: {gap:?}");
}

/// A server is sent messages alone, so a call with tools is an error and not asked without them.
#[test]
fn a_model_that_is_not_told_of_tools_is_not_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "", 1, "");
    let yaml = std::fs::read_to_string(&file).unwrap().replace(", weights: { after: update } }", " }");
    let (head, _) = yaml.split_once("  group:").unwrap();
    let (before, after) = head.split_once("  actor: ").unwrap();
    let nodes = after.split_once('\n').unwrap().1;
    let server = "{ openai: 'http://127.0.0.1:9/v1', model: big }";
    std::fs::write(&file, format!("{before}  actor: {server}\n{nodes}log: [rollout]\n")).unwrap();
    let out = folder.path().join("run");
    let output = run(&file, &out, "1", "tools");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = rows(&out, "SELECT cause, min(error) AS error, count(*) n FROM errors GROUP BY cause");
    assert!(found.len() == 1 && found[0]["cause"] == "error" && found[0]["n"] == 9, "{found:?}");
    assert!(found[0]["error"].as_str().unwrap().contains("`actor`, which a server runs (`openai`), is asked without them"), "{found:?}");
}

/// The rows of node `rows` of this pipeline's run; on two workers they are the same.
fn alike(folder: &Path, file: &Path, rows_of: &str) -> std::path::PathBuf {
    let mut first = None;
    for workers in ["2", "1"] {
        let out = folder.join(workers);
        let output = run(file, &out, workers, "one two");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found = rows(&out, &format!("SELECT * FROM {rows_of} ORDER BY ALL"));
        assert!(*first.get_or_insert_with(|| found.clone()) == found, "{workers} workers");
    }
    folder.join("1")
}

const REFLECT: &str = "reflect: { op: reflect, inputs: rollout, with: { agent: { model: actor, answer: [], max_tokens: 4 }, on: always } }";

/// Entries of a memory stand in the calls of a program that knows nothing of them, and not in the prompt without them.
#[test]
fn a_program_is_told_a_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "", 2, ", context: [{ memory: tips, by: all, most: 1, place: system, at: episode }]");
    let yaml = std::fs::read_to_string(&file)
        .unwrap()
        .replace("weights: { after: update } }", "weights: { after: update }, tips: { after: tips } }")
        .replace("log: [rollout", "log: [rollout, tips");
    let more = format!("  {REFLECT}\n  tips: {{ op: memory-update, inputs: reflect, with: {{ per: all, capacity: 4 }} }}\n  group:");
    std::fs::write(&file, yaml.replace("  group:", &more)).unwrap();
    let out = alike(folder.path(), &file, "rollout");
    let told = "len(retrieved) > 0 AND len(bare_tokens) BETWEEN 1 AND len(prompt_tokens) - 1";
    let found = rows(
        &out,
        &format!("SELECT parent = 0 AS first, count(*) n, count(*) FILTER ({told}) told FROM rollout WHERE iteration > 0 GROUP BY ALL"),
    );
    assert!(
        found.len() == 2 && found.iter().all(|row| row["told"].as_u64().unwrap() > 0),
        "what goes on says what stands above, too: {found:?}"
    );
}

/// Notes on earlier attempts stand in the first call of each conversation, before what the user says.
#[test]
fn a_program_is_told_notes() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "", 2, "");
    let yaml = std::fs::read_to_string(&file).unwrap();
    let rollout = yaml.lines().find(|line| line.starts_with("  rollout:")).unwrap().to_owned();
    let inner = rollout.replace("weights: { after: update } }", "weights: { after: update }, memory: { after: reflect } }");
    let trial = format!(
        "  trial:\n    loop: {{ attempts: 2, until: never }}\n    nodes:\n    {inner}\n      {REFLECT}\n    output: [rollout, reflect]"
    );
    let yaml = yaml
        .replace(&rollout, &trial)
        .replace("inputs: rollout, with: { by", "inputs: trial, with: { by")
        .replace("log: [rollout", "log: [trial");
    std::fs::write(&file, yaml).unwrap();
    let out = alike(folder.path(), &file, "trial");
    let told = "contains(text(prompt_tokens, 'actor'), memory)";
    let sql = format!(
        "SELECT count(*) n, count(*) FILTER ({told}) told FROM trial WHERE phase = 'play' AND attempt = 1 AND parent = 0 AND memory <> ''"
    );
    let found = &rows(&out, &sql)[0];
    assert!(found["n"].as_u64().unwrap() > 0 && found["n"] == found["told"], "{found}");
}

/// Two models behind one door, each with tokens of its own and an update: `left` answers the calls that name nobody
/// else, `right` those that name it.
fn two(folder: &Path, edit: impl Fn(String) -> String) -> std::path::PathBuf {
    let file = pipeline(folder, "", 4, ", by_name: [right]");
    let yaml = std::fs::read_to_string(&file).unwrap();
    let (head, actor) = yaml.split_once("  actor: ").unwrap();
    let (sizes, rest) = actor.split_once('\n').unwrap();
    let rest = rest
        .replace("model: actor", "model: left")
        .replace("weights: { after: update } }", "weights: { after: update }, right: { after: update_right, staleness: 1 } }")
        .replace(", side: [right]", "")
        .replace(
            "log: [",
            "  update_right: { op: gpu-update, inputs: advantage, with: { model: right, lr: 1.0e-2 } }\nlog: [update_right, ",
        );
    let right = sizes.replace("new: tiny", "new: tiny, tokens: bytes");
    std::fs::write(&file, edit(format!("{head}  left: {sizes}\n  right: {right}\n{rest}"))).unwrap();
    file
}

/// Every row of a run of two models and the newest weights of both.
fn both(run: &Path) -> (Vec<Value>, Vec<Vec<u8>>) {
    let all = ["rollout", "advantage", "\"update\"", "update_right"].map(|node| rows(run, &format!("SELECT * FROM {node} ORDER BY ALL")));
    let weights = ["left", "right"].map(|model| std::fs::read(run.join("weights/3").join(model).join("model.safetensors")).unwrap());
    (all.concat(), weights.into())
}

/// Each model answers its own calls with its own newest weights and learns those rows alone, on any number of workers
/// and after a stop.
#[test]
fn two_models_behind_one_door_both_learn() {
    let folder = tempfile::tempdir().unwrap();
    let file = two(folder.path(), |yaml| yaml);
    let mut first = None;
    for workers in ["1", "2", "4"] {
        let out = folder.path().join(workers);
        let output = run(&file, &out, workers, "one credit short swap");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found = both(&out);
        assert!(*first.get_or_insert_with(|| found.clone()) == found, "{workers} workers");
    }
    let out = folder.path().join("1");
    let (stopped, replayed) = (folder.path().join("stopped"), folder.path().join("replayed"));
    let tasks = |command: &mut Command| done(command.env("CALLER_TASKS", "one credit short swap"));
    tasks(flow().arg("run").arg(&file).args(["--set", "iterations=1", "--out"]).arg(&stopped));
    tasks(flow().arg("resume").arg(&stopped).args(["--iterations", "3"]));
    assert!(Some(both(&stopped)) == first, "a run that was stopped");
    tasks(flow().arg("replay").arg(&out).arg("--out").arg(&replayed));
    assert!(Some(both(&replayed)) == first, "a replay");

    let count = |sql: &str| rows(&out, &format!("SELECT count(*) n FROM {sql}"))[0]["n"].as_u64().unwrap();
    assert_eq!(count("rollout WHERE answered_by = called"), 3 * 4 * 3 * 4, "each name has its own model");
    assert_eq!(count("rollout WHERE weights <> CASE answered_by WHEN 'left' THEN iteration ELSE greatest(iteration::int - 1, 0) END"), 0);
    for (node, model) in [("\"update\"", "left"), ("update_right", "right")] {
        let joined = format!("{node} u JOIN rollout r USING (iteration, task, sample, turn)");
        assert_eq!(count(&format!("{joined} WHERE (u.used = 'other_model') <> (r.answered_by <> '{model}')")), 0, "{model}");
        assert!(count(&format!("{joined} WHERE u.used = 'yes'")) > 0, "{model}");
        assert_eq!(count(&format!("{joined} WHERE r.answered_by <> '{model}' AND (u.loss_share <> 0 OR u.logit_grad <> 0)")), 0, "{model}");
        let versions = rows(&out, &format!("SELECT DISTINCT version FROM {node} ORDER BY version"));
        assert_eq!(versions.iter().map(|row| row["version"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3], "{model}");
    }
    for (model, wrong) in [("left", ">="), ("right", "<")] {
        let read = format!("text(prompt_tokens, '{model}')");
        let sql = format!("rollout WHERE answered_by = '{model}' AND task NOT LIKE '%-swap-%' AND");
        assert_eq!(count(&format!("{sql} NOT contains({read}, '{model}')")), 0, "its prompts are in its own tokens");
        assert_eq!(count(&format!("{sql} len(prompt_tokens) {wrong} length({read})")), 0, "`left` reads words, `right` bytes");
    }
    let joined = "rollout b JOIN rollout a ON a.iteration = b.iteration AND a.task = b.task AND a.sample = b.sample AND a.call = b.parent";
    let on =
        "list_concat(a.prompt_tokens, a.response_tokens) = list_slice(b.prompt_tokens, 1, len(a.prompt_tokens) + len(a.response_tokens))";
    assert_eq!(count(&format!("{joined} WHERE (a.answered_by = b.answered_by) <> ({on})")), 0, "no chain goes on across models");
    assert_eq!(count("rollout WHERE task LIKE '%-swap-%' AND fork = 'retokenised'"), 3 * 3 * 2);
    assert_eq!(count("rollout WHERE task NOT LIKE '%-swap-%' AND fork = 'retokenised'"), 0);
}

/// A panel is played by both, each with its newest weights, though no input gives those of the agent's own model.
#[test]
fn two_models_behind_one_door_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/caller.py");
    let settings =
        ["name=caller".to_owned(), format!("command=[\"python3\", {program:?}]"), r#"pass=["CALLER_TASKS"]"#.into(), "split=test".into()];
    let mut freeze = flow();
    freeze.args(["panel", "process"]).args(settings).args(["--count", "1", "--out"]).arg(folder.path()).env("CALLER_TASKS", "still");
    done(&mut freeze);
    let panel = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let measured = format!(
        "  measured: {{ op: evaluate, inputs: {{ weights: {{ after: update }}, right: {{ after: update_right }} }}, with: {{ agent: {{ model: left, max_turns: 6, max_tokens: 5, by_name: [right] }}, panel: {panel:?}, every: 1 }} }}\nlog: [measured, "
    );
    let out = folder.path().join("run");
    let output = run(&two(folder.path(), |yaml| yaml.replace("log: [", &measured)), &out, "2", "still");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = rows(&out, "SELECT iteration, answered_by, any_value(weights) w, count(*) n FROM measured GROUP BY ALL ORDER BY ALL");
    let expected = [0, 1, 2, 3].map(|i| ["left", "right"].map(|by| (i, by, i, 2)));
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let found =
        found.iter().map(|row| (number(row, "iteration"), row["answered_by"].as_str().unwrap(), number(row, "w"), number(row, "n")));
    assert_eq!(found.collect::<Vec<_>>(), expected.concat());
    let mut eval = flow();
    let scored = done(eval.arg("eval").arg(&out).arg("--panel").arg(&panel).env("CALLER_TASKS", "still"));
    assert!(scored.contains("(weights 3)") && scored.contains("1 episodes"), "{scored}");
}

/// A server may run the model that answers all other calls: the one that is called by its name learns from its own
/// rows.
#[test]
fn a_local_model_learns_beside_one_that_a_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let served = |yaml: String| {
        let line = |key: &str| yaml.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
        let yaml = yaml.replace(&line("  left: {"), "  left: { openai: 'http://127.0.0.1:9/v1', model: big }");
        let yaml = yaml.replace(&line("  update: {"), "").replace("weights: { after: update }, ", "");
        yaml.replace("advantage, update]", "advantage]")
    };
    let check =
        |edit: &dyn Fn(String) -> String| flow().arg("check").arg(two(folder.path(), edit)).env("CALLER_TASKS", "one").output().unwrap();
    let output = check(&served);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let alone = |yaml| served(yaml).replace(", by_name: [right]", "").replace(", right: { after: update_right, staleness: 1 }", "");
    assert!(text(&check(&alone).stderr).contains("those are written by `left`, not in the tokens of `right`"));
}

/// What can't be answered by name, and rows of several models that one model would read.
#[test]
fn what_cannot_be_called_by_name_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let check = |from: &str, to: &str| {
        let file = two(folder.path(), |yaml| {
            assert!(yaml.contains(from), "{yaml}");
            yaml.replace(from, to)
        });
        fails(flow().arg("check").arg(&file).env("CALLER_TASKS", "one"))
    };
    let own = "by_name: [right]";
    for (from, to, words) in [
        (own, "by_name: [wrong]", "there is no model `wrong`"),
        (own, "by_name: [right, left]", "`left` answers the calls of `rollout` already"),
        (own, "by_name: [right], branches: {}", "`branches` chooses among answers of one model"),
        (", right: { after: update_right, staleness: 1 }", "", "`right` is trained, and `rollout` has no input for its weights"),
        ("right: { after: update_right, staleness: 1 }", "right: { after: update }", "and `update` doesn't train it"),
        ("tokens: bytes", "tokens: bytes, head: value", "`right` has a value head and writes nothing"),
        (
            "  group: { op: group, inputs: rollout",
            "  reward: { op: reward, inputs: rollout, with: { kl: 0.1, model: left } }\n  group: { op: group, inputs: reward",
            "several models write the rows of `rollout`, each in its own tokens, and `reward` reads them with `left`",
        ),
    ] {
        let message = check(from, to);
        assert!(message.contains(words), "{to}: {message}");
    }
    let encoder = check("new: tiny, tokens: bytes, layers: 1, width: 16, heads: 2, kv_heads: 1", "encode: models/none");
    assert!(encoder.contains("`right` is an encoder, which only reads, so `rollout` can't use it as `by_name`"), "{encoder}");
}
