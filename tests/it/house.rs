//! The house: which folder of `src` and which package may know which, and which library is known in one folder alone.
//! Read from the code itself, so that a wall that falls is seen by whoever lets it fall.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Names that no code has, apart from tests and some files, with the field's words for them. A name is a noun for a
/// thing and a verb for an act. `world` is a key of settings and of the protocol, and a flag.
const NAMES: [(&str, &str, &[&str]); 14] = [
    ("world", "environment", &["crates/env/src/adapter.rs", "crates/env/src/process/hello.rs", "src/cli/check.rs", "src/cli/new.rs"]),
    ("worlds", "environments", &[]),
    ("Worlds", "Environments", &[]),
    ("wrong", "mistake, fault, error", &[]),
    ("wrongs", "mistakes, faults", &[]),
    ("told", "prompted, announced", &[]),
    ("paid", "rewards", &[]),
    ("led", "expert_actions", &[]),
    ("lent", "exported", &[]),
    ("beside", "neighbour, sibling", &[]),
    ("otherwise", "default, replay_hint", &[]),
    ("took", "duration, record", &[]),
    ("saw", "observe", &[]),
    ("learnt_from", "trains_on", &[]),
];

/// The folder of the program, and those of the packages, with the name that code gives them.
const ROOTS: [(&str, Option<&str>); 15] = [
    ("src", None),
    ("crates/checkpoint/src", Some("flow_checkpoint")),
    ("crates/core/src", Some("flow_core")),
    ("crates/credit/src", Some("flow_credit")),
    ("crates/dataflow/src", Some("flow_dataflow")),
    ("crates/env/src", Some("flow_env")),
    ("crates/int8/src", Some("flow_int8")),
    ("crates/log/src", Some("flow_log")),
    ("crates/model/src", Some("flow_model")),
    ("crates/pipeline/src", Some("flow_pipeline")),
    ("crates/policy/src", Some("flow_policy")),
    ("crates/rollout/src", Some("flow_rollout")),
    ("crates/serve/src", Some("flow_serve")),
    ("crates/text/src", Some("flow_text")),
    ("papers/tool/src", Some("flow_study")),
];

/// The folders of `src` from the top down. A folder may know the floors below it, and none beside it or above. Between
/// packages the compiler keeps the walls.
const FLOORS: [&[&str]; 3] = [&["main"], &["cli"], &["ops"]];

/// Libraries that one folder or package (or two) alone may know, by the names of their crates.
const LIBRARIES: [(&[&str], &[&str]); 11] = [
    (&["timely"], &["flow_dataflow", "ops"]),
    (&["differential_dataflow"], &["flow_dataflow"]),
    (&["tch", "torch"], &["flow_policy"]),
    (&["parquet", "duckdb"], &["flow_log"]),
    (&["serde_yaml"], &["flow_pipeline"]),
    (&["tokenizers"], &["flow_text"]),
    (&["ureq"], &["flow_serve"]),
    (&["minijinja"], &["flow_text", "flow_rollout"]),
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
fn climbs(folder: &str, other: &str) -> bool {
    match (floor(folder), floor(other)) {
        (Some(here), Some(there)) => folder != other && there <= here,
        // A name that is no folder is a type or a macro of the library's root.
        _ => false,
    }
}

/// The registers' operations are safe functions only because one macro alone uses them, in functions that are compiled
/// for them and called where the CPU has them.
#[test]
fn registers_are_used_by_one_macro() {
    let users = sources().into_iter().filter(|source| source.code.contains("registers::"));
    let users: Vec<PathBuf> = users.map(|source| source.path).collect();
    assert!(users.len() == 1 && users[0].ends_with("int8/src/products/vectorised.rs"), "{users:?}");
}

#[test]
fn arrows_go_down() {
    let sources = sources();
    assert!(sources.len() > 250);
    let mut arrows = 0;
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.folder != "lib" && !source.folder.starts_with("flow_")) {
        assert!(floor(&source.folder).is_some(), "`{}` stands on no floor: say on which in tests/it/house.rs", source.folder);
        for other in known(&source.code) {
            arrows += usize::from(floor(&other).is_some());
            if climbs(&source.folder, &other) {
                faults.push(format!("{}: `{}` knows `{other}`, which doesn't stand below it", source.path.display(), source.folder));
            }
        }
    }
    assert!(arrows > 100, "only {arrows} arrows: are imports still read?");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_library_is_known_where_it_is_at_home() {
    let mut faults = Vec::new();
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
                    faults.push(format!("{}: `{name}` is known in {} alone", source.path.display(), folders.join(" and ")));
                }
            }
        }
    }
    assert!(homes > 50, "only {homes} uses: are libraries still called so?");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The reader itself is held to what it should see.
#[test]
fn imports_are_read_whole() {
    let code = "use crate::ops::{self, Kind};\nuse crate::{left, right::{Context, cli}, main as s};\nfn f() { flow_env::make(); }";
    assert_eq!(known(code).into_iter().collect::<Vec<_>>(), ["left", "main", "ops", "right"]);
    assert!(climbs("ops", "cli") && climbs("cli", "main") && !climbs("cli", "ops") && !climbs("cli", "cli"));
}

/// The names in code, without texts between quotes, which go over lines, and without comments at the end of a line.
fn names(code: &str) -> BTreeSet<String> {
    let code = code.replace("\\\\", "").replace("\\\"", "").replace("'\"'", "");
    let parts = code.split('"').step_by(2).flat_map(str::lines).map(|line| line.split("// ").next().unwrap_or_default());
    parts.flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_')).map(String::from).collect()
}

#[test]
fn names_are_the_words_of_the_field() {
    let (mut all, mut faults) = (0, Vec::new());
    for source in sources().iter().filter(|source| !source.path.iter().any(|part| part.to_string_lossy().starts_with("tests"))) {
        let (path, found) = (source.path.display().to_string(), names(&source.code));
        all += found.len();
        let refused = NAMES.iter().filter(|(name, _, keys)| found.contains(*name) && !keys.contains(&path.as_str()));
        faults.extend(refused.map(|(name, better, _)| format!("{path}: `{name}`, better {better}")));
    }
    assert!(all > 10_000, "only {all} names: are files still read?");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(names("let worlds = f(\"wrong\"); // x").contains("worlds") && !names("let a = \"wrong way\";").contains("wrong"));
}

/// The paths of an import: those in braces written out.
fn paths(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, rest)) = tree.split_once('{') else { return vec![tree.split(" as ").next().unwrap().trim().into()] };
    let (mut depth, mut item, mut all) = (0, String::new(), Vec::new());
    for c in rest.trim_end().trim_end_matches('}').chars().chain([',']) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => all.extend(paths(&std::mem::take(&mut item)).into_iter().map(|path| format!("{before}{path}"))),
            c => item.push(c),
        }
    }
    all.retain(|path| path != before);
    all
}

/// The module that a path in the file `own` names, if it is one of `modules`; `top` begins the paths from the root.
fn module(own: &str, path: &str, top: &str, modules: &BTreeSet<String>) -> Option<String> {
    let mut place: Vec<&str> = own.split("::").collect();
    let mut rest = path;
    if let Some(inside) = path.strip_prefix(top).and_then(|rest| rest.strip_prefix("::")) {
        (place, rest) = (Vec::new(), inside);
    }
    while let Some(above) = rest.strip_prefix("super::") {
        place.pop();
        rest = above;
    }
    place.extend(rest.split("::").map(str::trim));
    (1..=place.len()).rev().map(|n| place[..n].join("::")).find(|name| modules.contains(name))
}

/// The paths in code that begin with `crate` or `super`, as in `super::rank::best(x)`.
fn called(code: &str) -> Vec<String> {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let begins = ["crate::", "super::"].into_iter().flat_map(|mark| code.match_indices(mark).map(|(at, _)| at));
    let whole = begins.filter(|at| !code[..*at].ends_with(part));
    whole.map(|at| code[at..].chars().take_while(|c| part(*c)).collect::<String>()).filter(|path| !path.ends_with(':')).collect()
}

/// Files of a folder, as modules, each with those that its imports and its paths name, apart from the modules inside it.
fn imports(root: &str, top: &str) -> BTreeMap<String, BTreeSet<String>> {
    let named = |source: &Source| {
        let path = source.path.strip_prefix(root).unwrap().with_extension("");
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).filter(|part| !["mod", "lib", "main"].contains(part)).collect();
        parts.join("::")
    };
    let tests = |source: &Source| source.path.iter().any(|part| part.to_string_lossy().starts_with("tests"));
    let sources: Vec<Source> = sources_of(Path::new(root), None).into_iter().filter(|source| !tests(source)).collect();
    let modules: BTreeSet<String> = sources.iter().map(named).filter(|name| !name.is_empty()).collect();
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in &sources {
        let own = named(source);
        let uses = source.code.match_indices("use ").filter(|(at, _)| source.code[..*at].ends_with(['\n', ' ']) || *at == 0);
        let trees = uses.filter_map(|(at, mark)| source.code[at + mark.len()..].split(';').next());
        let known = trees.flat_map(paths).chain(called(&source.code)).filter_map(|path| module(&own, &path, top, &modules));
        let inside = format!("{own}::");
        all.entry(own.clone()).or_default().extend(known.filter(|known| *known != own && !known.starts_with(&inside)));
    }
    all
}

/// Every file that can be reached from `from`.
fn reached<'a>(from: &'a str, imports: &'a BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        next.extend(imports.get(file).into_iter().flatten().map(String::as_str).filter(|known| found.insert(*known)));
    }
    found
}

/// A file that all files of a folder import needs none of them: a reader can begin at the bottom.
#[test]
fn files_know_one_another_in_no_circle() {
    let folders = ["cli", "ops"].map(|folder| (format!("src/{folder}"), format!("crate::{folder}")));
    let packages = ROOTS[1..].iter().map(|(root, _)| (root.to_string(), "crate".to_owned()));
    let (mut arrows, mut circles) = (0, Vec::new());
    for (root, top) in folders.into_iter().chain(packages) {
        let imports = imports(&root, &top);
        arrows += imports.values().map(BTreeSet::len).sum::<usize>();
        let circle = |file: &&String| reached(file, &imports).contains(file.as_str());
        circles.extend(imports.keys().filter(circle).map(|file| format!("{root}: {file}")));
    }
    assert!(arrows > 1000, "only {arrows} arrows: are imports still read?");
    assert!(circles.is_empty(), "move what both need below both:\n{}", circles.join("\n"));
    assert_eq!(called("use super::{a};\nlet x = super::b::c(crate::d::E, $crate::f);"), ["crate::d::E", "crate::f", "super::b::c"]);
    assert_eq!(paths("super::{a::B, c::{self, d}, e}"), ["super::a::B", "super::c::self", "super::c::d", "super::e"]);
    let modules: BTreeSet<String> = ["a", "a::b", "c"].map(String::from).into();
    assert_eq!(module("a::b", "super::super::c::D", "crate", &modules).as_deref(), Some("c"));
    assert_eq!(module("c", "crate::a::b::D", "crate", &modules).as_deref(), Some("a::b"));
}

/// Lines of code that a package may have, without comments, blank lines and tests: growth is a decision, made here.
const BUDGETS: [(&str, usize); 15] = [
    ("src", 18_270),
    ("crates/checkpoint/src", 955),
    ("crates/core/src", 1_350),
    ("crates/credit/src", 2_750),
    ("crates/dataflow/src", 2_870),
    ("crates/env/src", 4_500),
    ("crates/int8/src", 3_080),
    ("crates/log/src", 3_700),
    ("crates/model/src", 2_540),
    ("crates/pipeline/src", 3_500),
    ("crates/policy/src", 7_680),
    ("crates/rollout/src", 4_670),
    ("crates/serve/src", 1_975),
    ("crates/text/src", 1_240),
    ("papers/tool/src", 1_935),
];

#[test]
fn a_package_keeps_to_its_budget() {
    let lines = |source: &Source| {
        let tests = ["tests", "worked", "fixture", "coverage"]
            .iter()
            .any(|name| source.path.iter().any(|part| part.to_string_lossy().starts_with(name)))
            || source.path.to_string_lossy().ends_with("_tests.rs");
        let code = source.code.lines().filter(|line| !line.trim().is_empty());
        if tests {
            0
        } else {
            code.count()
        }
    };
    let count = |root: &str| sources_of(Path::new(root), None).iter().map(lines).sum::<usize>();
    let found = BUDGETS.map(|(root, most)| (root, count(root), most));
    let faulty: Vec<_> = found.into_iter().filter(|(_, all, most)| !(most / 2..=*most).contains(all)).collect();
    assert!(faulty.is_empty(), "(package, lines of code, budget): delete some, or decide on more in BUDGETS: {faulty:?}");
}

/// A page that names a file names one that is there.
#[test]
fn paths_in_pages_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = ["README.md", "CONTRIBUTING.md", "AGENTS.md", "crates/README.md", "benches/README.md", "papers/README.md"]
        .map(|page| root.join(page));
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let (mut named, mut missing) = (0, Vec::new());
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
                    missing.push(format!("{}: `{path}`", page.strip_prefix(root).unwrap().display()));
                }
            }
        }
    }
    assert!(named > 30, "only {named} paths: are they still written so?");
    assert!(missing.is_empty(), "there are no such files:\n{}", missing.join("\n"));
}
