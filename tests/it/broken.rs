//! Broken pipelines, each with what `flow check` says about it: `tests/pipelines/broken/NAME.yaml` and `NAME.expected`.
//! A file whose first lines are `# args: ...` is checked with those arguments besides. After a change that is meant to
//! change messages, `UPDATE_SNAPSHOTS=1` writes the expected texts anew; read each before it is committed.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipelines/broken")
}

/// Exit code and standard error of `flow check`, run where the files lie, so that no path of this machine is in it.
fn check<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_flow")).arg("check").args(arguments).current_dir(folder()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "mistakes belong to standard error");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// One broken pipeline: its name, the arguments that its first lines ask for, and what is expected.
struct Broken {
    name: String,
    arguments: Vec<String>,
    expected: PathBuf,
}

fn all() -> Vec<Broken> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    let broken = |file: PathBuf| {
        let bytes = std::fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let arguments = text.lines().map_while(|l| l.strip_prefix("# args: ")).map(String::from).collect();
        Broken { name: file.file_name().unwrap().to_str().unwrap().into(), arguments, expected: file.with_extension("expected") }
    };
    files.into_iter().map(broken).collect()
}

fn alone(broken: &Broken) -> String {
    let (code, printed) = check([&broken.name].into_iter().chain(&broken.arguments));
    assert_eq!(code, Some(1), "{} is refused with exit code 1; it said: {printed}", broken.name);
    assert!(
        printed.starts_with("error: ") && printed.contains("\n --> ") || printed.contains("\n  --> "),
        "{} has no place:\n{printed}",
        broken.name
    );
    printed
}

#[test]
fn every_broken_pipeline_is_explained() {
    let all = all();
    assert!(all.len() >= 40, "only {} broken pipelines", all.len());
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        all.iter().for_each(|b| std::fs::write(&b.expected, alone(b)).unwrap());
        return;
    }
    let expected = |b: &Broken| std::fs::read_to_string(&b.expected).unwrap_or_default();
    // Starting the binary is the costly part: those without arguments are checked in one run.
    let (plain, special): (Vec<Broken>, Vec<Broken>) = all.into_iter().partition(|b| b.arguments.is_empty());
    let (code, printed) = check(plain.iter().map(|b| &b.name));
    let mut suspects = special;
    if code != Some(1) || printed != plain.iter().map(expected).collect::<String>() {
        suspects.extend(plain);
    }
    let wrong: Vec<String> =
        suspects.iter().filter_map(|b| Some(alone(b)).filter(|f| *f != expected(b)).map(|f| format!("== {}\n{f}", b.name))).collect();
    assert!(wrong.is_empty(), "{} are told about in other words than expected:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_file_that_is_not_there_is_told_about() {
    let (code, printed) = check(["nowhere.yaml"]);
    assert_eq!(
        (code, printed.as_str()),
        (Some(1), "error: the file can't be read: no such file or directory\n --> nowhere.yaml\n\nfor more: `flow explain file`\n")
    );
}

#[test]
fn a_folder_is_no_pipeline() {
    let (code, printed) = check(["../broken"]);
    assert_eq!(code, Some(1));
    assert!(printed.starts_with("error: the file can't be read: is a directory"), "{printed}");
}
