//! What is asked of two runs in SQL, for [`super::diff`].

use super::moved::{CreditDiff, NodeDiff, RowCounts, UsedDiff};
use crate::index::LogIndex;
use crate::query::ask;
use crate::readers::ReadLock;
use crate::sql::quoted;
use crate::views::{connect_both, empty};
use crate::{print, AnswerFormat, LogError, Run, Table};
use duckdb::Connection;
use flow_core::row::{ERRORS, NAME};
use serde_json::Value;
use std::path::PathBuf;

/// Name and SQL type.
type TypedColumns = Vec<(String, String)>;

fn has(columns: &TypedColumns, name: &str) -> bool {
    columns.iter().any(|(c, _)| c == name)
}

/// Two runs in one database, as the schemas `a` and `b`.
pub(super) struct RunPair {
    db: Connection,
    _reading: [ReadLock; 2],
    tables: [Vec<Table>; 2],
    /// The nodes with named rows and their columns, in topological order.
    sides: [Vec<(String, TypedColumns)>; 2],
    roots: [PathBuf; 2],
    /// Whether one of them is a replay, which plays no episode.
    replay: bool,
}

const JOINED: &str = "x.task IS NOT NULL AND y.task IS NOT NULL";
const SHARED: &str = "count(*) FILTER (WHERE x.task IS NOT NULL AND y.task IS NOT NULL), \
                      count(*) FILTER (WHERE y.task IS NULL), count(*) FILTER (WHERE x.task IS NULL)";

/// Columns that are shown of a row whose advantage moved.
const MORE: [&str; 3] = ["return", "baseline", "logit_grad"];

fn key() -> String {
    NAME.map(quoted).join(", ")
}

impl RunPair {
    pub fn open(a: &Run, b: &Run) -> Result<RunPair, LogError> {
        let reading = [ReadLock::begin(a), ReadLock::begin(b)];
        let (of_a, of_b) = (LogIndex::read(a.root())?, LogIndex::read(b.root())?);
        let committed = [of_a.committed(a.root(), 0..=u64::MAX)?, of_b.committed(b.root(), 0..=u64::MAX)?];
        // Values called equal are equal as committed, to the last bit.
        let (db, tables) = connect_both([("a", a, &of_a, &committed[0]), ("b", b, &of_b, &committed[1])])?;
        let named = |manifest: &LogIndex, tables: &[Table]| {
            let columns_of = |id: &str| tables.iter().find(|t| t.name == id).map(|t| t.columns.clone()).unwrap_or_default();
            let all = manifest.head.info.nodes.iter().map(|n| (n.id.clone(), columns_of(&n.id)));
            all.filter(|(_, columns)| NAME.iter().all(|n| has(columns, n))).collect()
        };
        let sides = [named(&of_a, &tables[0]), named(&of_b, &tables[1])];
        let replay = [&of_a, &of_b].iter().any(|index| index.head.info.replays.is_some());
        Ok(RunPair { db, _reading: reading, tables, sides, roots: [a, b].map(|run| run.root().to_owned()), replay })
    }

    /// The nodes to compare by `column`: the one asked for, else the last that has it in both, else the last of each.
    pub fn pick(&self, column: &str, node: Option<&str>) -> Option<(String, String)> {
        let having = |side: usize| self.sides[side].iter().filter(|(_, c)| has(c, column)).map(|(id, _)| id.clone()).collect::<Vec<_>>();
        let (a, b) = (having(0), having(1));
        let same = a.iter().rev().find(|id| b.contains(id) && node.is_none_or(|node| node == *id));
        match same {
            Some(id) => Some((id.clone(), id.clone())),
            None => Some((a.last()?.clone(), b.last()?.clone())),
        }
    }

    /// Insists that both logged `column` of `node`.
    pub fn require_column(&self, node: &str, column: &str) -> Result<(), LogError> {
        let having = |side: usize| self.sides[side].iter().filter(|(_, c)| has(c, column)).map(|(id, _)| id.as_str()).collect::<Vec<_>>();
        let (a, b) = (having(0), having(1));
        if a.contains(&node) && b.contains(&node) {
            return Ok(());
        }
        let known: Vec<&str> = a.into_iter().filter(|id| b.contains(id)).collect();
        let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
        Err(LogError::Sql(format!("`{node}` is no node with `{column}` in both runs; there are: {known}")))
    }

    /// The joined turns of a side, empty where it logged none.
    fn turns(&self, side: usize) -> String {
        let logged = self.tables[side].iter().any(|t| t.name == "trajectories");
        if logged {
            format!("{}.trajectories", ["a", "b"][side])
        } else {
            format!("({})", empty(&NAME))
        }
    }

    /// Whether the joined turns of a side have a column.
    fn turns_have(&self, side: usize, column: &str) -> bool {
        self.tables[side].iter().any(|t| t.name == "trajectories" && has(&t.columns, column))
    }

    fn counts(&self, select: &str, from: &str) -> Result<Vec<u64>, LogError> {
        let mut statement = self.db.prepare(&format!("SELECT {select} FROM {from}"))?;
        let mut rows = statement.query([])?;
        let row = rows.next()?.ok_or(duckdb::Error::QueryReturnedNoRows)?;
        let width = row.as_ref().column_count();
        (0..width).map(|i| Ok(row.get::<_, i64>(i)? as u64)).collect()
    }

    pub fn shared(&self) -> Result<RowCounts, LogError> {
        let from = format!("{} x FULL JOIN {} y USING ({})", self.turns(0), self.turns(1), key());
        Ok(shared(&self.counts(SHARED, &from)?))
    }

    /// Counts the failed episodes; the text of an error is not compared. None where one run is a replay.
    pub fn errors(&self) -> Result<Option<RowCounts>, LogError> {
        if self.replay {
            return Ok(None);
        }
        let columns = ERRORS.map(quoted).into_iter().filter(|column| *column != quoted("error")).collect::<Vec<_>>().join(", ");
        let only = |x: &str, y: &str| {
            let from = format!("(SELECT {columns} FROM {x}.errors EXCEPT ALL SELECT {columns} FROM {y}.errors)");
            Ok::<_, LogError>(self.counts("count(*)", &from)?[0])
        };
        let (all, only_a, only_b) = (self.counts("count(*)", "a.errors")?[0], only("a", "b")?, only("b", "a")?);
        Ok(Some(RowCounts { both: all - only_a, only_a, only_b }))
    }

    pub fn other_turns(&self) -> Result<Option<u64>, LogError> {
        let logged = ["state", "response_tokens"].iter().all(|c| self.turns_have(0, c) && self.turns_have(1, c));
        if !logged {
            return Ok(None);
        }
        let other = "count(*) FILTER (WHERE x.state IS DISTINCT FROM y.state OR hash(x.response_tokens) <> hash(y.response_tokens))";
        let from = format!("a.trajectories x JOIN b.trajectories y USING ({})", key());
        Ok(self.counts(other, &from)?.first().copied())
    }

    pub fn nodes(&self) -> Result<Vec<NodeDiff>, LogError> {
        let mut diffs = Vec::new();
        for (node, columns) in &self.sides[0] {
            let Some((_, theirs)) = self.sides[1].iter().find(|(id, _)| id == node) else { continue };
            // Several entries of a memory may have left in one iteration that came from rows of one name in different
            // iterations; and one whose score moved leaves and comes.
            let more: Vec<&str> = ["id", "change"].into_iter().filter(|column| has(columns, column) && has(theirs, column)).collect();
            let keys: String = more.iter().map(|column| format!(", {column}")).collect();
            let names_rows = |column: &str| NAME.contains(&column) || more.contains(&column);
            let compared: Vec<&(String, String)> = columns.iter().filter(|(c, _)| !names_rows(c) && has(theirs, c)).collect();
            let mut select = SHARED.to_string();
            for (column, kind) in &compared {
                // A list is compared by its hash: a join that holds all prompts twice would be large.
                let value_of = |side: &str| {
                    if kind.ends_with("[]") {
                        format!("hash({side}.{})", quoted(column))
                    } else {
                        format!("{side}.{}", quoted(column))
                    }
                };
                select += &format!(", count(*) FILTER (WHERE {JOINED} AND {} IS DISTINCT FROM {})", value_of("x"), value_of("y"));
            }
            let from = format!("a.{0} x FULL JOIN b.{0} y USING ({1}{keys})", quoted(node), key());
            let counts = self.counts(&select, &from)?;
            self.require_unique_names(node, &keys)?;
            let differ = compared.iter().zip(&counts[3..]).filter(|(_, n)| **n > 0).map(|((c, _), n)| (c.clone(), *n)).collect();
            let only =
                |one: &TypedColumns, other: &TypedColumns| one.iter().filter(|(c, _)| !has(other, c)).map(|(c, _)| c.clone()).collect();
            let (columns_only_a, columns_only_b) = (only(columns, theirs), only(theirs, columns));
            diffs.push(NodeDiff {
                node: node.clone(),
                rows: shared(&counts),
                compared: compared.len(),
                differ,
                columns_only_a,
                columns_only_b,
            });
        }
        Ok(diffs)
    }

    /// Insists that no name stands twice in the table of `node` on either side, with further columns `id` where they count: a
    /// join would count it as rows in both.
    fn require_unique_names(&self, node: &str, id: &str) -> Result<(), LogError> {
        for (side, root) in ["a", "b"].iter().zip(&self.roots) {
            let table = format!("{side}.{}", quoted(node));
            let counts = self.counts(&format!("count(*), (SELECT count(*) FROM (SELECT DISTINCT {}{id} FROM {table}))", key()), &table)?;
            if counts[0] != counts[1] {
                return Err(LogError::Twice { node: node.into(), root: root.clone() });
            }
        }
        Ok(())
    }

    pub fn credit(&self, (a, b): (String, String), top: usize) -> Result<CreditDiff, LogError> {
        self.moves(&a, &b)?;
        let rows = self.counts(
            "count(*), count(*) FILTER (WHERE a IS DISTINCT FROM b), count(*) FILTER (WHERE a * b < 0), \
             count(*) FILTER (WHERE a <> 0 AND b = 0), count(*) FILTER (WHERE a = 0 AND b <> 0)",
            "moves",
        )?;
        let moved = "SELECT avg(abs(move)) FILTER (WHERE move <> 0), max(abs(move)) FILTER (WHERE move <> 0), corr(a, b) FILTER (WHERE isfinite(a) AND isfinite(b)) \
                     FROM moves";
        let (mean_move, max_move, correlation) = self.db.query_row(moved, [], |r| {
            let figure = |i| r.get::<_, Option<f64>>(i).map(|x| x.filter(|x| x.is_finite()));
            Ok((figure(0)?, figure(1)?, figure(2)?))
        })?;
        // Advantages that changed are ranked by their effect: how much the row moved the policy, on the side where that
        // is more.
        let weighed = (0..2).all(|side| self.turns_have(side, "logit_grad"));
        let by = if weighed { "greatest(coalesce(logit_grad_a, 0), coalesce(logit_grad_b, 0)) DESC, " } else { "" };
        let select = "a AS advantage_a, b AS advantage_b, move";
        Ok(CreditDiff {
            by_gradient: weighed,
            node_a: a,
            node_b: b,
            rows: rows[0],
            moved: rows[1],
            mean_move,
            max_move,
            turned: rows[2],
            to_zero: rows[3],
            from_zero: rows[4],
            correlation,
            up: self.examples("moves", select, "move > 0", &format!("{by}move DESC"), top)?,
            down: self.examples("moves", select, "move < 0", &format!("{by}move"), top)?,
        })
    }

    /// Makes the table `moves`: the advantages on both sides, with [`MORE`] as far as it is logged.
    fn moves(&self, a: &str, b: &str) -> Result<(), LogError> {
        let mut select =
            "x.advantage::DOUBLE AS a, y.advantage::DOUBLE AS b, y.advantage::DOUBLE - x.advantage::DOUBLE AS move".to_string();
        for column in MORE {
            for (side, node, name) in [(0, a, "x"), (1, b, "y")] {
                let own = self.sides[side].iter().any(|(id, columns)| id == node && has(columns, column));
                let from = if own { name } else { ["t", "u"][side] };
                let exists = own || self.turns_have(side, column);
                let value = if exists { format!("{from}.{}::DOUBLE", quoted(column)) } else { "NULL::DOUBLE".into() };
                select += &format!(", {value} AS {column}_{}", ["a", "b"][side]);
            }
        }
        let key = key();
        let from = format!("a.{} x JOIN b.{} y USING ({key})", quoted(a), quoted(b));
        let more = format!("LEFT JOIN {} t USING ({key}) LEFT JOIN {} u USING ({key})", self.turns(0), self.turns(1));
        self.db.execute_batch(&format!("CREATE TABLE moves AS SELECT {key}, {select} FROM {from} {more} ORDER BY {key}"))?;
        Ok(())
    }

    pub fn used(&self, (a, b): (String, String), top: usize) -> Result<UsedDiff, LogError> {
        let key = key();
        let from = format!("a.{} x JOIN b.{} y USING ({key}) WHERE x.used IS DISTINCT FROM y.used", quoted(&a), quoted(&b));
        self.db.execute_batch(&format!("CREATE TABLE changed AS SELECT {key}, x.used AS a, y.used AS b FROM {from} ORDER BY {key}"))?;
        Ok(UsedDiff {
            node_a: a,
            node_b: b,
            changed: self.counts("count(*)", "changed")?[0],
            kinds: self.rows("SELECT a, b, count(*) AS \"rows\" FROM changed GROUP BY ALL ORDER BY ALL")?,
            rows: self.examples("changed", "a AS used_a, b AS used_b", "true", &key, top)?,
        })
    }

    /// Rows of `table` with their actions and responses.
    fn examples(&self, table: &str, select: &str, which: &str, order: &str, top: usize) -> Result<Vec<Value>, LogError> {
        let key = key();
        let mut columns = String::new();
        for column in ["action", "response"] {
            let side = (0..2).find(|side| self.turns_have(*side, column));
            columns += &side.map_or(String::new(), |side| format!(", {}.{column}", ["t", "u"][side]));
        }
        let more = MORE.map(|c| format!(", {c}_a, {c}_b")).concat();
        let more = if table == "moves" { more.as_str() } else { "" };
        self.rows(&format!(
            "SELECT {key}{columns}, {select}{more} FROM (FROM {table} WHERE {which} ORDER BY {order}, {key} LIMIT {top}) m \
             LEFT JOIN {} t USING ({key}) LEFT JOIN {} u USING ({key}) ORDER BY {order}, {key}",
            self.turns(0),
            self.turns(1)
        ))
    }

    fn rows(&self, sql: &str) -> Result<Vec<Value>, LogError> {
        let mut text = Vec::new();
        print(&ask(&self.db, sql)?, AnswerFormat::Json, &mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

fn shared(counts: &[u64]) -> RowCounts {
    RowCounts { both: counts[0], only_a: counts[1], only_b: counts[2] }
}
