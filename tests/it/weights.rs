//! Weights that the manifest names are there, whole and finite, or the command names the file that isn't.

use crate::common::*;
use std::fs;
use std::path::{Path, PathBuf};

const PANEL: &str = "datasets/minesweeper-4x4-m2-d64920f25f41.json";

fn eval(what: &Path, extra: &[&str]) -> std::process::Command {
    let mut command = flow();
    command.arg("eval").arg(what).args(["--panel", PANEL]).args(extra);
    command
}

fn resume(run: &Path) -> std::process::Command {
    let mut command = flow();
    command.arg("resume").arg(run).args(["--iterations", "4"]);
    command
}

/// A run of three iterations, and where its newest weights lie.
fn run(folder: &Path) -> (PathBuf, PathBuf) {
    let run = trained(folder, "run", SMALL, &[]);
    let newest = run.join("weights/3/actor");
    assert!(newest.join("model.safetensors").exists());
    (run, newest)
}

#[test]
fn a_flipped_bit_and_a_missing_file_are_named_and_nothing_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let (run, newest) = run(folder.path());
    let model = newest.join("model.safetensors");
    let whole = fs::read(&model).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&model, flipped).unwrap();
    for mut command in [eval(&run, &[]), resume(&run)] {
        let message = fails(&mut command);
        assert!(message.contains("weights/3/actor/model.safetensors is damaged (its bytes have changed since it was saved)"), "{message}");
    }
    fs::write(&model, &whole).unwrap();
    // To play, nobody needs the optimiser's moments; to train on, everybody does.
    let moments = newest.join("optimizer.safetensors");
    let saved = fs::read(&moments).unwrap();
    fs::remove_file(&moments).unwrap();
    done(&mut eval(&run, &[]));
    assert!(fails(&mut resume(&run)).contains("weights/3/actor/optimizer.safetensors is missing"));
    fs::write(&moments, saved).unwrap();
    // The weights that a run began with are looked at, too.
    let start = run.join("weights/0/actor/model.safetensors");
    let began = fs::read(&start).unwrap();
    fs::write(&start, &began[..began.len() - 4]).unwrap();
    let message = fails(&mut resume(&run));
    assert!(message.contains("weights/0/actor/model.safetensors is damaged (it holds "), "{message}");
    fs::write(&start, began).unwrap();
    done(&mut resume(&run));
    fs::remove_dir_all(run.join("weights/4")).unwrap();
    let message = fails(&mut eval(&run, &[]));
    assert!(message.contains("weights/4/actor is missing though the manifest names it"), "{message}");
}

#[test]
fn weights_that_are_no_numbers_are_not_played_with() {
    let folder = tempfile::tempdir().unwrap();
    let (run, newest) = run(folder.path());
    let model = folder.path().join("model");
    fs::create_dir(&model).unwrap();
    for file in ["config.json", "vocabulary.json", "model.safetensors"] {
        fs::copy(newest.join(file), model.join(file)).unwrap();
    }
    let like = run.join("pipeline.yaml");
    let like = ["--like", like.to_str().unwrap()];
    done(&mut eval(&model, &like));
    let mut bytes = fs::read(model.join("model.safetensors")).unwrap();
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(model.join("model.safetensors"), bytes).unwrap();
    let message = fails(&mut eval(&model, &like));
    assert!(message.contains("model.safetensors") && message.contains("holds NaN or infinite numbers"), "{message}");
}

/// Files that never end, or never begin: nothing waits for them, and nothing swallows memory.
#[test]
fn pipes_and_devices_are_not_read_in_place_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let (run, newest) = run(folder.path());
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for verb in ["check", "graph", "test", "study"] {
        let message = fails(flow().arg(verb).arg(&pipe));
        assert!(message.contains("no regular file"), "{verb}: {message}");
    }
    let like = run.join("pipeline.yaml");
    let like = ["--like", like.to_str().unwrap()];
    for file in ["config.json", "vocabulary.json", "model.safetensors"] {
        for odd in [Path::new("/dev/zero"), &pipe] {
            let model = folder.path().join("model");
            fs::create_dir(&model).unwrap();
            for name in ["config.json", "vocabulary.json", "model.safetensors"].iter().filter(|name| **name != file) {
                fs::copy(newest.join(name), model.join(name)).unwrap();
            }
            std::os::unix::fs::symlink(odd, model.join(file)).unwrap();
            let message = fails(&mut eval(&model, &like));
            assert!(message.contains(file) && message.contains("no regular file"), "{file}: {message}");
            fs::remove_dir_all(&model).unwrap();
        }
    }
}
