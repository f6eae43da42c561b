//! Columns as expressions of SQL over rows: a part of DuckDB's language, without anything that reads elsewhere, draws
//! or tells the time. DuckDB computes them on one thread from rows in the order of their names, so the same rows give
//! the same bits.

mod allowed;
#[cfg(test)]
mod tests;

use super::sql::{literal, quoted, sql_type};
use super::{views, LogError};
use allowed::refusal;
use arrow::array::{new_null_array, Array, ArrayRef, BooleanArray, Float32Array, ListArray, RecordBatch, UInt64Array};
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use duckdb::Connection;
use flow_core::row::{self, Kind, LAST, NAME};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The windows that an expression can name: the rows of an episode (a reflection is one by itself), the same in the
/// order of their turns, and the rows of the group that `group` made, of which none has rows and others; and a row with
/// the other of its name.
const WINDOWS: &str = "\"episode\" AS (PARTITION BY other, task, sample, attempt, phase), \
    \"turns\" AS (PARTITION BY other, task, sample, attempt, phase ORDER BY turn), \"group\" AS (PARTITION BY other, \"group\"), \
    \"same\" AS (PARTITION BY task, sample, attempt, turn, phase)";

/// The number of a row in the order of names; no column is called so.
const ROW: &str = "#";

/// Whether a row is one of those that are only there to be counted.
const OTHER: &str = "other";

/// Columns, each with the expression that makes it.
pub struct Expressions {
    columns: Vec<(String, Kind, String)>,
    own: Vec<String>,
    reads: BTreeSet<String>,
    last: BTreeSet<String>,
    /// Whether they ask which rows are there to be counted alone.
    pub others: bool,
    db: Connection,
}

impl Expressions {
    /// Parses the expressions of `columns`, each over the rows as they come. `own` are the columns whose earlier values
    /// they may read.
    ///
    /// # Errors
    /// The first column whose expression can't be computed, and why: another column's name, what is no expression, a
    /// function that may not be called, types that don't fit.
    pub fn new(columns: &BTreeMap<String, String>, own: &[&str]) -> Result<Expressions, (String, LogError)> {
        let db = views::empty_database().map_err(|error| (String::new(), error.into()))?;
        let own = own.iter().map(|name| name.to_string()).collect();
        let (reads, last) = (NAME.map(String::from).into(), BTreeSet::new());
        let mut expressions = Expressions { columns: Vec::new(), own, reads, last, others: false, db };
        for (name, text) in columns {
            expressions.add(name, text).map_err(|error| (name.clone(), error))?;
        }
        Ok(expressions)
    }

    /// The columns that they read, and those that name a row.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        self.reads.iter().map(String::as_str)
    }

    /// The columns of `Expressions::columns` whose earlier values they read, as `last_NAME`.
    pub fn last(&self) -> impl Iterator<Item = &str> {
        self.last.iter().filter_map(|name| name.strip_prefix(LAST))
    }

    /// The kind of a column that an expression can read.
    fn kind(&self, name: &str) -> Option<Kind> {
        row::kind(name).or_else(|| row::kind(name.strip_prefix(LAST).filter(|own| self.own.iter().any(|known| known == own))?))
    }

    fn add(&mut self, name: &str, text: &str) -> Result<(), LogError> {
        let refused = |why: String| Err(LogError::Sql(why));
        let Some(kind) = row::kind(name).filter(|_| !NAME.contains(&name)) else {
            return refused(match NAME.contains(&name) {
                true => format!("`{name}` names rows: no expression makes it"),
                false => format!("rows can't have a column `{name}`: a number of your own is called `{0}{name}`", row::DERIVED),
            });
        };
        // Of several lines, which are made one, it would swallow the rest.
        if text.trim().contains('\n') && text.contains("--") {
            return refused("it has several lines and `--`, which begins a comment: leave it out".into());
        }
        let text = text.replace(['\n', '\r'], " ");
        let tree = self.parsed(&text)?;
        let mut read = BTreeSet::new();
        if let Some(why) = refusal(&tree, &[], &mut read) {
            return refused(why);
        }
        for earlier in read.iter().filter(|column| row::kind(column).is_none()) {
            let Some(column) = earlier.strip_prefix(LAST).filter(|column| row::kind(column).is_some()) else { continue };
            match self.kind(earlier) {
                Some(Kind::F32) => {}
                Some(kind) => {
                    return refused(format!("`{earlier}`: only a number is kept for the next iteration, and `{column}` is {}", kind.name()))
                }
                None => return refused(format!("`{earlier}` is an earlier value of a column `{column}` of this node, which makes none")),
            }
        }
        // What columns there are is the pipeline's to say; with those that can't be the types aren't known.
        if read.iter().all(|column| column == OTHER || self.kind(column).is_some()) {
            self.table(read.iter().map(String::as_str).chain(NAME))?;
            // A cast of a text or a list fails with the first row, not here.
            let asked = format!("SELECT column_type FROM (DESCRIBE SELECT (\n{text}\n) AS x FROM rows WINDOW {WINDOWS})");
            let found: String =
                self.db.query_row(&asked, [], |row| row.get(0)).map_err(|error| LogError::Sql(placed(&error.to_string())))?;
            if shape(&found) != shape(sql_type(kind)) {
                return refused(format!("it is {found}, and the column is {}", kind.name()));
            }
            let statement = select(&[(name, kind, &text)], WINDOWS);
            self.db.prepare(&statement).map_err(|error| LogError::Sql(placed(&error.to_string())))?;
        }
        self.others |= read.remove(OTHER);
        let (last, read): (BTreeSet<String>, _) =
            read.into_iter().partition(|column| row::kind(column).is_none() && self.kind(column).is_some());
        self.last.extend(last);
        self.reads.extend(read);
        self.columns.push((name.into(), kind, text));
        Ok(())
    }

    /// The tree of an expression, as DuckDB's parser has it.
    fn parsed(&self, text: &str) -> Result<Value, LogError> {
        // Without `other`, which the tree then has only where the expression itself asks for it.
        let windows = WINDOWS.replace("other, ", "");
        let tree = |text: &str| -> Result<Value, LogError> {
            let statement = literal(&select(&[("x", Kind::F32, text)], &windows));
            let tree: String = self.db.query_row(&format!("SELECT json_serialize_sql({statement})"), [], |row| row.get(0))?;
            let mut tree: Value = serde_json::from_str(&tree).map_err(|_| LogError::Sql("a number in it is too large".into()))?;
            unplaced(&mut tree);
            Ok(tree)
        };
        let (mut tree, mut frame) = (tree(text)?, tree("0")?);
        if tree["error"] == true {
            let error = self.db.prepare(&select(&[("x", Kind::F32, text)], WINDOWS)).err();
            return Err(LogError::Sql(error.map_or("it is no expression of SQL".into(), |error| placed(&error.to_string()))));
        }
        // Whatever isn't inside the brackets must be as it was written here.
        let own = std::mem::take(&mut tree["statements"][0]["node"]["select_list"]);
        frame["statements"][0]["node"]["select_list"] = Value::Null;
        match own.as_array().map(Vec::as_slice) {
            Some([_, expression]) if tree == frame => Ok(expression["child"].clone()),
            _ => Err(LogError::Sql("it is more than one expression".into())),
        }
    }

    /// An empty table `rows` with these columns.
    fn table<'c>(&self, columns: impl Iterator<Item = &'c str>) -> Result<(), LogError> {
        let columns: BTreeSet<&str> = columns.collect();
        let typed = columns.iter().filter_map(|column| Some(format!("{} {}", quoted(column), signed(self.kind(column)?))));
        let own = [format!("{} UBIGINT", quoted(ROW)), format!("{} BOOLEAN", quoted(OTHER))];
        let typed: Vec<String> = own.into_iter().chain(typed).collect();
        // Made anew each time, so that how it lies in memory follows from the rows alone.
        Ok(self.db.execute_batch(&format!("CREATE OR REPLACE TABLE rows ({})", typed.join(", ")))?)
    }

    /// The columns of `rows`; `others` are rows that only sums see, where `other` holds. Both have the columns of
    /// [`Expressions::reads`] and are in the order of their names. `rows` also has a column `last_NAME` for each of
    /// [`Expressions::last`], null where there is no earlier value.
    ///
    /// # Errors
    /// Where a value is missing or isn't finite: names the row; and what DuckDB says.
    pub fn compute(&self, rows: &RecordBatch, others: Option<&RecordBatch>) -> Result<Vec<(&str, ArrayRef)>, LogError> {
        self.table(self.reads().chain(self.last.iter().map(String::as_str)))?;
        let mut appender = self.db.appender("rows")?;
        let mut first = 0;
        for (other, rows) in std::iter::once((false, rows)).chain(others.map(|others| (true, others))) {
            let next = first + rows.num_rows() as u64;
            // In the table's order.
            let mut columns = vec![
                (ROW, Arc::new(UInt64Array::from_iter_values(first..next)) as ArrayRef, false),
                (OTHER, Arc::new(BooleanArray::from(vec![other; rows.num_rows()])), false),
            ];
            // In the order of the table, which sorts all of them.
            for column in self.reads.union(&self.last) {
                let values = match rows.column_by_name(column) {
                    None if other && self.last.contains(column) => new_null_array(&DataType::Float32, rows.num_rows()),
                    values => values.ok_or_else(|| row::RowError::Missing(column.clone()))?.clone(),
                };
                let signed = if *values.data_type() == DataType::UInt32 { cast(&values, &DataType::Int64)? } else { values };
                columns.push((column.as_str(), signed, self.last.contains(column)));
            }
            appender.append_record_batch(RecordBatch::try_from_iter_with_nullable(columns)?)?;
            first = next;
        }
        appender.flush()?;
        let all: Vec<(&str, Kind, &str)> = self.columns.iter().map(|(name, kind, text)| (name.as_str(), *kind, text.as_str())).collect();
        let mut statement = self.db.prepare(&select(&all, WINDOWS))?;
        let batches: Vec<RecordBatch> = statement.stream_arrow([])?.collect::<Result<_, _>>()?;
        let made = |i: usize, name: &'_ str, kind: Kind| -> Result<ArrayRef, LogError> {
            let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(i + 1).as_ref()).collect();
            let column = cast(&concat(&parts)?.slice(0, rows.num_rows()), &kind.arrow())?;
            complete(name, &column, rows)?;
            Ok(column)
        };
        if batches.is_empty() {
            return Ok(self.columns.iter().map(|(name, kind, _)| (name.as_str(), arrow::array::new_empty_array(&kind.arrow()))).collect());
        }
        self.columns.iter().enumerate().map(|(i, (name, kind, _))| Ok((name.as_str(), made(i, name, *kind)?))).collect()
    }
}

/// The type of a column in the table: counts are signed, so that `turn - 1` and `-turn` are below 0 where they should
/// be.
fn signed(kind: Kind) -> &'static str {
    if kind == Kind::U32 {
        "BIGINT"
    } else {
        sql_type(kind)
    }
}

/// Whether a type is a list, and whether it is of texts: no cast leads from one to the other. None for types that
/// columns can't have, such as structures and dates.
fn shape(sql_type: &str) -> Option<(bool, bool)> {
    let (one, list) = sql_type.strip_suffix("[]").map_or((sql_type, false), |one| (one, true));
    let number = one.ends_with("INT") || ["INTEGER", "UINTEGER", "FLOAT", "DOUBLE", "BOOLEAN"].contains(&one);
    let number = number || one.starts_with("DECIMAL(") && one.ends_with(')');
    (number || one == "VARCHAR").then_some((list, one == "VARCHAR"))
}

/// The statement that makes these columns, behind the number of each row.
fn select(columns: &[(&str, Kind, &str)], windows: &str) -> String {
    let column = |(name, kind, text): &(&str, Kind, &str)| format!("CAST((\n{text}\n) AS {}) AS {}", sql_type(*kind), quoted(name));
    let columns: Vec<String> = columns.iter().map(column).collect();
    format!("SELECT {0}, {1} FROM rows WINDOW {windows} ORDER BY {0}", quoted(ROW), columns.join(", "))
}

/// Removes the places of the words in a statement: they differ with its length.
fn unplaced(tree: &mut Value) {
    match tree {
        Value::Object(entries) => {
            entries.remove("query_location");
            entries.values_mut().for_each(unplaced);
        }
        Value::Array(items) => items.iter_mut().for_each(unplaced),
        _ => {}
    }
}

/// DuckDB's message, with the place in the expression that it is about. The expression stands on a line of its own.
fn placed(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let first = first.split_once(" Error: ").map_or(first, |(_, why)| why);
    let first = if first.contains("must appear in the GROUP BY clause") {
        "a sum over rows says over which, as in `avg(reward) over episode`, `over turns` or `over \"group\"`"
    } else {
        first
    };
    let hint = if first.contains("near \"group\"") { ": the column stands in quotes, \"group\"" } else { "" };
    let line = message.lines().skip_while(|line| !line.starts_with("LINE 2: ")).nth(1);
    let place = line.and_then(|line| line.find('^')).and_then(|at| (at + 1).checked_sub("LINE 2: ".len()));
    place.map_or_else(|| format!("{first}{hint}"), |place| format!("{first}, at its character {place}{hint}"))
}

/// Refuses a column with a value that is missing or that isn't finite.
fn complete(name: &str, column: &ArrayRef, rows: &RecordBatch) -> Result<(), LogError> {
    let lists = column.as_any().downcast_ref::<ListArray>();
    let infinite = (0..column.len()).find(|i| match (column.as_any().downcast_ref::<Float32Array>(), lists) {
        (Some(values), _) => !values.value(*i).is_finite(),
        (None, Some(lists)) => row::f32_list(lists, *i).iter().any(|x| !x.is_finite()),
        (None, None) => false,
    });
    let none = (0..column.len()).find(|i| column.is_null(*i));
    let (i, why) = match (none, infinite) {
        (Some(i), _) => (i, "no value: say what to take where there is none, as in `lag(x, 1, 0.0)` and `coalesce(x, 0.0)`"),
        (None, Some(i)) => (i, "no finite number: divide by `nullif(x, 0)`, and say by `coalesce` what to take then"),
        (None, None) => return Ok(()),
    };
    Err(LogError::Sql(format!("`{name}` has for {} {why}", row::described(rows, i))))
}
