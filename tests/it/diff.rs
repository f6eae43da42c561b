//! Two runs side by side: joined by the rows' names, whatever the order they were written in.

use crate::common::*;
use arrow::array::{ArrayRef, Float32Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::compute::take_record_batch;
use flow_core::row;
use flow_log::{Committer, Metrics, NodeInfo, Run, RunInfo};
use std::path::Path;
use std::sync::Arc;

fn diff_text(a: &Path, b: &Path, extra: &[&str]) -> String {
    done(flow().arg("diff").arg(a).arg(b).args(extra))
}

/// A run of one iteration whose node `advantage` holds these advantages, in parts of their own and in this order.
fn run(folder: &Path, name: &str, rows: &[(usize, f32, &str)]) -> Run {
    run_without(folder, name, rows, &[], false)
}

/// The same, whose node `rollout` lacks some columns; with `twice` each part is committed once more under another name.
fn run_without(folder: &Path, name: &str, rows: &[(usize, f32, &str)], lacking: &[&str], twice: bool) -> Run {
    let node = |id: &str, op: &str| NodeInfo { id: id.into(), op: op.into(), ..Default::default() };
    let nodes = vec![node("rollout", "rollout"), node("advantage", "advantage")];
    let info = RunInfo { name: name.into(), nodes, iterations: 1, seed: 7, ..Default::default() };
    let run = Run::create(&folder.join(name), &format!("flow: {name}\n"), &info).unwrap();
    let all = crate::logged::rollout(0, 0, 2);
    let pick = |which: usize| take_record_batch(&all, &UInt32Array::from(vec![which as u32])).unwrap();
    let credit = |which: usize, advantage: f32, used: &str| -> RecordBatch {
        let keys = pick(which).project(&[0, 1, 2, 3, 4, 5]).unwrap();
        let keys = row::with(&keys, "baseline", Arc::new(Float32Array::from(vec![advantage / 2.0]))).unwrap();
        let keys = row::with(&keys, "advantage", Arc::new(Float32Array::from(vec![advantage]))).unwrap();
        row::with(&keys, "used", Arc::new(StringArray::from(vec![used]))).unwrap()
    };
    let narrow = |row: RecordBatch| {
        let columns: Vec<usize> = (0..row.num_columns()).filter(|i| !lacking.contains(&row.schema().field(*i).name().as_str())).collect();
        row.project(&columns).unwrap()
    };
    let mut committer = Committer::new(run.clone()).unwrap();
    let mut parts = Vec::new();
    for (worker, (which, advantage, used)) in rows.iter().enumerate() {
        parts.push(flow_log::write_part(&run, "rollout", 0, worker, &narrow(pick(*which))).unwrap());
        parts.push(flow_log::write_part(&run, "advantage", 0, worker, &credit(*which, *advantage, used)).unwrap());
    }
    for mut part in parts.clone().into_iter().filter(|_| twice) {
        let path = part.path.replace("part-", "part-1");
        // Before its commit the file has another name.
        let written = part.path.replace("part-", ".part-").replace(".parquet", ".pending");
        std::fs::copy(run.root().join(written), run.root().join(&path)).unwrap();
        part.path = path;
        parts.push(part);
    }
    committer.commit(0, parts, Metrics::new(), vec![]).unwrap();
    run
}

/// Worked by hand: rows 0 to 5, of which 4 is only in a and 5 only in b.
#[test]
fn advantages_are_compared_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let a = run(folder.path(), "a", &[(0, 1.0, "yes"), (1, -1.0, "yes"), (2, 0.0, "yes"), (3, 0.5, "yes"), (4, 9.0, "yes")]);
    let b = run(folder.path(), "b", &[(5, 9.0, "yes"), (3, 0.5, "yes"), (2, 0.25, "yes"), (1, 2.0, "yes"), (0, 0.0, "singleton")]);
    let differences = flow_log::diff(&a, &b, None, 10).unwrap();
    assert_eq!(differences.rows, flow_log::RowCounts { both: 4, only_a: 1, only_b: 1 });
    assert_eq!(differences.other_turns, Some(0));
    let nodes: Vec<(&str, Vec<(&str, u64)>)> =
        differences.nodes.iter().map(|n| (n.node.as_str(), n.differ.iter().map(|(c, n)| (c.as_str(), *n)).collect())).collect();
    assert_eq!(nodes, [("rollout", vec![]), ("advantage", vec![("advantage", 3), ("baseline", 3), ("used", 1)])]);
    let credit = differences.credit.unwrap();
    assert_eq!((credit.rows, credit.moved, credit.turned, credit.to_zero, credit.from_zero), (4, 3, 1, 1, 1));
    // Moves -1, 3 and 0.25; of (1, -1, 0, 0.5) and (0, 2, 0.25, 0.5) the means are 0.125 and 0.6875.
    assert_eq!((credit.mean_move, credit.max_move), (Some(4.25 / 3.0), Some(3.0)));
    let covariance = 0.875 * -0.6875 + -1.125 * 1.3125 + -0.125 * -0.4375 + 0.375 * -0.1875;
    let (of_a, of_b) = (0.875f64.powi(2) + 1.125f64.powi(2) + 0.125f64.powi(2) + 0.375f64.powi(2), {
        0.6875f64.powi(2) + 1.3125f64.powi(2) + 0.4375f64.powi(2) + 0.1875f64.powi(2)
    });
    assert!((credit.correlation.unwrap() - covariance / (of_a * of_b).sqrt()).abs() < 1e-12);
    let moves = |rows: &[serde_json::Value]| rows.iter().map(|r| r["move"].as_f64().unwrap()).collect::<Vec<_>>();
    assert_eq!((moves(&credit.up), moves(&credit.down)), (vec![3.0, 0.25], vec![-1.0]));
    assert_eq!((credit.up[0]["baseline_a"].as_f64(), credit.up[0]["baseline_b"].as_f64()), (Some(-0.5), Some(1.0)));
    let used = differences.used.unwrap();
    assert_eq!((used.changed, used.kinds.clone()), (1, vec![serde_json::json!({ "a": "yes", "b": "singleton", "rows": 1 })]));
    assert_eq!(flow_log::diff(&a, &b, None, 1).unwrap().credit.unwrap().up.len(), 1);
    // The other way round, everything is mirrored.
    let back = flow_log::diff(&b, &a, Some("advantage"), 10).unwrap().credit.unwrap();
    assert_eq!((moves(&back.up), moves(&back.down)), (vec![1.0], vec![-3.0, -0.25]));
    let message = flow_log::diff(&a, &b, Some("rollout"), 1).unwrap_err().to_string();
    assert!(message.contains("`rollout` is no node with `advantage` in both runs; there are: advantage"), "{message}");
    let message = diff_text(a.root(), b.root(), &[]);
    assert!(message.contains("rows: 4 in both, 1 only in a, 1 only in b") && message.contains("yes -> singleton: 1 rows"), "{message}");
}

#[test]
fn the_order_and_the_workers_make_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let a = run(folder.path(), "a", &[(0, 1.0, "yes"), (1, -1.0, "yes"), (2, 0.0, "yes")]);
    let b = run(folder.path(), "b", &[(2, 0.0, "yes"), (0, 1.0, "yes"), (1, -1.0, "yes")]);
    let output = diff_text(a.root(), b.root(), &[]);
    assert!(output.contains("are equal: 3 rows, the same in every column of `rollout`, `advantage`\n"), "{output}");
    assert!(output.contains("their settings differ\n  flow: a -> b"), "{output}");
    let first = trained(folder.path(), "one", SMALL, &[]);
    let four = trained(folder.path(), "four", SMALL, &["--workers", "4"]);
    let output = diff_text(&first, &four, &[]);
    assert!(output.contains("are equal") && output.contains("and so are the final weights") && output.lines().count() == 1, "{output}");
    let json: serde_json::Value = serde_json::from_str(&diff_text(&first, &four, &["--format", "json"])).unwrap();
    assert_eq!((&json["equal"], &json["credit"]["moved"], &json["weights"][0]["a"]), (&true.into(), &0.into(), &3.into()));
}

#[test]
fn other_runs_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let base = trained(folder.path(), "one", SMALL, &[]);
    let seed = trained(folder.path(), "seed", SMALL, &["--set", "seed=6"]);
    let output = diff_text(&base, &seed, &[]);
    assert!(output.contains("have no row in common") && output.contains("these settings differ\n  seed: 5 -> 6"), "{output}");
    // The same tasks played by other weights: the names are those of the first run's rows, the turns aren't.
    let lr = trained(folder.path(), "lr", SMALL, &["--set", "nodes.update.with.lr=0.03"]);
    let output = diff_text(&base, &lr, &[]);
    assert!(output.contains("other turns of the same name") && output.contains("nodes.update.with.lr: 0.001 -> 0.03"), "{output}");
    assert!(output.contains("final weights of `actor`: differ (version 3 and version 3)"), "{output}");
    let output = fails(flow().arg("diff").arg(&base).arg(&lr).args(["--node", "rollout"]));
    assert!(output.contains("there are: advantage"), "{output}");
    assert!(fails(flow().arg("diff").arg(&base).arg(folder.path())).contains("isn't a run folder"));
    // Nothing outside the runs can be read through a name, and nothing is written.
    let output = fails(flow().arg("diff").arg(&base).arg(&lr).args(["--node", "x\"; COPY a TO 'b' --"]));
    assert!(output.contains("is no node"), "{output}");
}

/// A run in which one table lacks a column, and rows that aren't what was committed: neither is called equal.
#[test]
fn what_lacks_a_column_or_was_changed_is_not_called_equal() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [(0, 1.0, "yes"), (1, -1.0, "yes")];
    let (a, b) = (run(folder.path(), "a", &rows), run(folder.path(), "b", &rows));
    assert!(diff_text(a.root(), b.root(), &[]).contains("are equal"));
    let c = run_without(folder.path(), "c", &rows, &["reward"], false);
    let output = diff_text(a.root(), c.root(), &[]);
    assert!(!output.contains("are equal") && output.contains("only a logged reward"), "{output}");
    // A byte of a value: the file is as long as before.
    let file = b.root().join("log/advantage/0/part-1.parquet");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let output = fails(flow().arg("diff").arg(a.root()).arg(b.root()));
    assert!(output.contains("part-1.parquet is damaged (its bytes have changed since it was committed)"), "{output}");
    // The same file under a second name.
    let d = run_without(folder.path(), "d", &rows, &[], true);
    for sides in [[a.root(), d.root()], [d.root(), a.root()], [d.root(), d.root()]] {
        let output = fails(flow().arg("diff").args(sides));
        assert!(output.contains("has rows of one name twice") && output.contains(&d.root().display().to_string()), "{output}");
    }
}

/// Two failed episodes against two, of which one has another cause; the text of an error is no difference.
#[test]
fn failed_episodes_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let failed = |name: &str, causes: [&str; 2], error: &str| {
        let run = run(folder.path(), name, &[(0, 1.0, "yes")]);
        let text = |text: [&str; 2]| Arc::new(StringArray::from(text.to_vec())) as ArrayRef;
        let columns = row::ERRORS.map(|column| match column {
            "iteration" => (column, Arc::new(UInt64Array::from(vec![1, 1])) as ArrayRef),
            "cause" => (column, text(causes)),
            "task" | "phase" | "node" => (column, text(["same"; 2])),
            "error" => (column, text([error; 2])),
            _ => (column, Arc::new(UInt32Array::from(vec![3, 3])) as ArrayRef),
        });
        let mut committer = Committer::new(run.clone()).unwrap();
        let part = flow_log::write_part(&run, "errors", 1, 0, &row::batch(columns.into()).unwrap()).unwrap();
        committer.commit(1, vec![part], Metrics::new(), vec![]).unwrap();
        run
    };
    let (a, b) = (failed("a", ["crash", "crash"], "after 1 s"), failed("b", ["crash", "timeout"], "after 1 s"));
    let other_text = failed("c", ["crash", "crash"], "after 2 s");
    assert_eq!(flow_log::diff(&a, &b, None, 1).unwrap().errors, Some(flow_log::RowCounts { both: 1, only_a: 1, only_b: 1 }));
    let output = diff_text(a.root(), b.root(), &[]);
    assert!(output.contains("failed episodes (table `errors`): 1 in both, 1 only in a, 1 only in b\n"), "{output}");
    assert!(diff_text(a.root(), other_text.root(), &[]).contains("are equal: 1 rows"));
}
