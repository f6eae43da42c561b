//! Keys and names: which keys a map may have, the message for one without meaning, and which names are valid.

use super::foreign;
use crate::parse::{listed, Report, Shape, Tree, TreeEntry};
use crate::LOOP;
use serde_json::Value;

/// The keys of a pipeline.
pub const TOP: [&str; 10] = ["flow", "about", "iterations", "seed", "models", "agents", "nodes", "log", "keep", "tests"];
/// The keys of a node with an operator.
pub const NODE: [&str; 3] = ["op", "inputs", "with"];
/// The keys of a loop.
pub const LOOP_KEYS: [&str; 3] = ["loop", "nodes", "output"];
/// The keys of a delayed edge.
pub const EDGE: [&str; 2] = ["after", "staleness"];

/// Whether a node was meant as a loop.
pub fn is_loop(node: &Tree) -> bool {
    let has = |key| node.entry(key).is_some();
    let operator = has("op") && node.get("op").is_some_and(|op| op.text() != Some(LOOP));
    has("nodes") && (has("loop") || !operator) || (has("loop") || has("output")) && !operator
}

/// That a node can't be seen from where it was named.
pub fn inner(id: &str, around: &str) -> String {
    format!("`{id}` stands inside the loop `{around}`")
}

/// The map under `key`; an empty one counts as absent, anything else is reported.
pub fn map<'a>(tree: &'a Tree, key: &str, expected: &str, report: &mut Report) -> Option<&'a Tree> {
    let value = tree.get(key)?;
    let fine = matches!(value.value, Shape::Map(_)) || value.is_null();
    if !fine {
        report.add(value.at, format!("`{key}` must be {expected}, found {}", value.called()), None);
    }
    fine.then_some(value)
}

/// The whole number in there, if it is one and within the limits.
pub fn whole_number(tree: &Tree, key: &str, least: u64, most: u64, report: &mut Report) -> Option<u64> {
    let value = match &tree.value {
        Shape::Scalar(Value::Number(number)) => number.as_u64(),
        _ => None,
    };
    match value {
        Some(value) if (least..=most).contains(&value) => return Some(value),
        Some(value) if value > most => report.add(tree.at, format!("`{key}` must be at most {most}, found {value}"), None),
        _ => report.add(tree.at, format!("`{key}` must be a whole number of at least {least}, found {}", tree.called()), None),
    }
    None
}

/// Reports the keys of a map that have no meaning.
pub fn unknown_keys(tree: &Tree, known: &[&str], what: &str, report: &mut Report) {
    for entry in tree.entries().iter().filter(|e| !known.contains(&e.key.as_str())) {
        unknown_key(entry, known, what, report);
    }
}

/// Reports a key that has no meaning.
pub fn unknown_key(entry: &TreeEntry, known: &[&str], what: &str, report: &mut Report) {
    let help = match entry.key.as_str() {
        "<<" => Some("merge keys aren't read: write the keys out, or take them from another pipeline by `like:`".into()),
        key => foreign::help(key, known.iter().copied())
            .or_else(|| report.guess(key, known.iter().copied()).map(|k| format!("did you mean `{k}`?")))
            .or(Some(format!("its keys are {}", listed(known, "and")))),
    };
    report.add(entry.at, format!("{what} has no key `{}`", entry.key), help);
}

/// Whether a key that has no meaning was probably meant as `key`: then saying so is enough.
pub fn misspelt(tree: &Tree, key: &str, known: &[&str], report: &Report) -> bool {
    let strangers = tree.entries().iter().filter(|e| !known.contains(&e.key.as_str()));
    let guess =
        |word: &str| foreign::meant(word, known.iter().copied()).map(|(_, own)| own).or_else(|| report.guess(word, known.iter().copied()));
    strangers.map(|e| guess(&e.key)).any(|guess| guess == Some(key))
}

/// What a name must be like.
pub const PLAIN: &str = "a name has letters, digits, `-` and `_`, and starts with a letter: it names folders and tables";

/// Whether a text can name a folder and a table.
pub fn plain(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}
