//! The program `flow-study` by itself. What it makes by `flow` is tested in `tests/it/study.rs`.

use std::path::Path;
use std::process::Command;

#[test]
fn the_published_schema_is_its_own() {
    let output = Command::new(env!("CARGO_BIN_EXE_flow-study")).arg("--schema").output().unwrap();
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/study.schema.json");
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), std::fs::read_to_string(published).unwrap(), "run `make schema`");
}

/// Alone in its folder it says what it needs.
#[test]
fn it_starts_the_flow_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let (program, study) = (folder.path().join("flow-study"), folder.path().join("study.yaml"));
    std::fs::copy(env!("CARGO_BIN_EXE_flow-study"), &program).unwrap();
    std::fs::write(folder.path().join("a.yaml"), "").unwrap();
    std::fs::write(&study, "study: a\npage: page.md\nruns: { a: { pipeline: a.yaml } }\n").unwrap();
    let output = Command::new(&program).arg(&study).arg("--dry-run").output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains(&format!("there is no {}", folder.path().join("flow").display())), "{message}");
    assert_eq!(output.status.code(), Some(1));
}
