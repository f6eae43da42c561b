//! How a test went, for a person and for a program.

use super::compare::{ColumnComparison, Presence, RowComparison};
use crate::cli::colours::{GREEN, RED};
use crate::cli::error::Result;
use flow_core::columns::aligned;
use flow_core::printable::printable;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

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

/// One row of a test, with its expected and its actual columns.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct TestRow<'a> {
    pipeline: &'a str,
    test: &'a str,
    node: &'a str,
    /// The columns that name the row.
    row: Value,
    ok: bool,
    /// None where no such row is expected.
    expected: Option<Map<String, Value>>,
    /// None where there is no such row.
    got: Option<Map<String, Value>>,
    /// By column, of numbers.
    difference: BTreeMap<&'a str, f64>,
}

/// The end of a test: how many rows it compared and how many of them differ, or why it could not run.
#[derive(Default, serde::Serialize, schemars::JsonSchema)]
pub struct TestEnd<'a> {
    pipeline: &'a str,
    test: &'a str,
    ok: bool,
    error: Option<String>,
    rows: Option<usize>,
    differing: Option<usize>,
}

/// One object a row, and at the end one for the test.
pub fn json(file: &str, test: &str, outcome: &Comparisons) -> String {
    let mut lines = Vec::new();
    let mut end = TestEnd { pipeline: file, test, ..TestEnd::default() };
    match outcome {
        Err(why) => end.error = Some(why.text()),
        Ok(rows) => {
            lines.extend(rows.iter().map(|row| json!(object(file, test, row)).to_string()));
            let differing = rows.iter().filter(|r| !r.agrees()).count();
            (end.ok, end.rows, end.differing) = (differing == 0, Some(rows.len()), Some(differing));
        }
    }
    lines.push(json!(end).to_string());
    lines.join("\n")
}

fn object<'a>(file: &'a str, test: &'a str, row: &'a RowComparison) -> TestRow<'a> {
    let column = |c: &'a ColumnComparison| Some((c.name.as_str(), c.expected.difference(c.got.as_ref()?)?));
    let expected = row.columns.iter().map(|c| (c.name.clone(), c.expected.json())).collect();
    let got = row.columns.iter().map(|c| (c.name.clone(), c.got.as_ref().map_or(Value::Null, |g| g.json()))).collect();
    TestRow {
        pipeline: file,
        test,
        node: &row.node,
        row: row.name.json(),
        ok: row.agrees(),
        expected: (row.presence != Presence::Extra).then_some(expected),
        got: (row.presence != Presence::Missing).then_some(got),
        difference: row.columns.iter().filter_map(column).collect(),
    }
}
