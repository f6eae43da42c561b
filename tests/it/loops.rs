//! A loop of attempts: the same rows on any number of workers, resumed, replayed and evaluated; no trial waits for
//! another.

use crate::common::*;
use serde_json::Value;
use std::path::Path;

const ORDER: &str = "order by iteration, task, sample, attempt, turn";

/// All rows, and the last weights.
fn judged(run: &Path) -> (Vec<Value>, Vec<u8>) {
    (ask(run, &format!("select * from trajectories {ORDER}")), digest(run).1)
}

#[test]
fn attempts_are_the_same_on_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let base = trained(folder.path(), "one", LOOPED, &[]);
    let whole = judged(&base);
    for workers in ["2", "4"] {
        assert!(judged(&trained(folder.path(), workers, LOOPED, &["--workers", workers])) == whole, "{workers} workers");
    }

    let count = |sql: &str| ask(&base, &format!("select count(*) as n from trial where {sql}"))[0]["n"].as_u64().unwrap();
    assert!(count("attempt = 2 and phase = 'play'") > 0 && count("won") > 0);
    assert_eq!(count("phase = 'reflect' and attempt = 2"), 0, "nobody would read it");
    // Every failed attempt but the last is reflected on, and followed by another; a success by nothing.
    let ends = "select t.*, exists (select 1 from trial n where (n.iteration, n.task, n.sample) = (t.iteration, t.task, t.sample) and n.attempt = t.attempt + 1) as more,
        (select any_value(kept) from trial r where (r.iteration, r.task, r.sample, r.attempt) = (t.iteration, t.task, t.sample, t.attempt) and r.phase = 'reflect') as reflected,
        (select any_value(memory) from trial n where (n.iteration, n.task, n.sample) = (t.iteration, t.task, t.sample) and n.attempt = t.attempt + 1) as told
        from trial t where phase = 'play' and done";
    let rule = format!(
        "select count(*) as n from ({ends}) where more <> (not won and attempt < 2) or (more and (reflected is null or reflected <> told))"
    );
    assert_eq!(ask(&base, &rule)[0]["n"], 0);
    let memories = ask(&base, "select memory, mode, outcome from trial where attempt = 1 and turn = 0 and phase = 'play' limit 1");
    let memory = memories[0]["memory"].as_str().unwrap();
    assert!(memory.starts_with("Attempt 1: (") && memory.contains("\nRow 4: ") && memory.contains("\nAttempt 1, noted: "), "{memory}");
    assert_eq!((&memories[0]["mode"], &memories[0]["outcome"]), (&Value::from("memory"), &Value::from("")));
    // Reflections are trained, each by what follows it.
    let trained = ask(&base, "select count(*) as n from trial t join update u using (iteration, task, sample, attempt, turn, phase) where phase = 'reflect' and used = 'yes' and loss_share <> 0");
    assert!(trained[0]["n"].as_u64().unwrap() > 0);
    // pass@k are those of the rows.
    let pass = ask(&base, "select value from metrics where node = 'rollout' and iteration = 0 and name = 'pass@2'");
    let rows = ask(&base, "select count(distinct (task, sample)) filter (won and attempt < 2) / count(distinct (task, sample)) as share from trial where iteration = 0");
    assert_eq!(pass[0]["value"], rows[0]["share"]);
}

/// Turns are drawn at 0.5 and reflections at 2; with the weights that drew them both have a ratio of 1.
#[test]
fn every_row_is_learnt_from_at_its_own_temperature() {
    let folder = tempfile::tempdir().unwrap();
    let drawn = ["rollout.with.temperature=0.5", "reflect.with.temperature=2"].map(|set| format!("nodes.trial.nodes.{set}"));
    let sets: Vec<&str> = drawn.iter().flat_map(|set| ["--set", set]).chain(["--set", "iterations=1"]).collect();
    let ratios = |name: &str, more: &[&str]| {
        let run = trained(folder.path(), name, LOOPED, &[&sets, more].concat());
        ask(
            &run,
            "select phase, min(temperature) as coldest, max(temperature) as hottest, max(abs(ratio - 1)) as off
             from trial join update using (iteration, task, sample, attempt, turn, phase) where used = 'yes' group by phase order by phase",
        )
    };
    let own = ratios("own", &[]);
    for (row, (phase, temperature)) in own.iter().zip([("play", 0.5), ("reflect", 2.0)]) {
        assert_eq!((&row["phase"], &row["coldest"], &row["hottest"]), (&phase.into(), &temperature.into(), &temperature.into()));
        assert!(row["off"].as_f64().unwrap() < 1e-3, "{row}");
    }
    assert_eq!(own.len(), 2);
    let at_one = ratios("one", &["--set", "nodes.update.with.temperature=1"]);
    assert!(at_one.iter().all(|row| row["off"].as_f64().unwrap() > 0.01), "{at_one:?}");
}

#[test]
fn a_loop_is_resumed_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let whole = trained(folder.path(), "whole", &LOOPED.replace("iterations: 3", "iterations: 5"), &[]);
    let short = trained(folder.path(), "short", LOOPED, &[]);
    done(flow().arg("resume").arg(&short).args(["--iterations", "5"]));
    assert!(judged(&short) == judged(&whole));
    let again = folder.path().join("again");
    done(flow().arg("replay").arg(&whole).arg("--out").arg(&again).args(["--workers", "2"]));
    let credit = format!("select task, sample, attempt, turn, phase, advantage.*, update.* from advantage join update using (iteration, task, sample, attempt, turn, phase) {ORDER}");
    assert!(ask(&again, &credit) == ask(&whole, &credit));
    assert!(digest(&again).1 == digest(&whole).1);
}

/// A panel of the repository, as LOOPED's loop plays it.
fn evaluated(run: &Path, extra: &[&str]) -> Value {
    let mut command = flow();
    command.arg("eval").arg(run).args(["--panel", "datasets/minesweeper-4x4-m2-d64920f25f41.json", "--format", "json"]).args(extra);
    serde_json::from_str(&done(&mut command)).unwrap()
}

#[test]
fn an_evaluation_depends_on_nothing_but_what_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", LOOPED, &[]);
    let rows = folder.path().join("rows");
    let first = evaluated(&run, &["--samples", "2", "--out", rows.to_str().unwrap()]);
    let second = evaluated(&run, &["--samples", "2", "--workers", "2"]);
    assert_eq!(first, second);
    assert_eq!((&first["attempts"], &first["weights"], first["pass"].as_array().unwrap().len()), (&Value::from(3), &Value::from(3), 3));
    let share = |k: usize| first["pass"][k - 1]["share"].as_f64().unwrap();
    assert!(0.0 < share(1) && share(1) <= share(2) && share(2) <= share(3) && share(3) <= 1.0, "{first}");
    // The rows say the same, and a single trial a task has the first trial's rows.
    let n = first["tasks"].as_f64().unwrap() * 2.0;
    let won = ask(
        &rows,
        "select count(distinct (task, sample)) filter (won) as all, count(distinct task) filter (won and sample = 0) as first from trial",
    );
    assert_eq!(share(3), won[0]["all"].as_f64().unwrap() / n);
    let single = evaluated(&run, &["--samples", "1"]);
    assert_eq!(single["pass"][2]["share"].as_f64().unwrap(), won[0]["first"].as_f64().unwrap() * 2.0 / n);
    // One attempt, and a plain rollout of as many.
    let once = evaluated(&run, &["--samples", "2", "--attempts", "1"]);
    assert_eq!(once["pass"][0], first["pass"][0]);
    let plain = trained(folder.path(), "plain", SMALL, &[]);
    assert_eq!(evaluated(&plain, &[])["attempts"], 1);
    assert_eq!(evaluated(&plain, &["--attempts", "2"])["attempts"], 2);
    let message = fails(flow().arg("eval").arg(run.join("weights")).args(["--panel", "datasets/minesweeper-4x4-m2-d64920f25f41.json"]));
    assert!(message.contains("is no run") && message.contains("--like"), "{message}");
}

/// What `evaluate` measures while a run trains is what `flow eval` measures of its weights afterwards.
#[test]
fn an_evaluation_on_the_way_is_the_one_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let panel = "datasets/minesweeper-4x4-m2-d64920f25f41.json";
    let evaluate = format!(
        "  evaluate:\n    op: evaluate\n    inputs: {{ weights: {{ after: update }} }}\n    with: {{ agent: {{ model: actor, max_turns: 4 }}, panel: {panel}, \
         every: 3, attempts: 3, reflect: {{ agent: {{ model: actor, answer: [], max_tokens: 5 }} }} }}\nlog: [evaluate, "
    );
    let yaml = LOOPED.replace("log: [", &evaluate).replace(", budget: 120", "");
    let run = trained(folder.path(), "run", &yaml, &["--workers", "2"]);
    let after = evaluated(&run, &[]);
    for k in 1..=3 {
        let sql = format!("select value from metrics where node = 'evaluate' and iteration = 3 and name = 'pass@{k}'");
        assert_eq!(ask(&run, &sql)[0]["value"], after["pass"][k - 1]["share"], "pass@{k}");
    }
    assert!(after["pass"][2]["share"].as_f64() > after["pass"][0]["share"].as_f64(), "{after}");
}

#[test]
fn a_panel_is_frozen_once_and_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let freeze = |extra: &[&str]| {
        let mut command = flow();
        command.args(["panel", "sokoban", "size=6", "boxes=1", "moves=2", "--count", "5", "--out"]).arg(folder.path()).args(extra);
        done(&mut command)
    };
    let output = freeze(&[]);
    assert!(output.contains("5 tasks") && output.contains("sokoban-size6-boxes1-moves2-"), "{output}");
    assert_eq!(freeze(&[]), output, "its name is its content");
    assert_ne!(freeze(&["--label", "other"]), output);
    let output = fails(flow().args(["panel", "sokoban", "boxes=9"]));
    assert!(output.contains("boxes is 9"), "{output}");
    assert!(fails(flow().args(["panel", "chess"])).contains("flow ops tasks"));
    assert!(fails(flow().args(["panel", "sokoban", "mines=3"])).contains("mines"));
}

/// A loop of two attempts whose nodes have these agents, on fields so small that most attempts fail.
fn with_answers(player: &str, writer: &str, rest: &str) -> String {
    format!(
        "flow: answers\niterations: 2\nseed: 3\nmodels:\n  actor: {{ new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }}\n\
         agents:\n  player: {{ model: actor, max_turns: 2, decode: free, max_tokens: 12{player} }}\n  writer: {{ model: actor, max_tokens: 8{writer} }}\n\
         nodes:\n  tasks: {{ op: tasks, with: {{ env: minesweeper, size: 3, mines: 2, batch: 4 }} }}\n{rest}"
    )
}

const TRIAL: &str = "  trial:
    loop: { attempts: 2 }
    nodes:
      rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update }, memory: { after: reflect } }, with: { agent: player, samples: 2 } }
      reflect: { op: reflect, inputs: rollout, with: { agent: writer, on: always } }
    output: [rollout, reflect]
  group: { op: group, inputs: trial, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [trial, advantage, update]
";

/// The agents of a loop need not write the same parts: each part is a column, empty in the rows of the agent that lacks
/// it.
#[test]
fn agents_of_a_loop_may_have_different_parts() {
    let folder = tempfile::tempdir().unwrap();
    let think = ", answer: [{ tag: think }, { tag: action, required: true }]";
    let cases = [
        (think, "", vec!["answer_think"]),
        (", answer: [{ tag: action, required: true }]", ", answer: [{ tag: remark, required: true }]", vec!["answer_remark"]),
        (think, ", answer: [{ tag: tip, required: true }]", vec!["answer_think", "answer_tip"]),
        (think, ", answer: [{ tag: tip, required: true }, { tag: think }]", vec!["answer_think", "answer_tip"]),
    ];
    for (i, (player, writer, parts)) in cases.into_iter().enumerate() {
        let yaml = with_answers(player, writer, TRIAL);
        let one = trained(folder.path(), &format!("one-{i}"), &yaml, &[]);
        let two = trained(folder.path(), &format!("two-{i}"), &yaml, &["--workers", "2"]);
        assert_eq!(judged(&one), judged(&two), "{player} {writer}");
        let columns: Vec<String> = ask(&one, "select column_name from (describe trial) where column_name like 'answer_%' order by all")
            .iter()
            .map(|row| row["column_name"].as_str().unwrap().into())
            .collect();
        assert_eq!(columns, parts);
    }
    // What the player wrote stands in its own rows alone.
    let run = folder.path().join("one-2");
    let strays =
        "select count(*) as n from trial where (phase = 'play' and answer_tip <> '') or (phase = 'reflect' and answer_think <> '')";
    assert_eq!(ask(&run, strays)[0]["n"], 0);
}

/// An evaluation of several attempts plays with the agents of a loop, whatever the parts of their answers.
#[test]
fn an_evaluation_has_the_parts_of_both_its_agents() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = folder.path().join("panels");
    done(flow().args(["panel", "minesweeper", "size=3", "mines=2", "split=test", "--count", "3", "--out"]).arg(&frozen));
    let panel = std::fs::read_dir(&frozen).unwrap().next().unwrap().unwrap().path();
    let measured = TRIAL.replace(
        "log: [trial,",
        &format!(
            "  held_out: {{ op: evaluate, inputs: {{ weights: {{ after: update }} }}, with: {{ agent: player, panel: {}, attempts: 2, reflect: {{ agent: writer, on: always }} }} }}\nlog: [held_out, trial,",
            panel.display()
        ),
    );
    let yaml = with_answers(", answer: [{ tag: think }, { tag: action, required: true }]", "", &measured);
    let run = trained(folder.path(), "run", &yaml, &[]);
    assert!(ask(&run, "select count(*) as n from held_out where phase = 'reflect' and answer_think = ''")[0]["n"].as_u64() > Some(0));
    // `flow eval` measures the same loop.
    done(flow().arg("eval").arg(&run).arg("--panel").arg(&panel));
}

/// A model that nothing trains acts with version 0 beside one that is trained: as a writer in a loop and in an
/// evaluation, and as a player.
#[test]
fn a_frozen_model_acts_beside_a_trained_one() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = |yaml: &str| {
        yaml.replace("models:\n", "models:\n  other: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }\n")
            .replace("writer: { model: actor", "writer: { model: other")
    };
    let yaml = frozen(&with_answers(", answer: [{ tag: think }, { tag: action, required: true }]", "", TRIAL));
    let runs = ["1", "2"].map(|workers| trained(folder.path(), &format!("on-{workers}"), &yaml, &["--workers", workers]));
    assert_eq!(judged(&runs[0]), judged(&runs[1]));
    let versions = ask(&runs[0], "select distinct phase, iteration, weights from trial order by all");
    let expected = [("play", 0, 0), ("play", 1, 1), ("reflect", 0, 0), ("reflect", 1, 0)];
    let expected: Vec<Value> = expected.iter().map(|(p, i, w)| serde_json::json!({ "phase": p, "iteration": i, "weights": w })).collect();
    assert_eq!(versions, expected);
    // A writer that is trained has versions of its own, and the player's say nothing about them.
    let both = yaml.replace("log: [trial,", "  second: { op: gpu-update, inputs: advantage, with: { model: other } }\nlog: [trial,");
    let message = fails(flow().arg("check").arg(pipeline(folder.path(), &both)));
    assert!(message.contains("`reflect` reflects with `other`, which is trained, on episodes of `actor`"), "{message}");
    let crossed = yaml.replace("player: { model: actor", "player: { model: other");
    let crossed = crossed.replace("log: [trial,", "  second: { op: gpu-update, inputs: advantage, with: { model: other } }\nlog: [trial,");
    let message = fails(flow().arg("check").arg(pipeline(folder.path(), &crossed)));
    assert!(message.contains("`rollout` acts with `other`, and `update` trains `actor`"), "{message}");
}
