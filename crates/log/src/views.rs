//! What a query can name: a view a logged node, the table `metrics`, and the joined views `trajectories` and
//! `provenance`.

use super::index::LogIndex;
use super::joined::{provenance, trajectories, Turns};
use super::sql::{literal, quoted, sql_type};
use super::{findings, pending, reader, Iteration, LogError, NodeInfo, Run, RunInfo, Table};
use duckdb::{params, Config, Connection, Result as Sql};
use flow_core::files::kernel_bytes;
use flow_core::role::Role;
use flow_core::row::{self, NAME};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// The table of failed episodes: it belongs to no node and exists in every run.
const ERRORS: &str = "errors";

/// The committed files of each logged node, and of the table `errors`.
pub(super) type NodeFiles<'a> = Vec<(&'a str, Vec<PathBuf>)>;

/// An in-memory DuckDB with the views over these files and figures, of the iterations in `within`; of the views and
/// macros that read several nodes, the ones that `asked` holds for. It can read these files and nothing else, and that
/// can't be undone by a query.
pub(super) fn connect(
    info: &RunInfo,
    nodes: &NodeFiles,
    iterations: &[Iteration],
    within: &RangeInclusive<u64>,
    asked: &dyn Fn(&str) -> bool,
) -> Sql<Connection> {
    let db = open()?;
    fill(&db, "main", info, nodes, iterations, within, asked)?;
    lock(&db, nodes)?;
    Ok(db)
}

/// The same for two runs, with the views of each in a schema of its own, and what tables there are in each.
pub(super) fn connect_both(sides: [(&str, &Run, &LogIndex, &[Iteration]); 2]) -> Result<(Connection, [Vec<Table>; 2]), LogError> {
    let all = [
        files(sides[0].1, sides[0].2, &(0..=u64::MAX), &|_, findings_files| !findings_files)?,
        files(sides[1].1, sides[1].2, &(0..=u64::MAX), &|_, findings_files| !findings_files)?,
    ];
    let build = || -> Sql<_> {
        let db = open()?;
        let mut tables_of_sides = [Vec::new(), Vec::new()];
        for (((schema, _, index, iterations), nodes), side_tables) in sides.iter().zip(&all).zip(&mut tables_of_sides) {
            db.execute_batch(&format!("CREATE SCHEMA {0}; SET schema = '{0}'", schema))?;
            fill(&db, schema, &index.head.info, nodes, iterations, &(0..=u64::MAX), &|_| true)?;
            *side_tables = tables(&db)?;
        }
        db.execute_batch("SET schema = 'main'")?;
        lock(&db, &all.concat())?;
        Ok((db, tables_of_sides))
    };
    Ok(build()?)
}

/// The files with rows of `within`; those of nodes that `verify` holds for, once the checksum of each is verified. It is
/// asked of tables beside the log as well, with `true`.
pub(super) fn files<'a>(
    run: &Run,
    index: &'a LogIndex,
    within: &RangeInclusive<u64>,
    verify: &dyn Fn(&str, bool) -> bool,
) -> Result<NodeFiles<'a>, LogError> {
    let run = run.absolute()?; // what may be read is compared by path
    let nodes = index.head.info.nodes.iter().map(|node| node.id.as_str());
    let files_of = |id: &'a str| {
        let pieces = index.files(run.root(), id, within)?;
        let there = if verify(id, false) {
            reader::verified_paths(&run, &pieces)
        } else {
            Ok(pieces.iter().map(|file| pending::locate(&run, &file.path)).collect())
        };
        Ok((id, there?))
    };
    let findings_files = findings::TABLES.iter().filter(|table| index.head.info.nodes.iter().all(|node| node.id != **table));
    let findings_files: Vec<_> =
        findings_files.map(|table| (*table, findings::files(&run, table))).filter(|(_, files)| !files.is_empty()).collect();
    let to_verify = findings_files.iter().filter(|(table, _)| verify(table, true)).flat_map(|(_, files)| files);
    to_verify.into_iter().try_for_each(|file| run.verified(file, || findings::verify(file)))?;
    nodes.chain([ERRORS]).map(files_of).chain(findings_files.into_iter().map(Ok)).collect()
}

/// The memory that a query may always use, in bytes.
const LEAST: u64 = 256 << 20;

/// An in-memory DuckDB without a table, which can read no file.
pub(super) fn empty_database() -> Sql<Connection> {
    let db = open()?;
    lock(&db, &Vec::new())?;
    Ok(db)
}

fn open() -> Sql<Connection> {
    // On one thread sums of floats are added in one order, and come out the same each time.
    let db = Connection::open_in_memory_with_flags(Config::default().enable_autoload_extension(false)?.threads(1)?)?;
    db.execute_batch("SET autoinstall_known_extensions = false; SET temp_directory = ''; SET parquet_metadata_cache = true")?;
    // Half of the free memory: a question must not take the machine from the run beside it. Where that isn't known,
    // DuckDB's own limit stands.
    if let Some(free) = kernel_bytes("/proc/meminfo".as_ref(), "MemAvailable:") {
        db.execute_batch(&format!("SET memory_limit = '{}MiB'", (free / 2).max(LEAST) >> 20))?;
    }
    Ok(db)
}

fn lock(db: &Connection, nodes: &NodeFiles) -> Sql<()> {
    let readable: Vec<PathBuf> = nodes.iter().flat_map(|(_, files)| files.iter().cloned()).collect();
    if !readable.is_empty() {
        db.execute_batch(&format!("SET allowed_paths = {}", list(&readable)))?;
    }
    db.execute_batch("SET enable_external_access = false; SET lock_configuration = true")
}

/// The views and macros that read several nodes.
pub(super) const JOINED: [&str; 4] = ["memory_at", "clusters_at", "trajectories", "provenance"];

/// Makes the views of one run in the schema that is set.
fn fill(
    db: &Connection,
    schema: &str,
    info: &RunInfo,
    nodes: &NodeFiles,
    iterations: &[Iteration],
    within: &RangeInclusive<u64>,
    asked: &dyn Fn(&str) -> bool,
) -> Sql<()> {
    // A file of many iterations may have rows of others.
    let all = *within == (0..=u64::MAX);
    let only = if all { String::new() } else { format!(" WHERE iteration BETWEEN {} AND {}", within.start(), within.end()) };
    for (id, files) in nodes {
        let source = if files.is_empty() {
            match info.nodes.iter().find(|n| n.id == *id) {
                None => empty(&row::ERRORS),
                Some(node) if node.columns.is_empty() => empty(&NAME),
                Some(node) => empty(&node.columns.iter().map(String::as_str).collect::<Vec<_>>()),
            }
        } else {
            // An empty text is no JSON, and `info->>'x'` would be refused.
            let figures = info.nodes.iter().any(|n| n.id == *id && n.columns.iter().any(|column| column == "info"));
            let columns = if figures { "SELECT * REPLACE (nullif(info, '') AS info) " } else { "" };
            format!("{columns}FROM read_parquet({}, hive_partitioning = false){only}", list(files))
        };
        db.execute_batch(&format!("CREATE VIEW {} AS {source}", quoted(id)))?;
    }
    metrics(db, schema, iterations)?;
    // To make one takes as long as most questions do: a view that the query doesn't name isn't made.
    if !JOINED.into_iter().any(asked) {
        return Ok(());
    }
    let columns = nodes.iter().map(|(id, _)| Ok(((*id).to_owned(), columns(db, id)?))).collect::<Sql<BTreeMap<_, _>>>()?;
    let turns: Vec<Turns> = info
        .nodes
        .iter()
        // What isn't of the training's rollouts has a table of its own and no place in `trajectories`.
        .filter(|n| !n.apart())
        .filter_map(|n| {
            let turns = Turns { id: &n.id, columns: columns.get(&n.id)?, upstream: &n.upstream };
            NAME.iter().all(|c| turns.has(c)).then_some(turns)
        })
        .collect();
    let view = |name: &str, sql: Option<String>| sql.map(|sql| format!("CREATE VIEW {name} AS {sql}"));
    for name in JOINED.into_iter().filter(|name| asked(name)) {
        let sql = match name {
            "memory_at" => memory_at(info, &columns),
            "clusters_at" => clusters_at(info, &columns),
            "trajectories" => view(name, trajectories(&turns)),
            _ => view(name, provenance(&turns)),
        };
        sql.map_or(Ok(()), |sql| db.execute_batch(&sql))?;
    }
    Ok(())
}

/// The columns of a table or view. [`tables`] says the same of all, and makes all of DuckDB's own views for it.
fn columns(db: &Connection, table: &str) -> Sql<Vec<String>> {
    let mut statement = db.prepare(&format!("SELECT name FROM pragma_table_info({})", literal(&quoted(table))))?;
    let names = statement.query_map([], |row| row.get(0))?.collect();
    names
}

/// The table macro `memory_at(iteration)`: the entries of the run's memories after that iteration, each with the
/// iteration when it came or got its score. None for a run without a memory.
fn memory_at(info: &RunInfo, columns: &BTreeMap<String, Vec<String>>) -> Option<String> {
    let memories = info.nodes.iter().filter(|node| node.role == Some(Role::Remembers) && columns.contains_key(&node.id));
    let entries_of = |node: &NodeInfo| {
        let (name, id) = (literal(&node.id), quoted(&node.id));
        format!(
            // An entry whose score moved has left and come again: it is there while it came more often than it left, as
            // it came last.
            "SELECT {name} AS node, * EXCLUDE (change) FROM (FROM {id} WHERE iteration <= at_iteration \
             QUALIFY sum(change) OVER (PARTITION BY id) > 0 AND change > 0 \
             AND row_number() OVER (PARTITION BY id, change ORDER BY iteration DESC) = 1)"
        )
    };
    let parts: Vec<String> = memories.map(entries_of).collect();
    (!parts.is_empty()).then(|| format!("CREATE MACRO memory_at(at_iteration) AS TABLE {}", parts.join(" UNION ALL BY NAME ")))
}

/// The table macro `clusters_at(iteration)`: the clusters of the run that there were after that iteration, in the order
/// of comparison with observations, each with the row that founded it. None for a run without clusters.
fn clusters_at(info: &RunInfo, columns: &BTreeMap<String, Vec<String>>) -> Option<String> {
    let maintains = |node: &&NodeInfo| columns.get(&node.id).is_some_and(|own| own.iter().any(|column| column == "prototype"));
    let clusters_of = |node: &NodeInfo| {
        let (name, id) = (literal(&node.id), quoted(&node.id));
        let order = "iteration, task, sample, attempt, turn, phase";
        format!("SELECT {name} AS node, {order}, cluster, prototype FROM {id} WHERE prototype <> '' AND iteration <= at_iteration")
    };
    let parts: Vec<String> = info.nodes.iter().filter(maintains).map(clusters_of).collect();
    let order = "node, iteration, task, sample, attempt, turn, phase";
    let all = parts.join(" UNION ALL BY NAME ");
    (!parts.is_empty()).then(|| format!("CREATE MACRO clusters_at(at_iteration) AS TABLE FROM ({all}) ORDER BY {order}"))
}

/// A table with these columns and no row.
pub(super) fn empty(columns: &[&str]) -> String {
    let column = |name: &&str| row::kind(name).map(|kind| format!("CAST(NULL AS {}) AS {}", sql_type(kind), quoted(name)));
    format!("SELECT {} WHERE false", columns.iter().filter_map(column).collect::<Vec<_>>().join(", "))
}

fn metrics(db: &Connection, schema: &str, iterations: &[Iteration]) -> Sql<()> {
    db.execute_batch("CREATE TABLE metrics (iteration UBIGINT, node VARCHAR, name VARCHAR, value DOUBLE)")?;
    let mut rows = db.appender_to_db("metrics", schema)?;
    for i in iterations {
        for (node, values) in &i.metrics {
            for (name, value) in values {
                rows.append_row(params![i.iteration, node, name, value])?;
            }
        }
    }
    rows.flush()
}

/// The tables and views there are in the schema that is set, with their columns.
pub(super) fn tables(db: &Connection) -> Sql<Vec<Table>> {
    let mut statement = db.prepare(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal AND schema_name = current_schema() \
         ORDER BY table_oid, table_name, column_index",
    )?;
    let rows = statement.query_map([], |r| Ok((r.get::<_, String>(0)?, (r.get(1)?, r.get(2)?))))?;
    let mut tables: Vec<Table> = Vec::new();
    for row in rows {
        let (name, column) = row?;
        match tables.last_mut() {
            Some(table) if table.name == name => table.columns.push(column),
            _ => tables.push(Table { name, columns: vec![column] }),
        }
    }
    Ok(tables)
}

fn list(files: &[PathBuf]) -> String {
    let texts: Vec<String> = files.iter().map(|f| literal(&f.display().to_string())).collect();
    format!("[{}]", texts.join(", "))
}
