//! A memory: its growth, its entries as of an iteration, the turns that read them, and what became of their episodes.

use super::answers::{nodes_with, up_to, within, RunTable, MOST, NAME};
use super::curves::curve;
use super::runs::ServedRun;
use super::Answer;
use crate::cli::error::{Error, Result};
use flow_log::sql::quoted;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// Over how many iterations episodes that read an entry are compared with others.
pub const COMPARED: u64 = 200;

/// How many iterations are looked at first for the entries of a memory.
const RECENT: u64 = 100;

/// The entries that a memory has after an iteration, and how many it had after each.
pub fn memory(run: &ServedRun, node: &str, iteration: u64) -> Answer {
    let table = RunTable::of(run, node)?;
    if !table.has("change") {
        return Err(Error::Request(format!("`{node}` is no memory that was logged")));
    }
    let first = first_iteration(run, &table, node, iteration)?;
    let entries = format!(
        "SELECT id, {0} AS kind, {1} AS key, {2} AS text, {3} AS score, \
         min(iteration) AS since, any_value(task) AS task, any_value(sample) AS sample, any_value(attempt) AS attempt, any_value(turn) AS turn \
         FROM {4} WHERE iteration BETWEEN {first} AND {iteration} GROUP BY id HAVING sum(change) > 0 ORDER BY score DESC, id LIMIT {5}",
        latest("kind"),
        latest("key"),
        latest("text"),
        latest("score"),
        table.name,
        MOST + 1
    );
    Ok(json!({ "growth": curve(run, node, "entries")?, "entries": within(run, first..=iteration, &entries)? }))
}

/// A column of an entry as it last came: one whose score moved leaves and comes in one iteration.
pub fn latest(column: &str) -> String {
    format!("arg_max({column}, iteration) FILTER (WHERE change > 0)")
}

/// The first iteration of the entries that are in the memory after `iteration`. To find them takes three columns of the
/// memory, and their texts are read from there on. If all came in the last [`RECENT`] iterations, as their number shows
/// (the figure `entries`), only these are read.
fn first_iteration(run: &ServedRun, table: &RunTable, node: &str, iteration: u64) -> Result<u64> {
    let sql = format!(
        "SELECT min(since), count(*) FROM (SELECT min(iteration) AS since FROM {} WHERE iteration <= {iteration} GROUP BY id HAVING sum(change) > 0)",
        table.name
    );
    let manifest = run.manifest()?;
    let before = manifest.committed.iter().rev().filter(|committed| committed.iteration <= iteration);
    let entries = before.filter_map(|committed| committed.metrics.get(node)?.get("entries").copied()).next();
    let recent = within(run, iteration.saturating_sub(RECENT - 1)..=iteration, &sql)?;
    let all = recent["rows"][0][1].as_f64() == entries;
    let answer = if all { recent } else { up_to(run, Some(iteration), &sql)? };
    Ok(answer["rows"][0][0].as_u64().unwrap_or(iteration))
}

/// A table of turns with their retrieved entries: of the training, where it has one.
pub fn readers(run: &ServedRun) -> Result<(RunTable, String)> {
    let tables = run.tables()?;
    let names_entries = |name: &str| name == "retrieved" || name.ends_with("_retrieved");
    let manifest = run.manifest()?;
    let node = |name: &str| manifest.info.nodes.iter().find(|node| node.id == name);
    let mut having: Vec<_> = tables
        .iter()
        .filter(|table| node(&table.name).is_some() && table.columns.iter().any(|(name, _)| name == "reward"))
        .filter_map(|table| Some((&table.name, table.columns.iter().find(|(name, _)| names_entries(name)).map(|(name, _)| quoted(name))?)))
        .collect();
    having.sort_by_key(|(name, _)| node(name).and_then(|node| node.role).is_some_and(|role| role.apart()));
    let (name, list) = having.into_iter().next().ok_or_else(|| Error::request("no node logged a column `retrieved`"))?;
    Ok((RunTable::of(run, name)?, list))
}

/// The iterations when an entry can have been retrieved: the ones when a memory had it, and as many after them as its
/// readers lag behind. All, where no memory was logged that had it.
fn known(run: &ServedRun, id: u64) -> Result<(u64, u64)> {
    let of = |name: &String| format!("SELECT iteration, change FROM {} WHERE id = {id}", quoted(name));
    let changes: Vec<String> = nodes_with(run, "change")?.iter().map(of).collect();
    if changes.is_empty() {
        return Ok((0, u64::MAX));
    }
    let sql = format!("SELECT min(iteration), max(iteration), sum(change) > 0 FROM ({})", changes.join(" UNION ALL "));
    let answer = up_to(run, None, &sql)?;
    let row = &answer["rows"][0];
    Ok(match (row[0].as_u64(), row[1].as_u64(), row[2].as_bool()) {
        (Some(first), Some(last), Some(false)) => (first, last.saturating_add(run.manifest()?.info.delay + 1)),
        (Some(first), _, _) => (first, u64::MAX),
        _ => (0, u64::MAX),
    })
}

/// The turns that retrieved an entry, the newest first, and whether their episodes were won.
pub fn retrievals(run: &ServedRun, id: &str) -> Answer {
    let id: u64 = id.parse().map_err(|_| Error::request("an entry is named by a number"))?;
    let (rows, list) = readers(run)?;
    let won = rows.maybe("won", "won", "won");
    let (first, last) = known(run, id)?;
    let sql = format!(
        "SELECT iteration, {NAME}, reward, {won} FROM {} WHERE iteration BETWEEN {first} AND {last} AND list_contains({list}, {id}) \
         ORDER BY iteration DESC, {NAME} LIMIT {}",
        rows.name,
        MOST + 1
    );
    let mut answer = within(run, first..=last, &sql)?;
    answer["text"] = texts(run, &[id])?.remove(&id).into();
    Ok(answer)
}

/// The newest texts of entries, also of entries that have left their memory.
fn texts(run: &ServedRun, ids: &[u64]) -> Result<BTreeMap<u64, String>> {
    let mut known = BTreeMap::new();
    let names = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    for node in nodes_with(run, "change")? {
        if ids.is_empty() || !RunTable::of(run, &node)?.has("text") {
            continue;
        }
        let sql = format!("SELECT id, {} AS text FROM {} WHERE id IN ({names}) GROUP BY id", latest("text"), quoted(&node));
        let answer = up_to(run, None, &sql)?;
        let rows = answer["rows"].as_array().into_iter().flatten();
        known.extend(rows.filter_map(|row| Some((number(&row[0])?, row[1].as_str()?.to_owned()))));
    }
    Ok(known)
}

/// A number of an answer: a text where a browser would round it.
fn number(cell: &Value) -> Option<u64> {
    cell.as_u64().or_else(|| cell.as_str()?.parse().ok())
}

/// For each retrieved entry: the episodes that retrieved it, and the others of the same tasks, from the first to the
/// last iteration with a retrieval.
pub fn effects(run: &ServedRun, iteration: u64) -> Answer {
    let (rows, list) = readers(run)?;
    let first = (iteration + 1).saturating_sub(COMPARED);
    let won = if rows.has("won") { "max(won::INT)" } else { "NULL::INT" };
    let sql = format!(
        "WITH episodes AS (SELECT iteration, task, sample, sum(reward) AS earned, {won} AS won, list_distinct(flatten(list({list}))) AS told \
         FROM {0} WHERE iteration BETWEEN {first} AND {iteration} GROUP BY ALL), \
         tasks AS (SELECT iteration, task, count(*) AS n, sum(earned) AS earned, sum(won) AS won FROM episodes GROUP BY ALL), \
         entries AS (SELECT id, task, min(iteration) AS first, max(iteration) AS last, count(*) AS n, sum(earned) AS earned, sum(won) AS won \
         FROM (SELECT iteration, task, earned, won, unnest(told) AS id FROM episodes) GROUP BY ALL), \
         pairs AS (SELECT e.id, e.n, e.earned, e.won, sum(t.n) - e.n AS other, sum(t.earned) - e.earned AS other_earned, sum(t.won) - e.won AS other_won \
         FROM entries e JOIN tasks t ON t.task = e.task AND t.iteration BETWEEN e.first AND e.last GROUP BY e.id, e.task, e.n, e.earned, e.won) \
         SELECT id, sum(n)::BIGINT AS told, sum(earned) / sum(n) AS return_with, sum(other_earned) / nullif(sum(other), 0) AS return_without, \
         return_with - return_without AS difference, sum(won) / sum(n) AS won_with, sum(other_won) / nullif(sum(other), 0) AS won_without \
         FROM pairs GROUP BY id ORDER BY difference DESC NULLS LAST, id LIMIT {1}",
        rows.name,
        MOST + 1
    );
    let mut answer = within(run, first..=iteration, &sql)?;
    answer["first"] = json!(first);
    let rows = answer["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let ids: Vec<u64> = rows.iter().filter_map(|row| number(&row[0])).collect();
    let texts = texts(run, &ids)?;
    if let Some(rows) = answer["rows"].as_array_mut() {
        let text = |row: &Value| number(&row[0]).and_then(|id| texts.get(&id));
        rows.iter_mut().for_each(|row| {
            let text = json!(text(row));
            row.as_array_mut().into_iter().for_each(|row| row.push(text.clone()))
        });
    }
    answer["columns"].as_array_mut().into_iter().for_each(|columns| columns.push("text".into()));
    Ok(answer)
}
