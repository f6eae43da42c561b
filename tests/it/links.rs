//! A run's folder may come from elsewhere: symbolic links in it lead nobody to write or delete outside of it.

use crate::common::*;
use crate::logged::{rollout, run};
use flow_log::{numbers, read, write_part, Committer, Metrics, Run, Status};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A run of one committed iteration.
fn committed() -> (tempfile::TempDir, Run) {
    let (folder, run) = run();
    let mut committer = Committer::new(run.clone()).unwrap();
    let part = write_part(&run, "rollout", 0, 0, &rollout(0, 0, 1)).unwrap();
    committer.commit(0, vec![part], Metrics::new(), vec![]).unwrap();
    committer.finish(Status::Stopped).unwrap();
    (folder, run)
}

/// What `log/<node>/*/*.parquet` names, and whatever else a program may read that takes a whole folder but for names
/// that begin with a dot.
fn seen_by_others(run: &Run) -> Vec<PathBuf> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect::<Vec<_>>();
    let shown = |path: &PathBuf| !path.file_name().unwrap().to_string_lossy().starts_with('.');
    let mut all: Vec<PathBuf> = entries(&run.log().join("rollout")).iter().flat_map(|folder| entries(folder)).filter(shown).collect();
    all.sort();
    all
}

#[test]
fn a_sweep_removes_nothing_through_a_link_and_nothing_that_no_run_writes() {
    for place in ["log/evil", "log/rollout/90", "log/rollout/0/deep", "log/rollout/evil", "weights", "journal/evil", "lent"] {
        let (folder, run) = committed();
        let outside = folder.path().join("outside");
        for file in ["b.txt", "90/part-0.parquet", "part-0.parquet", "0/1/part-0.parquet", "7/model/model.safetensors"] {
            fs::create_dir_all(outside.join(file).parent().unwrap()).unwrap();
            fs::write(outside.join(file), "precious").unwrap();
        }
        fs::create_dir_all(run.root().join(place).parent().unwrap()).unwrap();
        symlink(&outside, run.root().join(place)).unwrap();
        fs::write(run.log().join("rollout/0/notes.txt"), "mine").unwrap();
        let mut committer = Committer::new(run.clone()).unwrap();
        let part = write_part(&run, "rollout", 1, 0, &rollout(1, 0, 1)).unwrap();
        committer.commit(1, vec![part], Metrics::new(), vec![]).unwrap();
        committer.finish(Status::Finished).unwrap();
        for file in ["b.txt", "90/part-0.parquet", "part-0.parquet", "0/1/part-0.parquet", "7/model/model.safetensors"] {
            assert_eq!(fs::read_to_string(outside.join(file)).unwrap(), "precious", "{place}: {file}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 5, "{place}");
        assert!(run.log().join("rollout/0/notes.txt").exists(), "{place}");
    }
}

/// Vocabularies are saved inside the run alone.
#[test]
fn no_vocabulary_is_saved_through_a_link() {
    for place in ["vocabularies", "vocabularies/actor"] {
        let folder = tempfile::tempdir().unwrap();
        let run = trained(folder.path(), "run", SMALL, &["--set", "iterations=1"]);
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::remove_dir_all(run.join(place)).unwrap();
        symlink(if place == "vocabularies" { outside.clone() } else { folder.path().join("nowhere") }, run.join(place)).unwrap();
        let said = fails(flow().arg("resume").arg(&run).args(["--iterations", "2"]));
        assert!(said.contains(&format!("{place} is a symbolic link")), "{place}: {said}");
        assert!(fs::read_dir(&outside).unwrap().next().is_none() && !folder.path().join("nowhere").exists(), "{place}");
    }
}

/// Weights are saved inside the run alone.
#[test]
fn no_weights_are_saved_through_a_link() {
    for place in ["weights", "weights/3", "weights/3/actor"] {
        let (folder, run) = committed();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        assert!(run.to_save(3, "actor").is_ok());
        fs::create_dir_all(run.root().join(place).parent().unwrap()).unwrap();
        symlink(&outside, run.root().join(place)).unwrap();
        let message = run.to_save(3, "actor").unwrap_err().to_string();
        assert!(message.contains(place) && message.contains("is a symbolic link"), "{message}");
    }
}

/// Rows of an iteration whose folder leads elsewhere aren't written there.
#[test]
fn rows_are_written_inside_the_run_alone() {
    for place in ["log/rollout/1", "log/advantage"] {
        let (folder, run) = committed();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        symlink(&outside, run.root().join(place)).unwrap();
        let node = place.split('/').nth(1).unwrap();
        let message = write_part(&run, node, 1, 0, &rollout(1, 0, 1)).unwrap_err().to_string();
        assert!(message.contains(place) && message.contains("is a symbolic link"), "{message}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }
}

#[test]
fn links_to_files_are_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &[]);
    let target = folder.path().join("precious");
    let linked = |name: &str| {
        fs::write(&target, "precious").unwrap();
        let _ = fs::remove_file(run.join(name));
        symlink(&target, run.join(name)).unwrap();
    };
    linked("lock");
    let message = fails(flow().arg("resume").arg(&run).args(["--iterations", "4"]));
    assert!(message.contains("lock is a symbolic link"), "{message}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    fs::remove_file(run.join("lock")).unwrap();
    for name in ["manifest.json.tmp", "status.json.tmp"] {
        linked(name);
    }
    done(flow().arg("resume").arg(&run).args(["--iterations", "4"]));
    linked("report");
    assert!(fails(flow().arg("report").arg(&run)).contains("symbolic link"));
    fs::remove_file(run.join("report")).unwrap();
    done(flow().arg("report").arg(&run));
    linked("report/index.html");
    done(flow().arg("report").arg(&run));
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert!(!run.join("report/index.html").is_symlink());
}

#[test]
fn other_programs_see_an_iteration_once_it_is_committed() {
    let (_folder, run) = committed();
    let mut committer = Committer::new(run.clone()).unwrap();
    let part = write_part(&run, "rollout", 1, 0, &rollout(1, 0, 1)).unwrap();
    let (first, second) = (run.log().join("rollout/0/part-0.parquet"), run.log().join("rollout/1/part-0.parquet"));
    assert_eq!(seen_by_others(&run), std::slice::from_ref(&first));
    committer.commit(1, vec![part], Metrics::new(), vec![]).unwrap();
    assert_eq!(seen_by_others(&run), [first.clone(), second.clone()]);
    // A kill between the commit and the rename: our readers find the rows, and a resumed run gives the file its name.
    drop(committer);
    fs::rename(&second, run.log().join("rollout/1/.part-0.pending")).unwrap();
    assert_eq!(read(&run, "rollout").unwrap().len(), 2);
    let counts = numbers(&run, &["select count(*) from rollout where iteration = 1"]).unwrap();
    assert_eq!(counts[0].as_ref().unwrap(), &(rollout(1, 0, 1).num_rows() as f64));
    drop(Committer::new(run.clone()).unwrap());
    assert_eq!(seen_by_others(&run), [first, second]);
}
