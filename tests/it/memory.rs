//! A memory is the same whoever keeps it, and its every version can be asked for.

use crate::common::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Every change of the memory, every count of a state, and what makes two runs the same run.
fn results(run: &Path) -> (String, String, (String, Vec<u8>)) {
    let changes = answer(run, "select * exclude (embedding) from memory order by iteration, id, change", "json");
    let counts = answer(run, "select * exclude (embedding) from novelty order by iteration, task, sample, turn", "json");
    (changes, counts, digest(run))
}

fn resumed(run: &Path) {
    done(flow().arg("resume").arg(run));
}

/// A run that was killed once so many files were there.
fn killed(folder: &Path, after: u64) -> PathBuf {
    let out = folder.join(format!("killed-{after}"));
    let mut command = flow();
    command.arg("run").arg(pipeline(folder, REMEMBERING)).arg("--out").arg(&out).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !out.join(format!("log/update/{after}")).exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    let ended = child.wait().unwrap();
    assert_eq!(ended.signal(), Some(9), "the run had ended before it was killed after {after} iterations");
    out
}

#[test]
fn a_memory_is_the_same_on_any_number_of_workers_after_a_kill_and_in_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "one", REMEMBERING, &["--workers", "1"]);
    let whole = results(&run);
    assert!(whole.0.lines().count() > 20, "{}", whole.0);
    for workers in ["2", "4"] {
        let other = results(&trained(folder.path(), workers, REMEMBERING, &["--workers", workers]));
        assert!(other.0 == whole.0, "the memory on {workers} workers: {}\nand not {}", other.0, whole.0);
        assert!(other == whole, "on {workers} workers");
    }
    for after in [1, 3, 4] {
        let run = killed(folder.path(), after);
        resumed(&run);
        let other = results(&run);
        assert!(other.0 == whole.0, "the memory of a run that was killed after {after}: {}\nand not {}", other.0, whole.0);
        assert!(other == whole, "killed after {after}");
    }
    let replay = folder.path().join("replay");
    done(flow().arg("replay").arg(&run).arg("--out").arg(&replay).args(["--workers", "2"]));
    assert!(results(&replay) == whole, "in a replay");
    let output = done(flow().arg("diff").arg(&run).arg(&replay));
    assert!(output.contains(" are equal: ") && output.lines().count() == 1, "{output}");
}

#[test]
fn every_version_of_a_memory_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", REMEMBERING, &[]);
    let changes = ask(&run, "select * from memory order by iteration");
    let mut there: BTreeMap<u64, Value> = BTreeMap::new();
    let mut left = 0;
    for iteration in 0..6u64 {
        for change in changes.iter().filter(|change| change["iteration"] == iteration) {
            let id = change["id"].as_u64().unwrap();
            if change["change"] == 1 {
                assert!(there.insert(id, change["text"].clone()).is_none());
            } else {
                assert!(there.remove(&id).is_some());
                left += 1;
            }
        }
        let rows = ask(&run, &format!("select id, text, node from memory_at({iteration}) order by id"));
        assert!(rows.iter().all(|entry| entry["node"] == "memory"));
        let rows: BTreeMap<u64, Value> = rows.into_iter().map(|entry| (entry["id"].as_u64().unwrap(), entry["text"].clone())).collect();
        assert_eq!(rows, there, "after iteration {iteration}");
    }
    assert!(left > 0 && !there.is_empty());
    // An entry comes from a reflection, and says of which.
    let from = "select count(*) as n, sum((m.text = trim(r.action) and m.score = r.score and m.key = r.observation)::int) as same \
                from memory m join reflect r on (m.source, m.task, m.sample, m.turn) = (r.iteration, r.task, r.sample, r.turn) where m.change > 0";
    let row = &ask(&run, from)[0];
    assert_eq!(row["n"], row["same"]);
    assert_eq!(row["n"].as_u64().unwrap(), changes.iter().filter(|change| change["change"] == 1).count() as u64);
    // A turn was given what was there after the iteration before: entries of its task, at most three, and said so.
    let retrieved = "select r.iteration, unnest(retrieved) as id, r.task from rollout r where len(retrieved) > 0";
    let wrong = format!(
        "with given as ({retrieved}) select count(*) as all_given, count(*) filter (where m.id is null) as wrong from given g left join memory m \
         on m.id = g.id and m.task = g.task and m.change > 0 and m.iteration < g.iteration"
    );
    let row = &ask(&run, &wrong)[0];
    assert!(row["all_given"].as_u64().unwrap() > 10 && row["wrong"] == 0, "{row}");
    let odd = "select count(*) as n from rollout where len(retrieved) > 3 or (mode = 'plain' and len(retrieved) > 0) or (len(retrieved) > 0) <> (len(bare_tokens) > 0)";
    assert_eq!(ask(&run, odd)[0]["n"], 0);
    // In `trajectories` turns are as the rollout logged them, though reflections are rows of another node with the same
    // columns.
    let played = "select count(*) as n, count(*) filter (t.won = r.won and t.mode = r.mode and t.response = r.response) as same \
                  from rollout r join trajectories t using (iteration, task, sample, attempt, turn, phase)";
    let row = &ask(&run, played)[0];
    assert!(row["n"] == row["same"] && row["n"].as_u64().unwrap() > 0, "{row}");
    // An iteration is played with the memory or without it, as a whole, and learnt from in one way.
    let modes = ask(&run, "select distinct iteration, mode from rollout");
    assert_eq!(modes.len(), 6);
    let tips = ask(&run, "select distinct tips from update order by all");
    assert!(tips.len() >= 2 && ask(&run, "select distinct iteration, tips from update where tips <> 'none'").len() <= 6, "{tips:?}");
}

#[test]
fn a_trajectory_is_shown_with_what_it_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", REMEMBERING, &[]);
    let episode =
        &ask(&run, "select iteration, task, sample, retrieved[1] as id from rollout where len(retrieved) > 0 order by all limit 1")[0];
    let tip = &ask(&run, &format!("select text, source, sample, score from memory where change > 0 and id = {}", episode["id"]))[0];
    let output = done(
        flow()
            .arg("show")
            .arg(&run)
            .args(["--iteration", &episode["iteration"].to_string(), "--task", episode["task"].as_str().unwrap()])
            .args(["--sample", &episode["sample"].to_string()]),
    );
    // Its text may hold what no terminal is shown.
    let expected = format!(" (from iteration {}, sample {}, which came to ", tip["source"], tip["sample"]);
    assert!(output.contains("  told    ") && output.contains(&expected), "{expected} is not in\n{output}");
}

/// What is measured with a memory: `evaluate` in the run, and `flow eval` of it afterwards, of memories whose entries
/// fit any board.
const MEASURED: &str = r#"
  panel:
    op: evaluate
    inputs: { weights: { after: update }, memory: { after: memory } }
    with: { agent: { model: actor, max_turns: 3, context: [{ memory: memory, above: 0.2, most: 3 }] }, panel: PANEL, every: 3 }
log: [panel, "#;

#[test]
fn a_panel_is_played_with_a_memory_that_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let panel = "datasets/minesweeper-4x4-m2-d64920f25f41.json";
    let all = REMEMBERING.replace("capacity: 4,", "capacity: 4, per: all,");
    let plain = trained(folder.path(), "plain", &all, &[]);
    let run = trained(folder.path(), "run", &all.replace("log: [", &MEASURED[1..].replace("PANEL", panel)), &[]);
    // Nobody is told anything before there is something; then all are, by what was there after the iteration before.
    let rows = ask(&run, "select iteration, count(*) filter (where len(retrieved) > 0) as told, count(*) as n, min(mode) as mode from panel group by all order by all");
    assert_eq!(rows.iter().map(|row| row["iteration"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 3, 6]);
    assert!(rows.iter().all(|row| row["mode"] == "memory") && rows[0]["told"] == 0, "{rows:?}");
    assert!(rows[1..].iter().all(|row| row["told"].as_u64().unwrap() * 2 > row["n"].as_u64().unwrap()), "{rows:?}");
    let late = "with given as (select iteration, unnest(retrieved) as id from panel) select count(*) as n from given g \
                where not exists (select * from memory m where m.id = g.id and m.change > 0 and m.iteration < g.iteration)";
    assert_eq!(ask(&run, late)[0]["n"], 0);
    // Measuring changes nothing.
    let (whole, measured) = (results(&plain), results(&run));
    assert!(whole.0 == measured.0 && whole.1 == measured.1, "the memory is another one where it is read by a panel");

    // The same afterwards, with the run's last weights and memory: the rows of iteration 6.
    let out = folder.path().join("played");
    let eval =
        |extra: &[&str]| done(flow().arg("eval").arg(&run).args(["--panel", panel, "--format", "json", "--node", "rollout"]).args(extra));
    let with = eval(&["--memory", run.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let same = "select task, turn, retrieved, action, reward from ";
    let (played, panel_rows) =
        (ask(&out, &format!("{same} rollout order by all")), ask(&run, &format!("{same} panel where iteration = 6 order by all")));
    assert!(!played.is_empty() && played == panel_rows, "{with}");
    let shown = ask(&out, "select count(*) as n from rollout r join memory m on m.change > 0 and list_contains(r.retrieved, m.id)");
    assert!(shown[0]["n"].as_u64().unwrap() > 0, "what was told can be asked for");
    let without: Value = serde_json::from_str(&eval(&[])).unwrap();
    assert_eq!(without["tasks"], serde_json::from_str::<Value>(&with).unwrap()["tasks"]);

    let attempts =
        fails(flow().arg("eval").arg(&run).args(["--panel", panel, "--node", "rollout", "--attempts", "2", "--memory"]).arg(&run));
    assert!(attempts.contains("leave out `--attempts` or `--memory`"), "{attempts}");
}

/// A reflection is told what is remembered of ends like its own, and says so; a memory by clusters, and after a kill.
#[test]
fn a_reflection_is_told_what_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = REMEMBERING
        .replace(
            "inputs: rollout, with: { agent: { model: actor,",
            "inputs: { rows: rollout, memory: { after: memory } }, with: { agent: { model: actor, context: [{ memory: memory, above: 0.2, most: 2 }],",
        )
        .replace("capacity: 4,", "capacity: 4, per: cluster, at_least: 0.5,");
    let run = trained(folder.path(), "run", &yaml, &["--workers", "1"]);
    let query =
        "with given as (select iteration, unnest(retrieved) as id from reflect) select count(*) as n, count(*) filter (where exists \
                 (select * from memory m where m.id = g.id and m.change > 0 and m.iteration < g.iteration)) as there from given g";
    let row = &ask(&run, query)[0];
    assert!(row["n"].as_u64().unwrap() > 10 && row["n"] == row["there"], "{row}");
    let longer = "select count(*) filter (where len(prompt_tokens) <= len(bare_tokens)) as n from reflect where len(retrieved) > 0";
    assert_eq!(ask(&run, longer)[0]["n"], 0);
    // A bucket is named after an entry, and holds those of several tasks.
    let buckets =
        "select count(*) as buckets, max(tasks) as shared from (select bucket, count(distinct task) as tasks from memory group by bucket)";
    let buckets = &ask(&run, buckets)[0];
    assert!(buckets["buckets"].as_u64().unwrap() > 1 && buckets["shared"].as_u64().unwrap() > 1, "{buckets}");
    let whole = results(&run);
    assert!(results(&trained(folder.path(), "four", &yaml, &["--workers", "4"])) == whole, "on 4 workers");
    let out = folder.path().join("stopped");
    done(flow().arg("run").arg(pipeline(folder.path(), &yaml)).arg("--out").arg(&out).args(["--set", "iterations=3"]));
    done(flow().arg("resume").arg(&out).args(["--iterations", "6"]));
    let other = results(&out);
    assert!(other.0 == whole.0 && other.1 == whole.1, "stopped after 3 and gone on: {}\nand not {}", other.0, whole.0);
}
