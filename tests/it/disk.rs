//! A disk that is full in the middle of a run: one message, a log that is whole as far as it goes, and a resumed run
//! that ends as if there had always been room. A limit on the size of files stands for the disk: what can't be written
//! is then known to the byte.

use crate::common::*;
use std::path::Path;
use std::process::{Command, Output};

/// Starts the binary where no file may grow beyond `bytes`.
fn limited(bytes: u64, arguments: &[&str]) -> Output {
    // Without the trap the system would end the process, which a full disk doesn't do.
    let script = r#"trap '' XFSZ; ulimit -f "$0"; exec "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, &(bytes / 512).to_string(), env!("CARGO_BIN_EXE_flow")]).args(arguments);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("OMP_NUM_THREADS", "1").output().unwrap()
}

fn yaml(iterations: u64, batch: u64) -> String {
    SMALL
        .replace("iterations: 3", &format!("iterations: {iterations}"))
        .replace("batch: 6", &format!("batch: {batch}"))
        .replace("new: tiny, layers: 1, width: 32", "new: tiny, tokens: bytes, layers: 1, width: 8")
}

/// The largest file below `folder` whose name ends so.
fn largest(folder: &Path, end: &str) -> u64 {
    let sizes = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).map(|path| match path.is_dir() {
        true => largest(&path, end),
        false if path.to_str().unwrap().ends_with(end) => path.metadata().unwrap().len(),
        false => 0,
    });
    sizes.max().unwrap_or(0)
}

/// Runs into the limit, then on without it; `word` must be in what it says. Gives how many iterations were committed by
/// then.
fn runs_into(folder: &Path, name: &str, yaml: &str, limit: u64, word: &str, whole: &(String, Vec<u8>)) -> u64 {
    let out = folder.join(name);
    let path = pipeline(folder, yaml);
    let output = limited(limit, &["run", path.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{name}: {message}");
    assert_eq!(message.lines().filter(|l| l.starts_with("error")).count(), 1, "{name}: one message: {message}");
    assert!(message.contains("the disk is full") && message.contains(word) && !message.contains("panicked"), "{name}: {message}");
    let count = "select count(distinct iteration) from rollout";
    let count = || done(flow().arg("query").arg(&out).arg(count).args(["--format", "csv"])).lines().nth(1).unwrap().parse::<u64>().unwrap();
    let before = count();
    let again = limited(limit, &["resume", out.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1), "{name}: the disk is as full as before: {}", text(&again.stderr));
    // The iteration before the one that found no room may have been on its way to its commit: it may be there now.
    let after = count();
    assert!((before..=before + 1).contains(&after), "{name}: nothing is lost, and nothing gained: {before}, then {after}");
    done(flow().arg("resume").arg(&out));
    assert!(digest(&out) == *whole, "{name}: resumed after {before} iterations it ends otherwise");
    before
}

#[test]
fn a_full_disk_costs_only_what_was_not_committed() {
    let folder = tempfile::tempdir().unwrap();
    let many = yaml(60, 2);
    let run = trained(folder.path(), "many", &many, &[]);
    let (whole, journal) = (digest(&run), largest(&run, ".jsonl"));
    let weights = largest(&run, ".safetensors");
    let others = [".parquet", "manifest.json"].map(|name| largest(&run, name)).into_iter().max().unwrap_or(0).max(weights);
    assert!(others < journal / 2, "the journal is what runs into the limit: {others} and {journal}");
    let before = runs_into(folder.path(), "journal", &many, journal / 2, ".jsonl", &whole);
    assert!((15..45).contains(&before), "{before}");
    let before = runs_into(folder.path(), "weights", &many, weights / 2, ".safetensors", &whole);
    assert_eq!(before, 0);

    let wide = yaml(6, 150);
    let run = trained(folder.path(), "wide", &wide, &[]);
    let (whole, limit) = (digest(&run), largest(&run, ".parquet") - 512);
    assert!(weights < limit - 512 && largest(&run, ".jsonl") < limit - 512, "a part is what runs into the limit");
    let before = runs_into(folder.path(), "part", &wide, limit, "log/rollout/", &whole);
    assert!(before < 6);
}
