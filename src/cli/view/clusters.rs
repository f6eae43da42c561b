//! Clusters that last over iterations: those of observations, which a node with `op: cluster` keeps, and those of the
//! entries of a memory with `per: cluster`, which are its buckets.

use super::answers::{nodes_with, up_to, RunTable, MOST, NAME};
use super::graph::drawn;
use super::memory::latest;
use super::memory::{readers, COMPARED};
use super::runs::ServedRun;
use super::Answer;
use crate::cli::error::{Error, Result};
use flow_log::sql::{literal, quoted};
use serde_json::{json, Value};

/// The logged nodes that keep clusters.
pub fn nodes(run: &ServedRun) -> Result<Vec<String>> {
    let graph = drawn(run).as_ref().ok().and_then(|graph| graph["nodes"].as_array());
    let by_cluster = |id: &str| graph.into_iter().flatten().any(|node| node["id"] == id && node["with"]["per"] == "cluster");
    let memories = nodes_with(run, "bucket")?.into_iter().filter(|id| by_cluster(id));
    Ok(nodes_with(run, "prototype")?.into_iter().chain(memories).collect())
}

/// The table of a node that keeps clusters.
fn keeper(run: &ServedRun, node: &str) -> Result<RunTable> {
    if nodes(run)?.iter().any(|known| known == node) {
        return RunTable::of(run, node);
    }
    let why = format!("`{node}` has no clusters in the log: a node with `op: cluster` keeps some, and a memory with `per: cluster`");
    Err(Error::Request(why))
}

/// The clusters after an iteration, the largest first, each with its prototype and the row that founded it. `told`
/// counts the turns since the iteration `first` that were given an entry of a memory: turns of the cluster, or given an
/// entry of it.
pub fn clusters(run: &ServedRun, node: &str, iteration: u64) -> Answer {
    let table = keeper(run, node)?;
    let first = (iteration + 1).saturating_sub(COMPARED);
    let of_turns = table.has("prototype");
    let parts = if of_turns { observed(run, &table, iteration)? } else { remembered(&table, iteration) };
    let entries = if of_turns && !nodes_with(run, "change")?.is_empty() { "coalesce(entries, 0)" } else { "NULL" };
    let (mut retrieved, mut turns) = ("NULL", String::new());
    if let Ok((rows, list)) = readers(run) {
        let reading = format!(
            "SELECT iteration, {NAME}, {list} AS list FROM {} WHERE iteration BETWEEN {first} AND {iteration} AND len({list}) > 0",
            rows.name
        );
        let of_cluster = match of_turns {
            true => format!("({reading}) JOIN cluster_rows USING (iteration, {NAME})"),
            false => {
                format!("(SELECT *, unnest(list) AS id FROM ({reading})) JOIN (SELECT DISTINCT id, cluster FROM cluster_rows) USING (id)")
            }
        };
        turns = format!(
            " LEFT JOIN (SELECT cluster, count(*) AS told FROM (SELECT DISTINCT cluster, iteration, {NAME} FROM {of_cluster}) GROUP BY cluster) USING (cluster)"
        );
        retrieved = "coalesce(told, 0)";
    }
    let sql = format!(
        "WITH {parts} SELECT cluster, prototype, coalesce(members, 0) AS members, {retrieved} AS told, {entries} AS entries, since, task, sample, \
         attempt, turn FROM cluster_founders LEFT JOIN cluster_sizes USING (cluster) LEFT JOIN cluster_entries USING (cluster){turns} \
         ORDER BY members DESC, since, cluster LIMIT {}",
        MOST + 1
    );
    let mut answer = up_to(run, Some(iteration), &sql)?;
    answer["first"] = json!(first);
    Ok(answer)
}

/// The clusters of observations, whose members are turns. Their entries are those of a memory that were written at such
/// a turn, or linked to the cluster, and are still there.
fn observed(run: &ServedRun, table: &RunTable, iteration: u64) -> Result<String> {
    Ok(format!(
        "{}, cluster_founders AS (SELECT cluster, prototype, iteration AS since, task, sample, attempt, turn FROM cluster_rows WHERE prototype <> ''), \
         cluster_sizes AS (SELECT cluster, count(*) AS members FROM cluster_rows GROUP BY cluster), \
         cluster_entries AS (SELECT cluster, count(DISTINCT (memory, id)) AS entries FROM cluster_pool GROUP BY cluster)",
        pools(run, table, iteration, None)?
    ))
}

/// The rows of the clusters of observations up to an iteration, and the entries of each that are still there; of one
/// cluster with their texts.
fn pools(run: &ServedRun, table: &RunTable, iteration: u64, one: Option<u64>) -> Result<String> {
    let (which, text) = match one {
        Some(id) => (format!("cluster = {id}"), format!(", {} AS text", latest("text"))),
        None => ("cluster <> 0".into(), String::new()),
    };
    let entries = |memory: &String| {
        format!(
            "SELECT {} AS memory, id, any_value(source) AS source, any_value(task) AS task, any_value(sample) AS sample, \
             any_value(attempt) AS attempt, any_value(turn) AS turn{text} FROM {} WHERE iteration <= {iteration} GROUP BY id HAVING sum(change) > 0",
            literal(memory),
            quoted(memory)
        )
    };
    let mut all: Vec<String> = nodes_with(run, "change")?.iter().map(entries).collect();
    if all.is_empty() {
        all.push(
            "SELECT '' AS memory, 0 AS id, 0 AS source, '' AS task, 0 AS sample, 0 AS attempt, 0 AS turn, '' AS text WHERE false".into(),
        );
    }
    Ok(format!(
        "cluster_rows AS MATERIALIZED (SELECT iteration, {NAME}, cluster, prototype, linked FROM {} WHERE iteration <= {iteration} AND {which}), \
         cluster_memory AS MATERIALIZED ({}), \
         cluster_pool AS (SELECT cluster, memory, id, false AS linked FROM cluster_memory e JOIN cluster_rows r ON r.iteration = e.source \
         AND r.task = e.task AND r.sample = e.sample AND r.attempt = e.attempt AND r.turn = e.turn UNION ALL \
         SELECT cluster, memory, id, true FROM (SELECT cluster, unnest(linked) AS id FROM cluster_rows) JOIN cluster_memory USING (id))",
        table.name,
        all.join(" UNION ALL ")
    ))
}

/// The clusters of a memory, whose members are the entries that are still there. A cluster has the name of the entry
/// that founded it.
fn remembered(table: &RunTable, iteration: u64) -> String {
    format!(
        "cluster_rows AS MATERIALIZED (SELECT bucket AS cluster, id, change, key, source, task, sample, attempt, turn FROM {} WHERE iteration <= {iteration}), \
         cluster_founders AS (SELECT cluster, any_value(key) AS prototype, min(source) AS since, any_value(task) AS task, any_value(sample) AS sample, \
         any_value(attempt) AS attempt, any_value(turn) AS turn FROM cluster_rows WHERE id = cluster GROUP BY cluster), \
         cluster_sizes AS (SELECT cluster, count(*) AS members FROM \
         (SELECT cluster FROM cluster_rows GROUP BY cluster, id HAVING sum(change) > 0) GROUP BY cluster), \
         cluster_entries AS (SELECT NULL::UBIGINT AS cluster, NULL::BIGINT AS entries WHERE false)",
        table.name
    )
}

/// The members of a cluster after an iteration, the newest first; of observations also the entries of memories that it
/// has.
pub fn cluster(run: &ServedRun, node: &str, iteration: u64, id: u64) -> Answer {
    let table = keeper(run, node)?;
    if !table.has("prototype") {
        let members = format!(
            "SELECT id, source AS iteration, any_value(task) AS task, any_value(sample) AS sample, any_value(attempt) AS attempt, \
             any_value(turn) AS turn, {} AS text, {} AS score FROM (SELECT * FROM {} \
             WHERE bucket = {id} AND iteration <= {iteration}) GROUP BY id, source HAVING sum(change) > 0 ORDER BY source DESC, id LIMIT {}",
            latest("text"),
            latest("score"),
            table.name,
            MOST + 1
        );
        return Ok(json!({ "members": up_to(run, Some(iteration), &members)?, "entries": Value::Null }));
    }
    let members = format!(
        "SELECT iteration, task, sample, attempt, turn, prototype <> '' AS founded, len(linked) AS linked FROM {} \
         WHERE cluster = {id} AND iteration <= {iteration} ORDER BY iteration DESC, {NAME} LIMIT {}",
        table.name,
        MOST + 1
    );
    let entries = format!(
        "WITH {} SELECT memory, id, any_value(text) AS text, bool_and(linked) AS linked FROM cluster_pool JOIN cluster_memory USING (memory, id) \
         GROUP BY memory, id ORDER BY memory, id LIMIT {}",
        pools(run, &table, iteration, Some(id))?,
        MOST + 1
    );
    Ok(json!({ "members": up_to(run, Some(iteration), &members)?, "entries": up_to(run, Some(iteration), &entries)? }))
}
