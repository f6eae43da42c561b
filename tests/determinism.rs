//! The same pipeline and seed give the same rows, advantages and weights, bit for bit, on any number of workers.

mod common;
use common::*;
use std::path::{Path, PathBuf};

/// The weights a run left behind.
fn weights(run: &Path) -> Vec<u8> {
    let mut found: Vec<PathBuf> = vec![run.join("weights")];
    while let Some(path) = found.pop() {
        if path.is_dir() {
            found.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        } else if path.ends_with("model.safetensors") {
            return std::fs::read(path).unwrap();
        }
    }
    panic!("no weights in {run:?}");
}

#[test]
fn workers_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let query = "select * from trajectories order by iteration, task, sample, turn";
    let rows = |run: &Path| done(flow().arg("query").arg(run).arg(query).args(["--format", "json"]));
    let one = trained(folder.path(), "one", SMALL, &["--workers", "1"]);
    let (first_rows, first_weights) = (rows(&one), weights(&one));
    assert!(first_rows.lines().count() > 100, "a run this small still has more than a hundred turns");
    for workers in ["2", "4"] {
        let run = trained(folder.path(), workers, SMALL, &["--workers", workers]);
        assert!(rows(&run) == first_rows, "rows differ on {workers} workers");
        assert!(weights(&run) == first_weights, "weights differ on {workers} workers");
    }
}

#[test]
fn another_seed_is_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let one = trained(folder.path(), "one", SMALL, &[]);
    let two = trained(folder.path(), "two", SMALL, &["--set", "seed=6"]);
    assert!(weights(&one) != weights(&two));
}
