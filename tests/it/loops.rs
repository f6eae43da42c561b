//! A loop of attempts: the same rows on any number of workers, resumed, replayed and evaluated; no trial waits for another.

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
