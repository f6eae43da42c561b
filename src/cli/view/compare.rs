//! Where two runs part: the first iteration with different episodes, and its rows that differ.

use super::answers::RunTable;
use super::runs::ServedRun;
use super::Answer;
use crate::cli::error::{Error, Result};
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The most rows that are shown.
const ROWS: usize = 20;

/// What is compared of a turn, as far as both runs logged it.
const COLUMNS: [&str; 5] = ["observation", "response", "action", "reward", "won"];

/// The columns of a row's name within its iteration.
const NAME: [&str; 5] = ["task", "sample", "attempt", "turn", "phase"];

/// The first difference between the episodes of two runs.
pub fn first(a: &ServedRun, b: &ServedRun) -> Answer {
    let (node_a, node_b) = (player(a)?, player(b)?);
    let (table_a, table_b) = (RunTable::of(a, &node_a)?, RunTable::of(b, &node_b)?);
    let columns: Vec<&str> = COLUMNS.into_iter().filter(|column| table_a.has(column) && table_b.has(column)).collect();
    let (sums_a, sums_b) = (sums(a, &table_a, &columns)?, sums(b, &table_b, &columns)?);
    let iterations: BTreeSet<u64> = sums_a.keys().chain(sums_b.keys()).copied().collect();
    let Some(iteration) = iterations.into_iter().find(|iteration| sums_a.get(iteration) != sums_b.get(iteration)) else {
        return Ok(json!({ "equal": true, "iterations": sums_a.len() }));
    };
    let (rows_a, rows_b) = (rows(a, &table_a, &columns, iteration)?, rows(b, &table_b, &columns, iteration)?);
    let tasks = |rows: &Rows| rows.keys().map(|name| name[0].clone()).collect::<BTreeSet<String>>();
    let both = tasks(&rows_a).intersection(&tasks(&rows_b)).count();
    let names: BTreeSet<&Vec<String>> = rows_a.keys().chain(rows_b.keys()).collect();
    let differing: Vec<&Vec<String>> = names.into_iter().filter(|name| rows_a.get(*name) != rows_b.get(*name)).collect();
    let row = |name: &&Vec<String>| {
        let side = |rows: &Rows| rows.get(*name).map(|(_, row)| row.clone());
        json!({ "name": name_of(name, [&rows_a, &rows_b]), "a": side(&rows_a), "b": side(&rows_b) })
    };
    // Rows that one run alone has say less than a turn that was taken otherwise.
    let (shared, alone): (Vec<_>, Vec<_>) = differing.iter().partition(|name| rows_a.contains_key(**name) && rows_b.contains_key(**name));
    Ok(json!({
        "equal": false, "iteration": iteration, "node": node_a, "tasks_in_both": both, "rows": [rows_a.len(), rows_b.len()], "differ": differing.len(),
        "first": shared.into_iter().chain(alone).take(ROWS).map(row).collect::<Vec<_>>(),
    }))
}

/// A node whose rows are turns of training.
fn player(run: &ServedRun) -> Result<String> {
    let manifest = run.manifest()?;
    let has = |columns: &[String], name: &str| columns.iter().any(|column| column == name);
    let plays = |node: &&flow_log::NodeInfo| {
        has(&node.columns, "response") && has(&node.columns, "reward") && !node.role.is_some_and(|role| role.apart())
    };
    let node = manifest.info.nodes.iter().find(plays).map(|node| node.id.clone());
    node.ok_or_else(|| Error::Request(format!("{} logged no turns of episodes", run.folder)))
}

/// A hash of the rows of each iteration, in whatever order they lie.
fn sums(run: &ServedRun, table: &RunTable, columns: &[&str]) -> Result<BTreeMap<u64, Value>> {
    let hashed = NAME.iter().chain(columns).copied().collect::<Vec<_>>().join(", ");
    let manifest = run.manifest()?;
    let sql =
        format!("SELECT bit_xor(hash({hashed}))::VARCHAR || ' ' || count(*) AS sum, iteration FROM {} GROUP BY iteration", table.name);
    let answer = flow_log::query(&run.run, &sql)?;
    let all = super::cells::table(&sql, &answer, manifest.committed.len() + 1)?;
    let rows = all["rows"].as_array().into_iter().flatten();
    Ok(rows.filter_map(|row| Some((row[1].as_u64()?, row[0].clone()))).collect())
}

/// Rows by their names within an iteration: the name as it was logged, and the values that are compared.
type Rows = BTreeMap<Vec<String>, (Value, Value)>;

fn rows(run: &ServedRun, table: &RunTable, columns: &[&str], iteration: u64) -> Result<Rows> {
    let selected = NAME.iter().chain(columns).copied().collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT {selected} FROM {} WHERE iteration = {iteration} ORDER BY {}", table.name, NAME.join(", "));
    let answer = flow_log::query_within(&run.run, iteration..=iteration, &sql)?;
    let all = super::cells::table(&sql, &answer, usize::MAX)?;
    let part = |row: &Value, from: usize, names: &[&str]| -> Value {
        names.iter().enumerate().map(|(i, name)| ((*name).to_owned(), row[from + i].clone())).collect::<Map<_, _>>().into()
    };
    // Numbers sort as numbers.
    let key =
        |value: &Value| value.as_u64().map_or_else(|| value.as_str().unwrap_or_default().to_owned(), |number| format!("{number:020}"));
    let rows = all["rows"].as_array().into_iter().flatten();
    Ok(rows.map(|row| ((0..NAME.len()).map(|i| key(&row[i])).collect(), (part(row, 0, &NAME), part(row, NAME.len(), columns)))).collect())
}

fn name_of(name: &[String], sides: [&Rows; 2]) -> Value {
    sides.into_iter().find_map(|rows| rows.get(name)).map_or(Value::Null, |(name, _)| name.clone())
}
