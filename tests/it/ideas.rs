//! The pipelines of `examples/ideas`: each runs, verifies, gives the same rows on two workers, and its idea does something.

use crate::common::*;
use std::path::Path;

const FOLDER: &str = "examples/ideas";

/// Each idea, with a query that is true where the idea acts on real rows.
const IDEAS: [(&str, &str); 7] = [
    ("distinct_episodes", "select count(*) > 0 and count(*) < (select count(*) from rollout) as acts from kept"),
    ("empirical_value", "select count(distinct value) > 10 and min(advantage) < 0 and max(advantage) > 0 as acts from advantage"),
    ("prediction", "select max(derived_prediction) > 0 and max(derived_prediction) <= 1 as acts from predicted"),
    ("repetition", "select bool_or(len(list_distinct(token_advantages)) > 1) as acts from repetition"),
    ("solver_credit", "select min(advantage) < 0 and max(advantage) > 0 and max(advantage) < 1 as acts from advantage"),
    ("success_progress", "select count(distinct derived_weight) > 1 as acts from progress"),
    ("type_priority", "select count(distinct derived_weight) > 1 as acts from priority"),
];

/// The names of the files of the ideas that end with `.end`.
fn named(end: &str) -> Vec<String> {
    let entries = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER)).unwrap();
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|other| other == end));
    let mut names: Vec<String> = files.filter_map(|path| Some(path.file_stem()?.to_str()?.to_string())).collect();
    names.retain(|name| !name.starts_with("test_"));
    names.sort();
    names
}

#[test]
fn each_idea_runs_verifies_and_acts_the_same_on_two_workers() {
    let ideas = IDEAS.map(|(name, _)| name.to_string());
    assert_eq!((named("py"), named("yaml")), (ideas.to_vec(), ideas.to_vec()), "each idea has a pipeline");
    let folder = tempfile::tempdir().unwrap();
    for (name, acts) in IDEAS {
        let file = format!("{FOLDER}/{name}.yaml");
        done(flow().arg("check").arg(&file));
        let runs = ["1", "2"].map(|workers| {
            let out = folder.path().join(format!("{name}-{workers}"));
            done(flow().args(["run", &file, "--set", "iterations=2", "--workers", workers, "--out"]).arg(&out));
            out
        });
        let same = done(flow().arg("diff").arg(&runs[0]).arg(&runs[1]));
        assert!(same.contains("are equal") && same.contains("and so are the final weights"), "{name}: {same}");
        assert!(done(flow().arg("verify").arg(&runs[0])).contains("every digit agrees"), "{name}");
        assert_eq!(ask(&runs[0], acts)[0]["acts"], true, "{name}");
    }
}
