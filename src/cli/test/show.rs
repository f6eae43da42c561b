//! How a test went, for a person and for a program.

use super::compare::{Presence, RowComparison};
use crate::cli::colours::{GREEN, RED};
use crate::cli::error::Result;
use flow_core::columns::aligned;
use flow_core::printable::printable;
use serde_json::{json, Map, Value};

/// The most differences that are shown to a person; `--format json` has them all.
const MOST_SHOWN: usize = 10;

/// Every row compared, or why the test could not run.
type Comparisons = Result<Vec<RowComparison>>;

/// `ok` or `FAILED`, in colours, and below it the differences.
pub fn text(file: &str, test: &str, outcome: &Comparisons) -> String {
    let rows = match outcome {
        Ok(rows) if rows.iter().all(|r| r.agrees()) => return format!("{GREEN}ok{GREEN:#}      {}", printable(&format!("{file}: {test}"))),
        Ok(rows) => rows,
        Err(why) => return failed(file, test, &why.text()),
    };
    let mut table = vec![["node", "column", "expected", "got", "difference", "row"].map(String::from)];
    let differences: Vec<[String; 6]> = rows.iter().filter(|r| !r.agrees()).flat_map(differences).collect();
    let more = differences.len().saturating_sub(MOST_SHOWN);
    table.extend(differences.into_iter().take(MOST_SHOWN));
    let mut text = failed(file, test, &aligned(&table, &[false; 6]).join("\n"));
    if more > 0 {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

/// The heading in colour, and below it what is made printable.
fn failed(file: &str, test: &str, what: &str) -> String {
    format!("{RED}FAILED{RED:#}  {}", printable(&format!("{file}: {test}\n{}", indented(what))))
}

fn differences(row: &RowComparison) -> Vec<[String; 6]> {
    let line = |column: &str, expected: String, got: String, difference: String| {
        [row.node.clone(), column.into(), expected, got, difference, row.name.to_string()]
    };
    match row.presence {
        Presence::Missing => vec![line("", "a row".into(), "none".into(), String::new())],
        Presence::Extra => vec![line("", "no row".into(), "one".into(), String::new())],
        Presence::Both => {
            let differing = row.columns.iter().filter(|c| !c.agrees);
            differing
                .map(|c| {
                    let got = c.got.as_ref().map_or("no such column".into(), |got| short(&got.to_string()));
                    let difference = c.got.as_ref().and_then(|got| c.expected.difference(got));
                    line(&c.name, short(&c.expected.to_string()), got, difference.map_or(String::new(), rounded))
                })
                .collect()
        }
    }
}

/// Six digits that count: a difference of rounding errors has no more.
fn rounded(difference: f64) -> String {
    let short = format!("{difference:.5e}").parse().unwrap_or(difference);
    format!("{short:+}")
}

fn short(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|l| format!("  {l}")).collect::<Vec<_>>().join("\n")
}

/// One object a row with the expected and the actual value, and at the end one for the test.
pub fn json(file: &str, test: &str, outcome: &Comparisons) -> String {
    let mut lines = Vec::new();
    let mut end = json!({ "pipeline": file, "test": test, "ok": false });
    match outcome {
        Err(why) => end["error"] = json!(why.text()),
        Ok(rows) => {
            lines.extend(rows.iter().map(|row| object(file, test, row)));
            end["ok"] = json!(rows.iter().all(|r| r.agrees()));
            end["rows"] = json!(rows.len());
            end["differing"] = json!(rows.iter().filter(|r| !r.agrees()).count());
        }
    }
    lines.push(end);
    lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

fn object(file: &str, test: &str, row: &RowComparison) -> Value {
    let (mut expected, mut got, mut difference) = (Map::new(), Map::new(), Map::new());
    for column in &row.columns {
        expected.insert(column.name.clone(), column.expected.json());
        got.insert(column.name.clone(), column.got.as_ref().map_or(Value::Null, |g| g.json()));
        let apart = column.got.as_ref().and_then(|got| column.expected.difference(got));
        apart.map(|apart| difference.insert(column.name.clone(), json!(apart)));
    }
    let side = |there: bool, values: Map<String, Value>| if there { Value::Object(values) } else { Value::Null };
    json!({
        "pipeline": file,
        "test": test,
        "node": row.node,
        "row": row.name.json(),
        "ok": row.agrees(),
        "expected": side(row.presence != Presence::Extra, expected),
        "got": side(row.presence != Presence::Missing, got),
        "difference": difference,
    })
}
