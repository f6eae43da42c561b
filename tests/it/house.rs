//! The house: which folder of `src` and which package may know which, and which library is known in one folder alone.
//! Read from the code itself, so that a wall that falls is seen by whoever lets it fall.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of the program, and those of the packages, with the name that code gives them.
const ROOTS: [(&str, Option<&str>); 13] = [
    ("src", None),
    ("crates/checkpoint/src", Some("flow_checkpoint")),
    ("crates/core/src", Some("flow_core")),
    ("crates/credit/src", Some("flow_credit")),
    ("crates/env/src", Some("flow_env")),
    ("crates/int8/src", Some("flow_int8")),
    ("crates/log/src", Some("flow_log")),
    ("crates/model/src", Some("flow_model")),
    ("crates/pipeline/src", Some("flow_pipeline")),
    ("crates/policy/src", Some("flow_policy")),
    ("crates/serve/src", Some("flow_serve")),
    ("crates/text/src", Some("flow_text")),
    ("papers/tool/src", Some("flow_study")),
];

/// The folders of `src` from the top down. A folder may know the floors below it, and none beside it or above. Between
/// packages the compiler keeps the walls.
const FLOORS: [&[&str]; 4] = [&["main"], &["cli"], &["ops"], &["rollout", "dataflow"]];

/// Libraries that one folder or package (or two) alone may know, by the names of their crates.
const LIBRARIES: [(&[&str], &[&str]); 11] = [
    (&["timely"], &["dataflow", "ops"]),
    (&["differential_dataflow"], &["dataflow"]),
    (&["tch", "torch"], &["flow_policy"]),
    (&["parquet", "duckdb"], &["flow_log"]),
    (&["serde_yaml"], &["flow_pipeline"]),
    (&["tokenizers"], &["flow_text"]),
    (&["ureq"], &["flow_serve"]),
    (&["minijinja"], &["flow_text", "rollout"]),
    (&["axum", "indicatif", "tokio"], &["cli"]),
    (&["clap"], &["cli", "flow_study"]),
    (&["plotters"], &["flow_study"]),
];

/// A file's path in the repository, its name in the floors and its code, without comments and without its tests.
struct Source {
    path: PathBuf,
    folder: String,
    code: String,
}

fn sources() -> Vec<Source> {
    ROOTS.iter().flat_map(|(root, name)| sources_of(Path::new(root), *name)).collect()
}

fn sources_of(root: &Path, name: Option<&str>) -> Vec<Source> {
    let (repository, mut sources) = (Path::new(env!("CARGO_MANIFEST_DIR")), Vec::new());
    let mut folders = vec![repository.join(root)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let inside = path.strip_prefix(repository).unwrap();
                let first = inside.strip_prefix(root).unwrap().iter().next().unwrap().to_str().unwrap();
                let text = std::fs::read_to_string(&path).unwrap();
                let whole = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
                let lines = whole.lines().filter(|line| !line.trim_start().starts_with("//"));
                sources.push(Source {
                    path: inside.into(),
                    folder: name.unwrap_or(first.trim_end_matches(".rs")).into(),
                    code: lines.collect::<Vec<_>>().join("\n"),
                });
            }
        }
    }
    sources
}

fn floor(folder: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&folder))
}

/// What this code knows of the program: names of folders after `crate::`, those in braces too.
fn known(code: &str) -> BTreeSet<String> {
    let name = |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut known = BTreeSet::new();
    for (at, mark) in code.match_indices("crate::") {
        let rest = &code[at + mark.len()..];
        match rest.strip_prefix('{') {
            Some(several) => {
                // Only what stands outermost in the braces is a folder.
                let mut depth = 0;
                let mut item = String::new();
                for c in several.chars() {
                    match c {
                        '}' if depth == 0 => break,
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 0 => drop(known.insert(name(&std::mem::take(&mut item)))),
                        c if depth == 0 => item.push(c),
                        _ => {}
                    }
                }
                known.insert(name(&item));
            }
            None => drop(known.insert(name(rest))),
        }
    }
    known
}

/// The arrow that goes up or sideways, if `folder` knows `other`.
fn wrong(folder: &str, other: &str) -> bool {
    match (floor(folder), floor(other)) {
        (Some(here), Some(there)) => folder != other && there <= here,
        // A name that is no folder is a type or a macro of the library's root.
        _ => false,
    }
}

/// The registers' operations are safe functions only because one macro alone uses them, in functions that are compiled
/// for them and called where the processor has them.
#[test]
fn registers_are_used_by_one_macro() {
    let users = sources().into_iter().filter(|source| source.code.contains("registers::"));
    let users: Vec<PathBuf> = users.map(|source| source.path).collect();
    assert!(users.len() == 1 && users[0].ends_with("int8/src/products/vectors.rs"), "{users:?}");
}

#[test]
fn arrows_go_down() {
    let sources = sources();
    assert!(sources.len() > 250);
    let mut arrows = 0;
    let mut wrongs = Vec::new();
    for source in sources.iter().filter(|source| source.folder != "lib" && !source.folder.starts_with("flow_")) {
        assert!(floor(&source.folder).is_some(), "`{}` stands on no floor: say on which in tests/it/house.rs", source.folder);
        for other in known(&source.code) {
            arrows += usize::from(floor(&other).is_some());
            if wrong(&source.folder, &other) {
                wrongs.push(format!("{}: `{}` knows `{other}`, which doesn't stand below it", source.path.display(), source.folder));
            }
        }
    }
    assert!(arrows > 100, "only {arrows} arrows: are imports still read?");
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
}

#[test]
fn a_library_is_known_where_it_is_at_home() {
    let mut wrongs = Vec::new();
    let mut homes = 0;
    for source in sources() {
        for (crates, folders) in LIBRARIES {
            let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
            let uses = |name: &&&str| {
                let path = format!("{name}::");
                source.code.match_indices(&path).any(|(at, _)| !part(source.code[..at].chars().next_back()))
            };
            for name in crates.iter().filter(uses) {
                homes += 1;
                if !folders.contains(&source.folder.as_str()) {
                    wrongs.push(format!("{}: `{name}` is known in {} alone", source.path.display(), folders.join(" and ")));
                }
            }
        }
    }
    assert!(homes > 50, "only {homes} uses: are libraries still called so?");
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
}

/// The reader itself is held to what it should see.
#[test]
fn imports_are_read_whole() {
    let code = "use crate::ops::{self, Kind};\nuse crate::{rollout, dataflow::{Context, cli}, main as s};\nfn f() { flow_env::make(); }";
    assert_eq!(known(code).into_iter().collect::<Vec<_>>(), ["dataflow", "main", "ops", "rollout"]);
    assert!(wrong("rollout", "dataflow") && wrong("dataflow", "ops") && !wrong("ops", "rollout") && !wrong("cli", "cli"));
}

/// Lines of code that a package may have, without comments, blank lines and tests: growth is a decision, made here.
const BUDGETS: [(&str, usize); 13] = [
    ("src", 25_700),
    ("crates/checkpoint/src", 1_550),
    ("crates/core/src", 1_350),
    ("crates/credit/src", 2_750),
    ("crates/env/src", 6_200),
    ("crates/int8/src", 3_250),
    ("crates/log/src", 3_700),
    ("crates/model/src", 2_550),
    ("crates/pipeline/src", 3_550),
    ("crates/policy/src", 7_100),
    ("crates/serve/src", 1_850),
    ("crates/text/src", 1_300),
    ("papers/tool/src", 1_950),
];

#[test]
fn a_package_keeps_to_its_budget() {
    let lines = |source: &Source| {
        let tests = ["tests", "worked", "fixture", "coverage"]
            .iter()
            .any(|name| source.path.iter().any(|part| part.to_string_lossy().starts_with(name)));
        let code = source.code.lines().filter(|line| !line.trim().is_empty());
        if tests {
            0
        } else {
            code.count()
        }
    };
    for (root, most) in BUDGETS {
        let all: usize = sources_of(Path::new(root), None).iter().map(lines).sum();
        assert!(all <= most, "{root} has {all} lines of code, and its budget is {most}: delete some, or decide on more in BUDGETS");
        assert!(all > most / 2, "{root} has {all} lines of code: is its code still read?");
    }
}

/// A page that names a file names one that is there.
#[test]
fn paths_in_pages_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = ["README.md", "CONTRIBUTING.md", "AGENTS.md", "crates/README.md", "benches/README.md", "papers/README.md"]
        .map(|page| root.join(page));
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let (mut named, mut wrong) = (0, Vec::new());
    for page in pages.into_iter().chain(docs.filter(|path| path.extension().is_some_and(|end| end == "md"))) {
        let text = std::fs::read_to_string(&page).unwrap();
        for path in text.split('`').skip(1).step_by(2) {
            let top = path.split('/').next().unwrap_or_default();
            let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let ours = ["src", "crates", "benches", "scripts", "python", "view", "docs", "papers", "pipelines", "datasets", "examples"]
                .contains(&top);
            if plain && ours && path.contains('/') {
                named += 1;
                if !root.join(path).exists() {
                    wrong.push(format!("{}: `{path}`", page.strip_prefix(root).unwrap().display()));
                }
            }
        }
    }
    assert!(named > 30, "only {named} paths: are they still written so?");
    assert!(wrong.is_empty(), "there are no such files:\n{}", wrong.join("\n"));
}
