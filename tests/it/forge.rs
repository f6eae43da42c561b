//! Runs that were changed and given new checksums: what a stranger's run may be.

use crate::common::*;
use arrow::array::{AsArray, BooleanArray, Float32Array, RecordBatch, UInt32Array};
use arrow::compute::filter_record_batch;
use flow_core::row;
use flow_log::{read_iteration, write_part, Committer, Manifest, Run, Status};
use std::path::Path;
use std::sync::Arc;

/// A change of a run: of its pipeline's text, of its manifest, of the rows of its nodes.
struct Forgery {
    yaml: fn(String) -> String,
    manifest: fn(&mut Manifest),
    rows: fn(&str, RecordBatch) -> RecordBatch,
}

const HONEST: Forgery = Forgery { yaml: |yaml| yaml, manifest: |_| (), rows: |_, rows| rows };

/// A copy of the run `from`, changed, with all checksums made anew.
fn forged(from: &Path, to: &Path, forgery: &Forgery) {
    let old = Run::open(from).unwrap();
    let mut manifest = old.manifest().unwrap();
    (forgery.manifest)(&mut manifest);
    let yaml = (forgery.yaml)(std::fs::read_to_string(old.pipeline()).unwrap());
    let new = Run::create(to, &yaml, &manifest.info).unwrap();
    let mut committer = Committer::new(new.clone()).unwrap();
    let real = old.manifest().unwrap();
    for committed in manifest.committed {
        let i = committed.iteration;
        let all = |id: &str| row::sorted(&read_iteration(&old, &real, id, i).unwrap()).unwrap();
        let rows_of = |id: &str| Some((forgery.rows)(id, all(id)?)).filter(|rows| rows.num_rows() > 0);
        let nodes = manifest.info.nodes.iter().filter_map(|node| Some((node.id.as_str(), rows_of(&node.id)?)));
        let parts = nodes.map(|(id, rows)| write_part(&new, id, i, 0, &rows).unwrap()).collect();
        committer.commit(i, parts, committed.metrics, committed.weights).unwrap();
    }
    committer.note_start(manifest.start).unwrap();
    committer.finish(Status::Finished).unwrap();
    // A committer removes weights that no commit names yet.
    for folder in ["weights", "vocabularies"] {
        done(std::process::Command::new("cp").arg("-r").arg(from.join(folder)).arg(to.join(folder)));
    }
}

/// The rows without these columns.
fn without(rows: RecordBatch, columns: &[&str]) -> RecordBatch {
    let keep: Vec<usize> = (0..rows.num_columns()).filter(|i| !columns.contains(&rows.schema().field(*i).name().as_str())).collect();
    rows.project(&keep).unwrap()
}

/// The rows, and the same ones as a second sample.
fn once_more(rows: &RecordBatch) -> RecordBatch {
    let second = row::with(rows, "sample", Arc::new(UInt32Array::from(vec![1; rows.num_rows()]))).unwrap();
    row::sorted(&[rows.clone(), second]).unwrap().unwrap()
}

/// Sets a metric in every iteration that has it.
fn set(manifest: &mut Manifest, node: &str, name: &str, value: f64) {
    let metrics = manifest.committed.iter_mut().filter_map(|committed| committed.metrics.get_mut(node));
    metrics.filter_map(|metrics| metrics.get_mut(name)).for_each(|metric| *metric = value);
}

/// Each forgery with what `flow verify` says of it, and whether `flow bundle` refuses it: what has to be computed again it
/// can't know.
const FORGERIES: [(&str, bool, Forgery); 25] = [
    (
        "the metric `success` of `rollout` isn't what its rows give, in iterations 0, 1, 2\n",
        true,
        Forgery { manifest: |m| set(m, "rollout", "success", 0.99), ..HONEST },
    ),
    ("the metric `return` of `rollout`", true, Forgery { manifest: |m| set(m, "rollout", "return", 7.5), ..HONEST }),
    ("the metric `success` of `rollout`", true, Forgery { manifest: |m| set(m, "rollout", "success", f64::NAN), ..HONEST }),
    ("the metric `success` of `evaluate`", true, Forgery { manifest: |m| set(m, "evaluate", "success", 0.99), ..HONEST }),
    ("loss of update in 3 iterations", false, Forgery { manifest: |m| set(m, "update", "loss", 0.01), ..HONEST }),
    ("metrics", true, Forgery { manifest: |m| m.committed.iter_mut().for_each(|i| i.metrics.clear()), ..HONEST }),
    (
        "won of update in 1 iterations",
        false,
        Forgery {
            manifest: |m| {
                m.committed[1].metrics.get_mut("update").unwrap().insert("won".into(), 1.0);
            },
            ..HONEST
        },
    ),
    (
        "there are metrics of `judge`, and the pipeline has no such node",
        true,
        Forgery { manifest: |m| drop(m.committed[0].metrics.insert("judge".into(), [("score".into(), 1.0)].into())), ..HONEST },
    ),
    (
        "advantage isn't logged",
        true,
        Forgery { rows: |id, rows| if id == "advantage" { without(rows, &["advantage"]) } else { rows }, ..HONEST },
    ),
    (
        "logit_grad isn't logged",
        true,
        Forgery { rows: |id, rows| if id == "update" { without(rows, &["logit_grad"]) } else { rows }, ..HONEST },
    ),
    (
        "`update` has other columns than it was computed with: without `phase`",
        true,
        Forgery { rows: |id, rows| if id == "update" { without(rows, &["phase"]) } else { rows }, ..HONEST },
    ),
    (
        "the table `advantage` has a column `derived_worth`, which its node doesn't log",
        true,
        Forgery {
            rows: |id, rows| match id {
                "advantage" => {
                    let worth = Arc::new(Float32Array::from(vec![1.0; rows.num_rows()]));
                    row::with(&rows, "derived_worth", worth).unwrap()
                }
                _ => rows,
            },
            ..HONEST
        },
    ),
    (
        "the pipeline logs `update`, and the run has no such table",
        true,
        Forgery { manifest: |m| m.info.nodes.retain(|node| node.id != "update"), ..HONEST },
    ),
    (
        "the pipeline logs `states`, and the run has no such table",
        true,
        Forgery { manifest: |m| m.info.nodes.retain(|node| node.id == "rollout"), ..HONEST },
    ),
    (
        "`actor` was trained, and no iteration names its weights",
        true,
        Forgery { manifest: |m| m.committed.iter_mut().for_each(|i| i.weights.clear()), ..HONEST },
    ),
    (
        "`rollout` has played tasks that the pipeline's seed and settings don't draw in iterations 0, 1, 2",
        true,
        Forgery { yaml: |yaml| yaml.replace("seed: 5", "seed: 6"), manifest: |m| m.info.seed = 6, ..HONEST },
    ),
    (
        "`rollout` has played tasks that the pipeline's seed and settings don't draw",
        true,
        Forgery { yaml: |yaml| yaml.replace("mines: 2", "mines: 3"), ..HONEST },
    ),
    ("`rollout` has a turn", true, Forgery { yaml: |yaml| yaml.replace("max_turns: 5", "max_turns: 1"), ..HONEST }),
    (
        "`rollout` lacks episodes of tasks that it was given in iterations 0, 1, 2",
        true,
        Forgery {
            rows: |id, rows| match id {
                "evaluate" => rows,
                _ => {
                    let samples = rows.column_by_name("sample").unwrap().as_primitive::<arrow::datatypes::UInt32Type>().clone();
                    let tasks = rows.column_by_name("task").unwrap().as_string::<i32>().clone();
                    let first = tasks.value(0).to_owned();
                    let keep =
                        BooleanArray::from_iter((0..rows.num_rows()).map(|i| Some(tasks.value(i) != first || samples.value(i) != 1)));
                    filter_record_batch(&rows, &keep).unwrap()
                }
            },
            ..HONEST
        },
    ),
    (
        "`evaluate` lacks episodes of tasks that it was given in iterations 0, 3\n",
        true,
        Forgery { rows: |id, rows| if id == "evaluate" { rows.slice(0, rows.num_rows() / 2) } else { rows }, ..HONEST },
    ),
    (
        "`evaluate` lacks episodes of tasks that it was given in iteration 3\n",
        true,
        Forgery { manifest: |m| m.committed.retain(|i| i.iteration < 3), ..HONEST },
    ),
    (
        "the metric `turns` of `evaluate`",
        true,
        Forgery { rows: |id, rows| if id == "evaluate" { rows.slice(0, 0) } else { rows }, ..HONEST },
    ),
    (
        "`evaluate` has a sample beyond its 1 in",
        true,
        Forgery { rows: |id, rows| if id == "evaluate" { once_more(&rows) } else { rows }, ..HONEST },
    ),
    (
        "`rollout` has a sample beyond its 2 in iterations 0, 1, 2",
        true,
        Forgery { yaml: |yaml| yaml.replace("samples: 4", "samples: 2"), ..HONEST },
    ),
    (
        "`rollout` has a metric `solved`, which a node of its kind doesn't have, in iteration 1",
        true,
        Forgery {
            manifest: |m| {
                m.committed[1].metrics.get_mut("rollout").unwrap().insert("solved".into(), 1.0);
            },
            ..HONEST
        },
    ),
];

#[test]
fn a_forged_run_with_new_checksums_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", &crate::replay::rich(), &[]);
    let honest = folder.path().join("honest");
    forged(&run, &honest, &HONEST);
    let said = done(flow().arg("verify").arg(&honest));
    assert!(said.contains("every digit agrees") && said.contains("taken as logged: the rows of rollout, evaluate; "), "{said}");
    assert!(said.contains("; at which temperature rows were sampled; "), "{said}");
    done(flow().arg("bundle").arg(&honest).arg("--out").arg(folder.path().join("honest.tar")));
    let mut accepted = Vec::new();
    for (i, (says, refuses, forgery)) in FORGERIES.iter().enumerate() {
        let (changed, bundle) = (folder.path().join(format!("forged-{i}")), folder.path().join(format!("forged-{i}.tar")));
        forged(&run, &changed, forgery);
        let output = flow().arg("verify").arg(&changed).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        if output.status.code() != Some(1) || !said.contains(says) || said.contains("\nevery digit agrees") {
            accepted.push(format!("{i}, {says}: verify says {said}"));
        }
        let output = flow().arg("bundle").arg(&changed).arg("--out").arg(&bundle).output().unwrap();
        if output.status.success() == *refuses {
            accepted.push(format!("{i}, {says}: bundle says {}", text(&output.stderr)));
        }
    }
    assert!(accepted.is_empty(), "{}", accepted.join("\n\n"));
}
