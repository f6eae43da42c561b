//! Whatever a file says, its reader answers: pipelines, manifests, Parquet. Rows of `flow test` have theirs in
//! crates/core/src/row/lines/tests.rs.

#[path = "shared/logged.rs"]
mod logged;
mod mutations;

use flow::ops;
use flow_core::seed::Random;
use flow_log::{columns, read, read_iteration, write_part, Committer, Run};
use flow_pipeline::parse;
use mutations::{count, each, Corpus};
use std::path::Path;

/// The files of these folders with this ending.
fn files(folders: &[&str], ending: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == ending)).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn no_pipeline_makes_the_parser_panic() {
    let corpus = Corpus(files(&["pipelines", "pipelines/tests", "tests/pipelines/broken"], "yaml"));
    let catalog = ops::catalog();
    let total = count(2_000);
    // What stands behind the first 0 byte is an override, half of the time.
    let make = |random: &mut Random| {
        let mut input = corpus.input(random, true);
        if random.below(4) == 0 {
            let set = Corpus(vec![b"nodes.update.with.lr=1e-4".to_vec(), b"iterations=3".to_vec(), b"models.actor={ new: tiny }".to_vec()]);
            input.push(0);
            input.extend(set.input(random, true));
        }
        input
    };
    let taken = each("pipelines", total, make, |input| {
        let text = String::from_utf8_lossy(input);
        let (text, set) = text.split_once('\0').map_or((&*text, None), |(text, set)| (text, Some(set.to_owned())));
        match parse("pipelines/fuzz.yaml", text, &set.into_iter().collect::<Vec<_>>(), &catalog) {
            Err(wrong) => {
                assert!(!wrong.0.is_empty() && wrong.0.iter().all(|d| d.line > 0 && d.column > 0 && !d.message.is_empty()), "{wrong:?}");
                assert!(wrong.to_string().starts_with("error: "), "{wrong}");
                false
            }
            Ok(pipeline) => {
                let again = parse("again.yaml", &pipeline.to_yaml("".as_ref()), &[], &catalog).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!((again.nodes, again.models, again.log), (pipeline.nodes, pipeline.models, pipeline.log));
                true
            }
        }
    });
    assert!(taken > total / 100 && taken < total / 2, "{taken} of {total}: the inputs must reach every part of the parser");
}

/// A run with two committed iterations.
fn logged() -> (tempfile::TempDir, Run) {
    let (folder, run) = logged::run();
    let mut committer = Committer::new(run.clone()).unwrap();
    for iteration in 0..2 {
        let rollout = write_part(&run, "rollout", iteration, 0, &logged::rollout(iteration, 0, 2)).unwrap();
        let advantage = write_part(&run, "advantage", iteration, 0, &logged::advantages(iteration, 0, 2)).unwrap();
        let metrics = [("update".to_string(), [("loss".to_string(), 0.5), ("kl".into(), f64::NAN)].into())].into();
        committer.commit(iteration, vec![rollout, advantage], metrics, vec![]).unwrap();
    }
    (folder, run)
}

/// Reads all that a manifest promises; whether it was all there.
fn all(run: &Run) -> bool {
    let Ok(manifest) = run.manifest() else { return false };
    let nodes = manifest.info.nodes.iter().map(|node| node.id.as_str());
    let good = nodes.map(|node| read(run, node).is_ok() & columns(run, &manifest, node).is_ok());
    good.fold(manifest.next() >= manifest.trained(), |all, good| all & good)
}

#[test]
fn no_manifest_makes_a_reader_panic() {
    let (_folder, run) = logged();
    let path = run.root().join("manifest.json");
    let corpus = Corpus(vec![std::fs::read(&path).unwrap()]);
    let total = count(2_000);
    let taken = each(
        "manifests",
        total,
        |random| corpus.input(random, true),
        |input| {
            std::fs::write(&path, input).unwrap();
            let good = all(&run);
            // Going on with it reads more of it; in a folder without rows or weights, which it would tidy.
            let (empty, there) = (run.root().join("empty"), run.root().join("empty/manifest.json"));
            std::fs::create_dir_all(&empty).unwrap();
            std::fs::write(&there, input).unwrap();
            let _ = Run::open(&empty).and_then(Committer::new);
            good
        },
    );
    assert!(taken > total / 100 && taken < total / 2, "{taken} of {total}");
}

#[test]
fn no_parquet_makes_a_reader_panic() {
    let (_folder, run) = logged();
    let mut manifest = run.manifest().unwrap();
    let paths: Vec<_> = manifest.committed.iter().flat_map(|i| &i.parts).map(|part| run.root().join(&part.path)).collect();
    let corpus = Corpus(paths.iter().map(|path| std::fs::read(path).unwrap()).collect());
    let at = manifest.committed[0].parts.iter().position(|part| part.node == "rollout").unwrap();
    let part = manifest.committed[0].parts[at].clone();
    let (path, right) = (run.root().join(&part.path), read_iteration(&run, &manifest, "rollout", 0).unwrap());
    let intact = std::fs::read(&path).unwrap();
    // The checksum is compared before anything is decoded: a footer made for it could keep the decoder busy for
    // minutes.
    let taken = each(
        "Parquet files",
        count(2_000),
        |random| corpus.input(random, false),
        |input| {
            std::fs::write(&path, input).unwrap();
            manifest.committed[0].parts[at] = flow_log::Part { bytes: input.len() as u64, ..part.clone() };
            let read = read_iteration(&run, &manifest, "rollout", 0).is_ok_and(|rows| rows == right);
            assert_eq!(read, input == intact, "only the right rows come out");
            read
        },
    );
    assert!(taken <= count(2_000) / 100, "{taken} inputs were no damage");
}
