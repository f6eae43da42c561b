//! What a run leaves on disk: what readers see of it, and what they say when it is damaged.

use crate::logged::{rollout, run};
use flow_core::row;
use flow_log::{query, read, write_part, Committer, LogError, Metrics, NodeInfo, Run, RunInfo, SavedWeights, Status};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn rows_come_back_sorted_and_whole_on_any_number_of_workers() {
    let whole = row::sorted(&[rollout(0, 0, 3), rollout(0, 1, 3)]).unwrap().unwrap();
    for workers in [1, 2] {
        let (_folder, run) = run();
        let mut committer = Committer::new(run.clone()).unwrap();
        let mut parts = Vec::new();
        let (start, size) = (|w| w * whole.num_rows() / workers, whole.num_rows() / workers);
        for worker in (0..workers).rev() {
            parts.push(write_part(&run, "rollout", 0, worker, &whole.slice(start(worker), size)).unwrap());
        }
        committer.commit(0, parts, Metrics::new(), vec![]).unwrap();
        assert_eq!(read(&run, "rollout").unwrap(), std::slice::from_ref(&whole));
        let workers_seen: Vec<usize> = run.manifest().unwrap().committed[0].parts.iter().map(|p| p.worker).collect();
        assert_eq!(workers_seen, (0..workers).collect::<Vec<_>>());
    }
}

#[test]
fn only_committed_rows_are_there() {
    let (_folder, run) = run();
    let rows = rollout(0, 0, 1);
    let mut committer = Committer::new(run.clone()).unwrap();
    let part = write_part(&run, "rollout", 0, 0, &rows).unwrap();
    assert!(read(&run, "rollout").unwrap().is_empty());
    let weights = SavedWeights { node: "update".into(), model: "actor".into(), version: 1, path: "weights/1".into(), files: vec![] };
    committer.commit(0, vec![part.clone()], Metrics::new(), vec![weights.clone()]).unwrap();
    assert_eq!(read(&run, "rollout").unwrap(), [rows]);
    // What a kill leaves: a part without its commit, a temporary part, a temporary manifest.
    write_part(&run, "rollout", 1, 0, &rollout(1, 0, 1)).unwrap();
    let folder = run.root().join("log/rollout/1");
    fs::write(folder.join("part-1.parquet.tmp"), "PAR1 half a fi").unwrap();
    fs::write(run.root().join("manifest.json.tmp"), "{").unwrap();
    assert_eq!(read(&Run::open(run.root()).unwrap(), "rollout").unwrap().len(), 1);
    // And the run goes on from there.
    let manifest = run.manifest().unwrap();
    assert_eq!((manifest.next(), &manifest.committed[0].weights, &manifest.committed[0].parts), (1, &vec![weights], &vec![part]));
    let mut committer = Committer::new(run.clone()).unwrap();
    assert!(!folder.exists() && run.root().join("log/rollout/0/part-0.parquet").exists());
    let again = write_part(&run, "rollout", 1, 0, &rollout(1, 0, 1)).unwrap();
    assert!(matches!(committer.commit(0, vec![], Metrics::new(), vec![]), Err(LogError::Order { iteration: 0, last: 0 })));
    committer.commit(1, vec![again], Metrics::new(), vec![]).unwrap();
    committer.finish(Status::Failed("out of memory".into())).unwrap();
    assert_eq!(read(&run, "rollout").unwrap().len(), 2);
    assert_eq!(run.manifest().unwrap().status, Status::Failed("out of memory".into()));
}

#[test]
fn a_folder_with_something_in_it_is_no_new_run() {
    let (_folder, run) = run();
    let message = Run::create(run.root(), "", &RunInfo::default()).unwrap_err();
    assert!(matches!(&message, LogError::Exists(path) if path == run.root()), "{message}");
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(Run::open(empty.path()), Err(LogError::NotARun(_))));
    assert!(Run::create(empty.path(), "", &RunInfo::default()).is_ok());
}

/// A run with two committed iterations of `rollout`.
fn two_iterations() -> (tempfile::TempDir, Run) {
    let (folder, run) = run();
    let mut committer = Committer::new(run.clone()).unwrap();
    for iteration in 0..2 {
        let part = write_part(&run, "rollout", iteration, 0, &rollout(iteration, 0, 1)).unwrap();
        committer.commit(iteration, vec![part], Metrics::new(), vec![]).unwrap();
    }
    (folder, run)
}

fn cut(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn damage_is_told_with_the_file_and_what_to_do() {
    let (_folder, run) = two_iterations();
    let part = run.root().join("log/rollout/1/part-0.parquet");
    let errors = |run: &Run| [read(run, "rollout").unwrap_err().to_string(), query(run, "FROM rollout").unwrap_err().to_string()];
    let whole = fs::read(&part).unwrap();
    cut(&part);
    for message in errors(&run) {
        assert!(message.contains("1/part-0.parquet is damaged") && message.contains("restore"), "{message}");
    }
    fs::write(&part, vec![0; whole.len()]).unwrap(); // as long as it was, and garbage
    for message in errors(&run) {
        assert!(message.contains("1/part-0.parquet") && !message.contains("there are:"), "{message}");
    }
    fs::remove_file(&part).unwrap();
    for message in errors(&run) {
        assert!(message.contains("1/part-0.parquet is missing"), "{message}");
    }
    assert!(matches!(read(&run, "rolout"), Err(LogError::Node { .. })));
    cut(&run.root().join("manifest.json"));
    for message in errors(&run) {
        assert!(message.contains("manifest.json can't be read as a manifest"), "{message}");
    }
    fs::remove_file(run.root().join("manifest.json")).unwrap();
    for message in errors(&run) {
        assert!(message.contains("isn't a run folder"), "{message}");
    }
}

#[test]
fn a_full_disk_is_told_and_loses_nothing_committed() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"]).arg(folder.path()).output();
    if !mounted.is_ok_and(|o| o.status.success()) {
        println!("skipped: mounting a small tmpfs needs root");
        return;
    }
    let nodes = vec![NodeInfo { id: "rollout".into(), op: "rollout".into(), ..Default::default() }];
    let run = Run::create(
        &folder.path().join("run"),
        "flow: test\n",
        &RunInfo { name: "test".into(), nodes, iterations: 99, seed: 7, ..Default::default() },
    )
    .unwrap();
    let mut committer = Committer::new(run.clone()).unwrap();
    let mut committed = 0;
    let failure = loop {
        let part = write_part(&run, "rollout", committed, 0, &rollout(committed, 0, 20));
        match part.and_then(|p| committer.commit(committed, vec![p], Metrics::new(), vec![])) {
            Ok(()) => committed += 1,
            Err(e) => break e,
        }
    };
    let observed = read(&run, "rollout").unwrap().len() as u64;
    let finished = committer.finish(Status::Failed(failure.to_string()));
    let again = read(&run, "rollout").unwrap().len() as u64;
    drop(committer);
    let unmounted = Command::new("umount").arg(folder.path()).status();
    assert!(matches!(failure, LogError::Full(_)), "{failure}");
    assert!(committed > 0 && observed == committed && again == committed, "{committed} {observed} {again} {finished:?}");
    assert!(unmounted.is_ok_and(|s| s.success()));
}

#[test]
fn thousands_of_commits_stay_cheap() {
    let (_folder, run) = run();
    let mut committer = Committer::new(run.clone()).unwrap();
    let part = write_part(&run, "rollout", 0, 0, &rollout(0, 0, 1)).unwrap();
    let start = std::time::Instant::now();
    for iteration in 0..2000 {
        // The same rows again and again, under the names that their iterations and workers would give them.
        let named = |worker| format!("log/rollout/{iteration}/part-{worker}.parquet");
        let parts = (0..6).map(|worker| flow_log::Part { worker, iteration, path: named(worker), ..part.clone() }).collect();
        let metrics = Metrics::from([("update".into(), (0..10).map(|m| (format!("metric_{m}"), 0.1)).collect())]);
        committer.commit(iteration, parts, metrics, vec![]).unwrap();
    }
    let each = start.elapsed() / 2000;
    println!("{each:?} a commit over 2,000 iterations");
    assert_eq!(run.manifest().unwrap().committed.len(), 2000);
    assert!(each.as_millis() < 50, "{each:?}");
}

#[test]
fn rows_take_a_twentieth_of_json_lines() {
    let (_folder, run) = run();
    let rows = rollout(0, 0, 64);
    let part = write_part(&run, "rollout", 0, 0, &rows).unwrap();
    let mut lines = Vec::new();
    arrow::json::LineDelimitedWriter::new(&mut lines).write(&rows).unwrap();
    let (a, b) = (part.bytes as f64 / part.rows as f64, lines.len() as f64 / part.rows as f64);
    println!("{a:.1} bytes a row, {b:.1} as JSON lines: 1/{:.1}", b / a);
    assert!(b / a >= 20.0, "{a:.1} bytes a row, {b:.1} as JSON lines");
}

/// The sums that the log has are read by whoever reads the log.
#[test]
fn no_flipped_bit_gives_another_answer() {
    let (_folder, run) = two_iterations();
    let sql = "SELECT sum(reward), count(*), sum(len(prompt_tokens)) FROM rollout";
    assert!(query(&run, sql).is_ok());
    let part = run.root().join("log/rollout/1/part-0.parquet");
    let whole = fs::read(&part).unwrap();
    let mut random = flow_core::seed::Random::new(5);
    for _ in 0..40 {
        let mut flipped = whole.clone();
        flipped[random.below(whole.len())] ^= 1 << random.below(8);
        fs::write(&part, flipped).unwrap();
        let message = query(&run, sql).unwrap_err().to_string();
        assert!(message.contains("part-0.parquet is damaged (its bytes have changed since it was committed)"), "{message}");
        assert!(query(&run, "SELECT count(*) FROM rollout WHERE iteration = 0").is_ok(), "what isn't asked needn't be whole");
    }
}
