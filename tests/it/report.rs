//! `flow report`: what the pages show is what the log says, and it says what it couldn't write.

use crate::common::*;

use arrow::array::{ArrayRef, BooleanArray, Float32Array, StringArray, UInt32Array, UInt64Array};
use flow_core::row;
use flow_log::{write_part, Committer, Metrics, NodeInfo, Run, RunInfo};
use flow_pipeline::Role;
use serde_json::{json, Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All answers that the pages of these runs have, by their questions.
pub fn answers(runs: &[&Path], out: &Path) -> Map<String, Value> {
    let output = done(flow().arg("report").args(runs).arg("--out").arg(out).args(["--format", "json"]));
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((&output["file"], &output["runs"]), (&json!(out.join("index.html").display().to_string()), &json!(runs.len())));
    let mut all = Map::new();
    for entry in std::fs::read_dir(out.join("data")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let Some(answers) = text.strip_prefix("Object.assign(window.FLOW_ANSWERS ||= {}, ") else { continue };
        all.extend(serde_json::from_str::<Map<String, Value>>(answers.strip_suffix(");").unwrap()).unwrap());
    }
    let index = std::fs::read_to_string(out.join("data/index.js")).unwrap();
    let index: Map<String, Value> =
        serde_json::from_str(index.strip_prefix("window.FLOW_FILES = ").unwrap().trim_end_matches(';')).unwrap();
    assert!(index.keys().eq(all.keys()), "each answer is found by its question");
    let page = std::fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("default-src 'none'; script-src 'self' file:;"), "{page}");
    all
}

fn close(a: &Value, b: f64) -> bool {
    a.as_f64().is_some_and(|a| (a - b).abs() <= 1e-6 * b.abs().max(1e-3))
}

#[test]
fn figures_are_those_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let runs: Vec<PathBuf> =
        ["5", "6", "7"].iter().map(|seed| trained(folder.path(), seed, SMALL, &["--set", &format!("seed={seed}")])).collect();
    let all = answers(&runs.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &folder.path().join("pages"));
    assert_eq!(all["runs"]["experiments"], json!([{ "label": "small", "runs": [0, 1, 2] }]));
    for (node, name) in [("rollout", "success"), ("update", "entropy"), ("update", "grad_norm"), ("states", "group_size")] {
        let sql = format!("SELECT value FROM metrics WHERE node = '{node}' AND name = '{name}' ORDER BY iteration");
        let values: Vec<Vec<f64>> =
            runs.iter().map(|run| ask(run, &sql).iter().map(|row| row["value"].as_f64().unwrap()).collect()).collect();
        for (number, values) in values.iter().enumerate() {
            let points = all[&format!("runs/{number}/curve&node={node}&name={name}")]["points"].as_array().unwrap();
            assert!(points.len() == 3 && points.iter().zip(values).all(|(point, value)| close(&point[1], *value)), "{name}: {points:?}");
        }
        let band = all[&format!("runs/0/band&runs=0,1,2&node={node}&name={name}")]["points"].as_array().unwrap();
        for (i, point) in band.iter().enumerate() {
            assert!(close(&point[1], (values[0][i] + values[1][i] + values[2][i]) / 3.0), "{name}: {point}");
            assert!(point[4].as_f64() <= point[1].as_f64() && point[1].as_f64() <= point[5].as_f64(), "{name}: {point}");
        }
    }
    // Every episode of the last iteration, row by row.
    let rows = ask(&runs[0], "SELECT task, sample, count(*) AS rows FROM trajectories WHERE iteration = 2 GROUP BY ALL");
    for row in &rows {
        let question =
            format!("runs/0/episode&iteration=2&table=trajectories&task={}&sample={}", row["task"].as_str().unwrap(), row["sample"]);
        assert_eq!(all[&question]["rows"].as_array().unwrap().len() as u64, row["rows"].as_u64().unwrap());
    }
    assert_eq!(rows.len(), 24);
}

/// Over a hundred iterations, and a memory that keeps entries of each.
const OLD: &str = r#"
flow: old
iterations: 105
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 1 } }
  rollout: { op: rollout, inputs: tasks, with: { agent: { model: actor, max_turns: 2 }, samples: 2 } }
  memory: { op: memory-update, inputs: rollout, with: { entries: turns, capacity: 12, evict: lowest } }
log: [rollout, memory]
"#;

#[test]
fn a_memory_has_its_entries_however_old_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "old", OLD, &[]);
    let all = answers(&[&run], &folder.path().join("pages"));
    let page = &all["runs/0/memory&node=memory&iteration=104"]["entries"];
    let entries = ask(&run, "SELECT id, min(iteration) AS since FROM memory GROUP BY id HAVING sum(change) > 0");
    let since = |row: &Value| row["since"].as_u64().unwrap();
    assert!(entries.iter().any(|row| since(row) == 0) && entries.iter().any(|row| since(row) == 104) && entries.len() < 500);
    let expected: BTreeSet<(String, u64)> = entries.iter().map(|row| (row["id"].to_string(), since(row))).collect();
    let column = |name: &str| page["columns"].as_array().unwrap().iter().position(|column| column == name).unwrap();
    let shown = page["rows"].as_array().unwrap().iter();
    let shown: BTreeSet<(String, u64)> =
        shown.map(|row| (row[column("id")].as_str().unwrap().to_owned(), row[column("since")].as_u64().unwrap())).collect();
    assert_eq!(shown, expected);
}

/// A panel of three tasks, two samples each: (task, sample, the attempt that was won). Lost attempts end with -1 and a
/// reflection.
const TRIALS: [(&str, u32, Option<u32>); 6] =
    [("a", 0, Some(0)), ("a", 1, Some(1)), ("b", 0, None), ("b", 1, Some(2)), ("c", 0, Some(1)), ("c", 1, None)];

/// A log of such a panel, measured at iteration 4, as a run would have left it.
fn attempts(folder: &Path) -> PathBuf {
    let mut rows: Vec<(&str, u32, u32, u32, &str, f32, bool)> = Vec::new();
    for (task, sample, won) in TRIALS {
        for attempt in 0..=won.unwrap_or(2) {
            let wins = won == Some(attempt);
            rows.push((task, sample, attempt, 0, "play", if wins { 10.0 } else { -1.0 }, wins));
            if !wins {
                rows.push((task, sample, attempt, 1, "reflect", 0.0, false));
            }
        }
    }
    let n = rows.len();
    let u32s = |f: &dyn Fn(usize) -> u32| Arc::new(UInt32Array::from_iter_values((0..n).map(f))) as ArrayRef;
    let f32s = |f: &dyn Fn(usize) -> f32| Arc::new(Float32Array::from_iter_values((0..n).map(f))) as ArrayRef;
    let texts = |f: &dyn Fn(usize) -> String| Arc::new(StringArray::from_iter_values((0..n).map(f))) as ArrayRef;
    let bools = |f: &dyn Fn(usize) -> bool| Arc::new(BooleanArray::from_iter((0..n).map(|i| Some(f(i))))) as ArrayRef;
    let columns = vec![
        ("iteration", Arc::new(UInt64Array::from(vec![4; n])) as ArrayRef),
        ("task", texts(&|i| rows[i].0.into())),
        ("sample", u32s(&|i| rows[i].1)),
        ("attempt", u32s(&|i| rows[i].2)),
        ("turn", u32s(&|i| rows[i].3)),
        ("phase", texts(&|i| rows[i].4.into())),
        ("observation", texts(&|_| "</script><script>alert(1)</script>{{style}}".into())),
        ("state", Arc::new(UInt64Array::from(vec![1; n])) as ArrayRef),
        ("response", texts(&|i| format!("<remark>{i} & more</remark>"))),
        ("action", texts(&|_| "up".into())),
        ("valid", bools(&|_| true)),
        ("reward", f32s(&|i| rows[i].5)),
        ("done", bools(&|_| true)),
        ("won", bools(&|i| rows[i].6)),
        ("score", f32s(&|i| rows[i].5)),
    ];
    let columns_of = columns.iter().map(|c| c.0.to_string()).collect();
    let node = NodeInfo { id: "panel".into(), op: "evaluate".into(), role: Some(Role::Measures), columns: columns_of, upstream: vec![] };
    let info = RunInfo { name: "trials".into(), nodes: vec![node], iterations: 4, seed: 1, ..Default::default() };
    let folder = folder.join("trials");
    let run = Run::create(&folder, "flow: trials\nnodes:\n  panel: { op: evaluate }\n", &info).unwrap();
    let mut committer = Committer::new(run.clone()).unwrap();
    let part = write_part(&run, "panel", 4, 0, &row::batch(columns).unwrap()).unwrap();
    // Four of six trials were won.
    let metrics = Metrics::from([("panel".into(), [("success".to_string(), 4.0 / 6.0), ("seconds".into(), 0.25)].into())]);
    committer.commit(4, vec![part], metrics, vec![]).unwrap();
    folder
}

#[test]
fn several_attempts_have_a_pass_rate_each() {
    let folder = tempfile::tempdir().unwrap();
    let run = attempts(folder.path());
    let all = answers(&[&run], &folder.path().join("pages"));
    let pass = all["runs/0/panel&node=panel&iteration=4"]["pass"].as_array().unwrap();
    for (i, won) in [1.0, 3.0, 4.0].into_iter().enumerate() {
        let [k, value, low, high] = [0, 1, 2, 3].map(|part| pass[i][part].as_f64().unwrap());
        assert!(k == i as f64 + 1.0 && (value - won / 6.0).abs() < 1e-9 && low <= value && value <= high, "{:?}", pass[i]);
    }
    // Tasks with 1, 0 and 0 of 2 won at once: draws lie between 0 and 1/2.
    assert_eq!((&pass[0][2], &pass[0][3]), (&json!(0.0), &json!(0.5)));
}

#[test]
fn what_cannot_be_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let message = fails(flow().arg("report").arg(folder.path()));
    assert!(message.starts_with("error: ") && message.contains("isn't a run folder"), "{message}");
    let empty = folder.path().join("empty");
    Run::create(&empty, "flow: empty\n", &RunInfo { name: "empty".into(), ..Default::default() }).unwrap();
    assert!(fails(flow().arg("report").arg(&empty)).contains("has no committed iteration yet"));
    let run = attempts(folder.path());
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("thesis.tex"), "precious").unwrap();
    let message = fails(flow().arg("report").arg(&run).arg("--out").arg(&taken));
    assert!(message.contains("has something in it") && message.contains("--out DIR"), "{message}");
    // Without a place the pages lie in the run's folder, and are written anew there; this run has no groups, and the
    // answer says so.
    for _ in 0..2 {
        let message = done(flow().arg("report").arg(&run));
        assert!(
            message.starts_with("1 run: ") && message.contains("not written: groups: this run has no table `trajectories`"),
            "{message}"
        );
        assert!(message.contains("open it in a browser") && run.join("report/index.html").exists(), "{message}");
    }
}
