//! Columns as expressions of SQL over rows: a part of what DuckDB parses, and nothing that reads elsewhere, draws or tells the time. DuckDB
//! computes them on one thread from rows in the order of their names, so the same rows give the same bits.

use super::sql::{literal, quoted, sql_type};
use super::{views, LogError};
use crate::row::{self, Kind, NAME};
use arrow::array::{Array, ArrayRef, BooleanArray, Float32Array, RecordBatch, UInt64Array};
use arrow::compute::concat;
use duckdb::Connection;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The windows that an expression can name: the rows of an episode (a reflection is one by itself), the same in the order of their turns, and the
/// rows of the group that `group` made. None has rows and others.
const WINDOWS: &str = "\"episode\" AS (PARTITION BY other, task, sample, attempt, phase), \
    \"turns\" AS (PARTITION BY other, task, sample, attempt, phase ORDER BY turn), \"group\" AS (PARTITION BY other, \"group\")";

/// The number of a row in the order of names; no column is called so.
const ROW: &str = "#";

/// Whether a row is one of those that are only there to be counted.
const OTHER: &str = "other";

/// The functions that may be called. DuckDB's own word on which are free of side effects doesn't serve: it calls the local time constant.
const FUNCTIONS: &[&str] = &[
    "+", "-", "*", "/", "//", "%", "^", "**", "||", "abs", "avg", "ceil", "contains", "count", "count_star", "cume_dist", "dense_rank", "exp", "first_value",
    "floor", "greatest", "hash", "isfinite", "lag", "last_value", "lead", "least", "len", "length", "list_avg", "list_max", "list_min", "list_sum",
    "ln", "log", "lower", "max", "median", "min", "nth_value", "ntile", "nullif", "percent_rank", "pow", "power", "rank", "round", "row_number", "sign",
    "sqrt", "starts_with", "stddev_pop", "stddev_samp", "sum", "trim", "upper", "var_pop", "var_samp",
];

/// The kinds of expressions, as DuckDB calls them.
const CLASSES: &[&str] =
    &["BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR", "WINDOW"];

/// The types that may be cast to: a text cast to a date can be the day it is.
const TYPES: &[&str] = &["BOOLEAN", "VARCHAR", "FLOAT", "DOUBLE", "DECIMAL", "INTEGER", "UINTEGER", "BIGINT", "UBIGINT", "HUGEINT"];

/// Columns, each with the expression that makes it.
pub struct Expressions {
    columns: Vec<(String, Kind, String)>,
    reads: BTreeSet<String>,
    db: Connection,
}

impl Expressions {
    /// Parses the expressions of `columns`, each over the rows as they come.
    ///
    /// # Errors
    /// The first column whose expression can't be computed, and why: another column's name, what is no expression, a function that may not be
    /// called, types that don't fit.
    pub fn new(columns: &BTreeMap<String, String>) -> Result<Expressions, (String, LogError)> {
        let db = views::alone().map_err(|error| (String::new(), error.into()))?;
        let mut expressions = Expressions { columns: Vec::new(), reads: NAME.map(String::from).into(), db };
        for (name, text) in columns {
            expressions.add(name, text).map_err(|error| (name.clone(), error))?;
        }
        Ok(expressions)
    }

    /// The columns that they read, and those that name a row.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        self.reads.iter().map(String::as_str)
    }

    fn add(&mut self, name: &str, text: &str) -> Result<(), LogError> {
        let refused = |why: String| Err(LogError::Sql(why));
        let Some(kind) = row::kind(name).filter(|kind| !NAME.contains(&name) && !matches!(kind, Kind::U64List | Kind::U32List | Kind::F32List))
        else {
            return refused(format!("no expression makes a column `{name}`: name one that is a number, a truth or a text, or `{}...`", row::DERIVED));
        };
        let text = text.replace(['\n', '\r'], " ");
        let tree = self.parsed(&text)?;
        let mut read = BTreeSet::new();
        if let Some(why) = refusal(&tree, &mut read) {
            return refused(why);
        }
        // What columns there are is the pipeline's to say; with those that can't be the types aren't known.
        if read.iter().all(|column| column == OTHER || row::kind(column).is_some()) {
            self.table(read.iter().map(String::as_str).chain(NAME))?;
            let statement = select(&[(name, kind, &text)]);
            self.db.prepare(&statement).map_err(|error| LogError::Sql(placed(&error.to_string())))?;
        }
        self.reads.extend(read.into_iter().filter(|column| column != OTHER));
        self.columns.push((name.into(), kind, text));
        Ok(())
    }

    /// The tree of an expression, as DuckDB's parser has it.
    fn parsed(&self, text: &str) -> Result<Value, LogError> {
        let tree = |text: &str| -> Result<Value, LogError> {
            let statement = literal(&select(&[("x", Kind::F32, text)]));
            let tree: String = self.db.query_row(&format!("SELECT json_serialize_sql({statement})"), [], |row| row.get(0))?;
            let mut tree: Value = serde_json::from_str(&tree)?;
            unplaced(&mut tree);
            Ok(tree)
        };
        let (mut tree, mut frame) = (tree(text)?, tree("0")?);
        if tree["error"] == true {
            let error = self.db.prepare(&select(&[("x", Kind::F32, text)])).err();
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
        let typed = columns.iter().filter_map(|column| Some(format!("{} {}", quoted(column), sql_type(row::kind(column)?))));
        let own = [format!("{} UBIGINT", quoted(ROW)), format!("{} BOOLEAN", quoted(OTHER))];
        let typed: Vec<String> = own.into_iter().chain(typed).collect();
        // Made anew each time, so that how it lies in memory follows from the rows alone.
        Ok(self.db.execute_batch(&format!("CREATE OR REPLACE TABLE rows ({})", typed.join(", ")))?)
    }

    /// The columns of `rows`; `others` are rows that only sums see, where `other` holds. Both have the columns of [`Expressions::reads`] and are in the
    /// order of their names.
    ///
    /// # Errors
    /// Where a value is missing or isn't finite: names the row; and what DuckDB says.
    pub fn compute(&self, rows: &RecordBatch, others: Option<&RecordBatch>) -> Result<Vec<(&str, ArrayRef)>, LogError> {
        self.table(self.reads())?;
        let mut appender = self.db.appender("rows")?;
        let mut first = 0;
        for (other, rows) in std::iter::once((false, rows)).chain(others.map(|others| (true, others))) {
            let next = first + rows.num_rows() as u64;
            // In the table's order.
            let mut columns = vec![
                (ROW, Arc::new(UInt64Array::from_iter_values(first..next)) as ArrayRef, false),
                (OTHER, Arc::new(BooleanArray::from(vec![other; rows.num_rows()])), false),
            ];
            for column in &self.reads {
                let values = rows.column_by_name(column).ok_or_else(|| row::RowError::Missing(column.clone()))?;
                columns.push((column.as_str(), values.clone(), false));
            }
            appender.append_record_batch(RecordBatch::try_from_iter_with_nullable(columns)?)?;
            first = next;
        }
        appender.flush()?;
        let all: Vec<(&str, Kind, &str)> = self.columns.iter().map(|(name, kind, text)| (name.as_str(), *kind, text.as_str())).collect();
        let mut statement = self.db.prepare(&select(&all))?;
        let batches: Vec<RecordBatch> = statement.stream_arrow([])?.collect::<Result<_, _>>()?;
        let made = |i: usize, name: &'_ str, kind: Kind| -> Result<ArrayRef, LogError> {
            let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(i + 1).as_ref()).collect();
            let column = arrow::compute::cast(&concat(&parts)?.slice(0, rows.num_rows()), &kind.arrow())?;
            complete(name, &column, rows)?;
            Ok(column)
        };
        if batches.is_empty() {
            return Ok(self.columns.iter().map(|(name, kind, _)| (name.as_str(), arrow::array::new_empty_array(&kind.arrow()))).collect());
        }
        self.columns.iter().enumerate().map(|(i, (name, kind, _))| Ok((name.as_str(), made(i, name, *kind)?))).collect()
    }
}

/// The statement that makes these columns, behind the number of each row.
fn select(columns: &[(&str, Kind, &str)]) -> String {
    let column = |(name, kind, text): &(&str, Kind, &str)| format!("CAST((\n{text}\n) AS {}) AS {}", sql_type(*kind), quoted(name));
    let columns: Vec<String> = columns.iter().map(column).collect();
    format!("SELECT {0}, {1} FROM rows WINDOW {WINDOWS} ORDER BY {0}", quoted(ROW), columns.join(", "))
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

/// Why an expression may not be computed, if it may not; the columns that it reads go into `read`.
fn refusal(tree: &Value, read: &mut BTreeSet<String>) -> Option<String> {
    if let Some(class) = tree["class"].as_str() {
        if !CLASSES.contains(&class) {
            return Some(format!("an expression over rows has no {} in it", class.to_lowercase()));
        }
        if let Some(names) = tree["column_names"].as_array() {
            let [Value::String(name)] = names.as_slice() else { return Some("a column is named without its table".into()) };
            read.insert(name.clone());
        }
        if let Some(kind) = tree["cast_type"]["id"].as_str().filter(|kind| !TYPES.contains(kind)) {
            return Some(format!("nothing is cast to {kind} in an expression over rows: only to {}", TYPES.join(", ")));
        }
        if let Some(function) = tree["function_name"].as_str().filter(|function| !FUNCTIONS.contains(function)) {
            let words = FUNCTIONS.iter().filter(|name| name.starts_with(char::is_alphabetic)).copied();
            return Some(format!("`{function}` is none of the functions of an expression: {}", words.collect::<Vec<_>>().join(", ")));
        }
    }
    match tree {
        Value::Object(entries) => entries.values().find_map(|value| refusal(value, read)),
        Value::Array(items) => items.iter().find_map(|value| refusal(value, read)),
        _ => None,
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
    let line = message.lines().skip_while(|line| !line.starts_with("LINE 2: ")).nth(1);
    let place = line.and_then(|line| line.find('^')).and_then(|at| (at + 1).checked_sub("LINE 2: ".len()));
    place.map_or_else(|| first.to_owned(), |place| format!("{first}, at its character {place}"))
}

/// Refuses a column with a value that is missing or that isn't finite.
fn complete(name: &str, column: &ArrayRef, rows: &RecordBatch) -> Result<(), LogError> {
    let infinite = column.as_any().downcast_ref::<Float32Array>().and_then(|values| values.values().iter().position(|x| !x.is_finite()));
    let none = (0..column.len()).find(|i| column.is_null(*i));
    let (i, why) = match (none, infinite) {
        (Some(i), _) => (i, "no value: say what to take where there is none, as in `lag(x, 1, 0.0)` and `coalesce(x, 0.0)`"),
        (None, Some(i)) => (i, "no finite number: divide by `nullif(x, 0)`, and say by `coalesce` what to take then"),
        (None, None) => return Ok(()),
    };
    Err(LogError::Sql(format!("`{name}` has for {} {why}", row::described(rows, i))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{StringArray, UInt32Array};
    use arrow::datatypes::UInt32Type;

    /// Two episodes, of three turns and of two, in two groups.
    fn rows() -> RecordBatch {
        let u32s = |values: [u32; 5]| Arc::new(UInt32Array::from(values.to_vec())) as ArrayRef;
        let tokens = arrow::array::ListArray::from_iter_primitive::<UInt32Type, _, _>((1..6).map(|n| Some(vec![Some(7u32); n])));
        row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![4; 5])) as ArrayRef),
            ("task", Arc::new(StringArray::from(vec!["a"; 5]))),
            ("sample", u32s([0, 0, 0, 1, 1])),
            ("attempt", u32s([0; 5])),
            ("turn", u32s([0, 1, 2, 0, 1])),
            ("phase", Arc::new(StringArray::from(vec!["play"; 5]))),
            ("reward", Arc::new(Float32Array::from(vec![1.0, 2.0, 4.0, 0.5, -1.0]))),
            ("value", Arc::new(Float32Array::from(vec![0.0, 0.25, 0.5, 2.0, 0.0]))),
            ("group", Arc::new(UInt64Array::from(vec![1, 2, 2, 1, u64::MAX]))),
            ("response_tokens", arrow::compute::cast(&tokens, &Kind::U32List.arrow()).unwrap()),
        ])
        .unwrap()
    }

    fn one(name: &str, text: &str) -> Result<Expressions, String> {
        Expressions::new(&BTreeMap::from([(name.to_string(), text.to_string())])).map_err(|(_, error)| error.to_string())
    }

    fn numbers(text: &str) -> Vec<f32> {
        let expressions = one("derived_x", text).unwrap();
        let made = expressions.compute(&rows(), None).unwrap();
        made[0].1.as_any().downcast_ref::<Float32Array>().unwrap().values().to_vec()
    }

    #[test]
    fn expressions_as_worked_by_hand() {
        for (text, expected) in [
            ("reward * 2 - value", [2.0, 3.75, 7.5, -1.0, -2.0]),
            ("greatest(reward, 1.5)", [1.5, 2.0, 4.0, 1.5, 1.5]),
            ("case when turn = 0 then 1 else least(reward, 0) end", [1.0, 0.0, 0.0, 1.0, -1.0]),
            ("value - lag(value, 1, 0.0) over turns", [0.0, 0.25, 0.25, 2.0, -2.0]),
            ("lead(value, 1, -1.0) over turns", [0.25, 0.5, -1.0, 0.0, -1.0]),
            ("sum(reward) over episode", [7.0, 7.0, 7.0, -0.5, -0.5]),
            ("sum(reward) over turns", [1.0, 3.0, 7.0, 0.5, -0.5]),
            ("avg(reward) over \"group\"", [0.75, 3.0, 3.0, 0.75, -1.0]),
            ("max(reward) over (partition by sample)", [4.0, 4.0, 4.0, 0.5, 0.5]),
            ("rank() over (partition by turn order by reward desc)", [1.0, 1.0, 1.0, 2.0, 2.0]),
            ("len(response_tokens)", [1.0, 2.0, 3.0, 4.0, 5.0]),
            ("exp(ln(reward + 2))", [3.0, 4.0, 6.0, 2.5, 1.0]),
            ("coalesce(reward / nullif(value, 0), 9)", [9.0, 8.0, 8.0, 0.25, 9.0]),
        ] {
            assert!(numbers(text).iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{text}: {:?}", numbers(text));
        }
        // What others earned, of which the second half stands beside.
        let others = rows().slice(3, 2);
        for (text, expected) in [
            ("coalesce(sum(reward) filter (where other) over (partition by sample), 8)", [8.0, 8.0, 8.0, -0.5, -0.5]),
            ("sum(reward) over episode", [7.0, 7.0, 7.0, -0.5, -0.5]),
            ("case when other then 1 else 0 end", [0.0; 5]),
        ] {
            let beside = one("value", text).unwrap();
            let made = beside.compute(&rows(), Some(&others)).unwrap();
            assert_eq!(made[0].1.as_ref(), &Float32Array::from(expected.to_vec()) as &dyn Array, "{text}");
        }
        let won = one("won", "reward > 1 and value < 1").unwrap();
        let won = won.compute(&rows(), None).unwrap();
        assert_eq!(won[0].1.as_ref(), &BooleanArray::from(vec![false, true, true, false, false]) as &dyn Array);
        let empty = one("value", "reward").unwrap();
        assert_eq!(empty.compute(&rows().slice(0, 0), None).unwrap()[0].1.len(), 0);
    }

    #[test]
    fn expressions_read_what_they_name() {
        let reads = |text| one("value", text).unwrap().reads().filter(|c| !NAME.contains(c)).map(String::from).collect::<Vec<_>>();
        assert_eq!(reads("avg(reward) over \"group\" + score_judge"), ["group", "reward", "score_judge"]);
        assert_eq!(reads("1 -- reward"), [""; 0]);
        assert_eq!(reads("nosuch * 2"), ["nosuch"], "that it is none the pipeline says");
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for (name, text, why) in [
            ("value", "reward + ", "syntax error at or near \")\""),
            ("value", "reward + * 2", "syntax error at or near \"2\", at its character 12"),
            ("value", "reward + task", "No function matches the given name and argument types '+(FLOAT, VARCHAR)'"),
            ("value", "avg(reward)", "a sum over rows says over which"),
            ("value", "random()", "`random` is none of the functions"),
            ("value", "current_localtime()", "`current_localtime` is none of the functions"),
            ("value", "(select 1)", "no subquery"),
            ("value", "epoch('now'::timestamp)", "none of the functions"),
            ("value", "case when 'now'::timestamp > 'today'::timestamp then 1 else 0 end", "nothing is cast to TIMESTAMP"),
            ("value", "rows.reward", "without its table"),
            ("value", "1 limit 1", "syntax error"),
            ("value", "1) as float), cast((2", "more than one expression"),
            ("value", "1) as float) from rows; select cast((1", "more than one expression"),
            ("value", "1) as float) from read_csv('x') where cast((1", "more than one expression"),
            ("value", "", "syntax error"),
            ("task", "'a'", "no expression makes a column `task`"),
            ("token_rewards", "[1.0]", "no expression makes a column `token_rewards`"),
            ("nosuch", "1", "`derived_...`"),
        ] {
            let message = one(name, text).err().unwrap_or_else(|| panic!("{text} passed"));
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    #[test]
    fn a_row_without_a_number_is_named() {
        for (text, why) in [("lag(value) over turns", "no value"), ("reward * 'inf'::float", "no finite number")] {
            let message = one("value", text).unwrap().compute(&rows(), None).unwrap_err().to_string();
            assert!(message.starts_with("`value` has for task a, sample 0, attempt 0, turn 0 ") && message.contains(why), "{message}");
        }
    }
}
