//! Rows as people write them: JSON lines. Each line is an object whose keys are columns, and may leave out columns with
//! a default ([`default`]) or columns that no node needs.
//!
//! ```
//! let rows = flow_core::row::lines::parse("rows.jsonl", r#"{"task": "a", "turn": 1, "reward": 0.5}"#).unwrap();
//! assert_eq!((rows[0].number, rows[0].name.task.as_str(), rows[0].name.turn), (1, "a", 1));
//! let wrong = flow_core::row::lines::parse("rows.jsonl", r#"{"task": "a", "rewrd": 0.5}"#).unwrap_err();
//! assert_eq!(wrong.to_string(), "rows.jsonl:1: there is no column `rewrd`\n  = help: did you mean `reward`?");
//! ```

use super::cell::{called, column};
use super::{Cell, Name, COLUMNS, NAME};
use arrow::array::RecordBatch;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;

/// A larger file was not written for a test.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// The most mistakes that are reported at once.
const MOST_FOUND: usize = 10;

/// One row: where it stands, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// From 1.
    pub number: usize,
    /// The row's name, defaults filled in.
    pub name: Name,
    /// What the line says, without defaults.
    pub cells: BTreeMap<String, Cell>,
}

/// What is wrong in a file of rows.
#[derive(Clone, Debug, Default, PartialEq, thiserror::Error)]
pub struct Mistakes {
    messages: Vec<String>,
    more: usize,
}

impl Mistakes {
    fn add(&mut self, file: &str, line: usize, message: String, help: Option<String>) {
        if self.messages.len() == MOST_FOUND {
            self.more += 1;
            return;
        }
        let help = help.map(|help| format!("\n  = help: {help}")).unwrap_or_default();
        self.messages.push(format!("{file}:{line}: {message}{help}"));
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.messages.join("\n"))?;
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

/// What a column holds where a row doesn't say it.
pub fn default(column: &str) -> Option<Cell> {
    match column {
        "iteration" => Some(Cell::U64(0)),
        "sample" | "attempt" | "turn" => Some(Cell::U32(0)),
        "phase" => Some(Cell::Text("play".into())),
        "choices" => Some(Cell::List(Vec::new())),
        "valid" => Some(Cell::Bool(true)),
        "mode" => Some(Cell::Text("plain".into())),
        "used" => Some(Cell::Text("yes".into())),
        _ => None,
    }
}

/// The rows of a file.
pub fn read(path: &Path) -> Result<Vec<Line>, Mistakes> {
    let file = path.display().to_string();
    let refused = |line: usize, message: String| {
        let mut mistakes = Mistakes::default();
        mistakes.add(&file, line, message, None);
        mistakes
    };
    let mut bytes = Vec::new();
    let open = std::fs::File::open(path);
    // One byte more than allowed is enough to know: the file may be a device without an end.
    open.and_then(|f| f.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|e| refused(1, format!("the file can't be read: {}", e.to_string().split(" (os error").next().unwrap_or_default())))?;
    if bytes.len() > MOST_BYTES {
        return Err(refused(1, format!("the file is longer than {} MiB", MOST_BYTES / 1024 / 1024)));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(&file, text),
        Err(error) => {
            let before = bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            Err(refused(before + 1, "the file is not text in UTF-8: a byte here belongs to no character".into()))
        }
    }
}

/// The rows of a text; `file` is what messages call it.
pub fn parse(file: &str, text: &str) -> Result<Vec<Line>, Mistakes> {
    let mut mistakes = Mistakes::default();
    let mut names: BTreeMap<Name, usize> = BTreeMap::new();
    let mut lines = Vec::new();
    for (i, text) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let number = i + 1;
        let cells = cells(file, number, text, &mut mistakes);
        let name = Name::from(|column| cells.get(column));
        if let Some(first) = names.get(&name) {
            let help = format!("rows are identified by {}", NAME.map(|n| format!("`{n}`")).join(", "));
            mistakes.add(file, number, format!("the row has the same name as the one in line {first}: {name}"), Some(help));
        } else {
            names.insert(name.clone(), number);
        }
        lines.push(Line { number, name, cells });
    }
    if mistakes.messages.is_empty() {
        Ok(lines)
    } else {
        Err(mistakes)
    }
}

fn cells(file: &str, line: usize, text: &str, mistakes: &mut Mistakes) -> BTreeMap<String, Cell> {
    let mut cells = BTreeMap::new();
    let entries = match serde_json::from_str::<ObjectEntries>(text) {
        Ok(entries) => entries.0,
        Err(error) => {
            let whole = error.to_string();
            let reason = whole.split(" at line ").next().unwrap_or_default();
            let message = match serde_json::from_str::<Value>(text) {
                Ok(other) => format!("a row is an object, found {}", called(&other)),
                Err(_) => format!("this is no JSON: {reason} in column {}", error.column()),
            };
            mistakes.add(file, line, message, Some(r#"write one row a line, such as {"task": "a", "turn": 0, "reward": 1}"#.into()));
            return cells;
        }
    };
    for (key, value) in entries {
        let Some(kind) = super::kind(&key) else {
            mistakes.add(file, line, format!("there is no column `{}`", shortened(&key)), Some(nearest(&key)));
            continue;
        };
        match Cell::read(kind, &value) {
            Err(message) => {
                mistakes.add(file, line, format!("`{key}` {message}"), Some(format!("`{key}`: {}", about(&key))));
            }
            Ok(_) if cells.contains_key(&key) => mistakes.add(file, line, format!("`{key}` stands here twice"), None),
            Ok(cell) => drop(cells.insert(key, cell)),
        }
    }
    cells
}

/// What a column means.
fn about(column: &str) -> &'static str {
    super::find(column).map_or("a tagged part of an answer", |column| column.about)
}

fn shortened(key: &str) -> String {
    key.chars().take(64).collect()
}

fn nearest(key: &str) -> String {
    let near = |name: &&str| key.len() <= 64 && strsim::damerau_levenshtein(key, name) <= 1 + name.len() / 3;
    let names = COLUMNS.iter().map(|c| c.name).filter(near);
    match names.min_by_key(|name| strsim::damerau_levenshtein(key, name)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "`flow ops --columns` lists the columns".into(),
    }
}

/// An object with its keys in order, duplicates included.
struct ObjectEntries(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for ObjectEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = ObjectEntries;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ObjectEntries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(ObjectEntries(entries))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

/// The rows as Arrow: the columns that name a row, columns of any line, and the columns in `needed` (column -> who
/// needs it, in words). A missing column gets its default; a column without one is a mistake. None when there are no
/// rows.
pub fn batch(file: &str, lines: &[Line], needed: &BTreeMap<String, String>) -> Result<Option<RecordBatch>, Mistakes> {
    let Some(first) = lines.first() else { return Ok(None) };
    let mut mistakes = Mistakes::default();
    let mut columns = Vec::new();
    let present = lines.iter().flat_map(|line| line.cells.keys()).chain(needed.keys()).cloned();
    let names = super::in_order(&NAME.map(String::from).into_iter().chain(present).collect::<Vec<_>>());
    for name in &names {
        let (default, Some(kind)) = (default(name), super::kind(name)) else { continue };
        let has = lines.iter().find(|l| l.cells.contains_key(name)).map(|l| l.number);
        if default.is_none() && has.is_none() && !needed.contains_key(name) {
            continue;
        }
        let cells: Vec<Option<&Cell>> = lines.iter().map(|l| l.cells.get(name).or(default.as_ref())).collect();
        if let Some(gap) = cells.iter().position(Option::is_none) {
            let why = match (needed.get(name), has) {
                (Some(who), _) => format!("{who} needs it"),
                (None, Some(line)) => format!("line {line} has it"),
                (None, None) => String::new(),
            };
            let help = format!("give every row a `{name}`: {} ({})", about(name), kind.name());
            mistakes.add(file, lines[gap].number, format!("the column `{name}` is missing, and {why}"), Some(help));
            continue;
        }
        let cells: Vec<Cell> = cells.into_iter().flatten().cloned().collect();
        columns.push((name.as_str(), column(kind, &cells)));
    }
    if !mistakes.messages.is_empty() {
        return Err(mistakes);
    }
    super::batch(columns).map(Some).map_err(|e| {
        mistakes.add(file, first.number, e.to_string(), None);
        mistakes
    })
}

#[cfg(test)]
mod tests;
