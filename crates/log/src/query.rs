//! SQL over a run, by DuckDB.

use super::index::LogIndex;
use super::print::printer;
use super::readers::ReadLock;
use super::texts::{self, Decoder};
use super::types::{is_moment, printable_types, texts_of};
use super::views::{NodeFiles, JOINED};
use super::{guard, print, scope, views, AnswerFormat, Iteration, LogError, Run};
use arrow::array::{make_array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast_with_options, CastOptions};
use arrow::datatypes::{DataType, Decimal128Type, Field, Schema, SchemaRef};
use duckdb::Connection;
use std::io::Write;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::Arc;

/// A result of fewer bytes is read whole before it is printed.
const SHORT: usize = 32 << 20;

/// The result of a query.
#[derive(Clone, Debug)]
pub struct QueryResult {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

/// A table that a query can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    /// Name and SQL type.
    pub columns: Vec<(String, String)>,
}

/// Asks the run's committed iterations: a table a logged node; `metrics` (iteration, node, name, value);
/// `trajectories`, which joins the nodes row by row; and `provenance`, which says what each update made of each row.
/// One statement that reads; nothing can be written, and nothing outside the run be read.
pub fn query(run: &Run, sql: &str) -> Result<QueryResult, LogError> {
    query_within(run, .., sql)
}

/// The same over some of the iterations: what an answer about a few of them costs then doesn't grow with the run.
pub fn query_within(run: &Run, iterations: impl RangeBounds<u64>, sql: &str) -> Result<QueryResult, LogError> {
    guard::check(sql)?;
    let opened = open(run, bounds(iterations), Some(sql), None)?;
    ask(&opened.db, sql).map_err(|e| explained_of(run, &opened.db, sql, &e.to_string()))
}

/// The version of DuckDB, which has to open a database to say it.
pub fn engine_version() -> Result<String, LogError> {
    Ok(views::empty_database()?.query_row("select version()", [], |row| row.get(0))?)
}

/// The answers to several questions over the whole run, each as [`query`] gives it.
pub(super) fn answers(run: &Run, questions: &[&str]) -> Result<Vec<Result<QueryResult, LogError>>, LogError> {
    let OpenDatabase { db, _reading } = open_whole(run)?;
    let answer = |sql: &&str| {
        guard::check(sql)?;
        ask(&db, sql).map_err(|e| explained(&db, sql, &e.to_string()))
    };
    Ok(questions.iter().map(answer).collect())
}

/// Verifies the checksum of every committed file of rows, and of no table beside the log.
///
/// # Errors
/// The first file that is damaged or missing.
pub fn verify(run: &Run) -> Result<(), LogError> {
    let _reading = ReadLock::begin(run);
    let (index, whole) = (LogIndex::read(run.root())?, 0..=u64::MAX);
    index.committed(run.root(), whole.clone())?;
    views::files(run, &index, &whole, &|_, extra| !extra).map(drop)
}

/// A database over a run; the run's files stay where they are while it exists.
pub(super) struct OpenDatabase {
    pub db: Connection,
    pub _reading: ReadLock,
}

/// A database over all iterations, with every view; the checksums of all files have been verified.
pub(super) fn open_whole(run: &Run) -> Result<OpenDatabase, LogError> {
    let (_reading, whole) = (ReadLock::begin(run), 0..=u64::MAX);
    let index = LogIndex::read(run.root())?;
    let files = views::files(run, &index, &whole, &|_, _| true)?;
    let db = views::connect(&index.head.info, &files, &index.committed(run.root(), whole.clone())?, &whole, &|_| true)?;
    Ok(OpenDatabase { db, _reading })
}

/// A database over the iterations of `within` that `sql` reads; the checksums of their files have been verified.
/// Without `sql` it only serves to list tables and columns. With `decode` it has the function `text`.
fn open(run: &Run, within: RangeInclusive<u64>, sql: Option<&str>, decode: Option<&Decoder>) -> Result<OpenDatabase, LogError> {
    let reading = ReadLock::begin(run);
    let index = LogIndex::read(run.root())?;
    // A view is opened when it is made: a query makes only the views that it names.
    let asked = |node: &str| sql.is_none_or(|sql| lists(sql) || names(sql, node));
    let connect = |files: &NodeFiles, iterations: &[Iteration]| {
        let db =
            views::connect(&index.head.info, files, iterations, &within, &|view| sql.is_none_or(|sql| lists(sql) || mentions(sql, view)))?;
        decode.map_or(Ok(()), |decode| texts::register(&db, decode))?;
        Ok::<_, duckdb::Error>(db)
    };
    let files = |span: &RangeInclusive<u64>, verify: &dyn Fn(&str, bool) -> bool| {
        let mut files = views::files(run, &index, span, verify)?;
        files.retain(|(node, _)| asked(node));
        Ok::<_, LogError>(files)
    };
    let Some(sql) = sql else { return Ok(OpenDatabase { db: connect(&files(&within, &|_, _| false)?, &[])?, _reading: reading }) };
    let verified = |span: &RangeInclusive<u64>| files(span, &|node, extra| if extra { mentions(sql, node) } else { names(sql, node) });
    // The figures of a long run are many, and few ask for them.
    let figures = lists(sql) || mentions(sql, "metrics");
    let iterations = if figures { index.committed(run.root(), within.clone())? } else { Vec::new() };
    if within != (0..=u64::MAX) {
        return Ok(OpenDatabase { db: connect(&verified(&within)?, &iterations)?, _reading: reading });
    }
    // Which iterations are read, DuckDB's plan says: until their sums are known, it looks at the files' footers only.
    let all = files(&within, &|_, _| false)?;
    let draft = connect(&all, &[]);
    let needed = draft.as_ref().map_or(0..=u64::MAX, |draft| scope::iterations(draft, sql));
    let known = verified(&needed)?;
    let db = match draft {
        Ok(draft) if known == all && !figures => draft,
        _ => connect(&known, &iterations)?,
    };
    Ok(OpenDatabase { db, _reading: reading })
}

/// Whether `sql` can read rows of `node`: it names the node, or something that reads several.
fn names(sql: &str, node: &str) -> bool {
    mentions(sql, node) || JOINED.iter().any(|view| mentions(sql, view))
}

/// Whether `sql` has this name in it, or a function that takes names as texts.
fn mentions(sql: &str, name: &str) -> bool {
    let sql = sql.to_lowercase();
    [name.to_lowercase().as_str(), "query", "glob", "json_execute"].iter().any(|word| sql.contains(word))
}

/// Whether `sql` asks for the tables themselves.
fn lists(sql: &str) -> bool {
    let sql = sql.to_lowercase();
    ["show", "describe", "summarize", "information_schema", "duckdb_", "pragma"].iter().any(|word| sql.contains(word))
}

/// [`explained`], with all tables that the run has.
fn explained_of(run: &Run, db: &Connection, sql: &str, message: &str) -> LogError {
    match open(run, 0..=u64::MAX, None, None) {
        Ok(all) => explained(&all.db, sql, message),
        Err(_) => explained(db, sql, message),
    }
}

/// The first and the last of a range.
fn bounds(iterations: impl RangeBounds<u64>) -> RangeInclusive<u64> {
    let first = match iterations.start_bound() {
        Bound::Included(first) => *first,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    match iterations.end_bound() {
        Bound::Included(last) => first..=*last,
        // Empty ranges are asked of the columns alone.
        Bound::Excluded(0) => RangeInclusive::new(1, 0),
        Bound::Excluded(after) => first..=after - 1,
        Bound::Unbounded => first..=u64::MAX,
    }
}

/// As [`query`], but printed while it is read: a result may be larger than the memory. A table is cut after its first
/// rows. With `decode` the question may use the function `text`.
pub fn query_to(run: &Run, sql: &str, format: AnswerFormat, decode: Option<&Decoder>, out: &mut dyn Write) -> Result<(), LogError> {
    guard::check(sql)?;
    let opened = open(run, 0..=u64::MAX, Some(sql), decode)?;
    stream_to(&opened.db, sql, format, out).map_err(|e| match e {
        LogError::Database(e) => explained_of(run, &opened.db, sql, &e.to_string()),
        e => e,
    })
}

/// Prints an answer while it is read.
pub(super) fn stream_to(db: &Connection, sql: &str, format: AnswerFormat, out: &mut dyn Write) -> Result<(), LogError> {
    let sql = printable_types(db, sql, Some(format));
    match stream(db, &sql, format, out) {
        // Dates and times beyond those of Arrow, such as infinity and 24:00, print as DuckDB has them.
        Err(LogError::Arrow(error)) => match texts_of(db, &sql, is_moment) {
            Some(texts) => stream(db, &texts, format, out),
            None => Err(LogError::Arrow(error)),
        },
        done => done,
    }
}

/// An error of Arrow is that of a short answer, before anything is printed.
fn stream(db: &Connection, sql: &str, format: AnswerFormat, out: &mut dyn Write) -> Result<(), LogError> {
    let mut statement = db.prepare(sql)?;
    let mut rest = statement.stream_arrow([])?;
    let schema = rest.get_schema();
    let (mut first, mut bytes, mut over) = (Vec::new(), 0, false);
    while bytes < SHORT && !over {
        match rest.next().transpose()? {
            Some(batch) => {
                bytes += batch.get_array_memory_size();
                first.push(batch);
            }
            None => over = true,
        }
    }
    if over {
        let mut text = Vec::new();
        print(&plain(schema, first)?, format, &mut text)?;
        return Ok(out.write_all(&text)?);
    }
    let (shown, _) = in_utc(schema.clone(), vec![])?;
    let mut printer = printer(format, &shown, out)?;
    let cut_short = |error| match error {
        LogError::Arrow(error) => LogError::Sql(error.to_string()),
        error => error,
    };
    for batch in first.into_iter().map(Ok).chain(rest) {
        let (_, batches) = in_utc(schema.clone(), vec![batch?])?;
        batches.iter().try_for_each(|batch| printer.rows(batch)).map_err(cut_short)?;
        if printer.enough() {
            break;
        }
    }
    printer.end().map_err(cut_short)
}

/// The tables that a query can name, with their columns.
pub fn tables(run: &Run) -> Result<Vec<Table>, LogError> {
    Ok(views::tables(&open(run, 0..=u64::MAX, None, None)?.db)?)
}

/// The whole result at once, where it is known to be short.
pub(super) fn ask(db: &Connection, sql: &str) -> Result<QueryResult, LogError> {
    let sql = printable_types(db, sql, None);
    let mut statement = db.prepare(&sql)?;
    let rows = statement.stream_arrow([])?;
    let schema = rows.get_schema();
    let batches = rows.collect::<Result<Vec<_>, _>>()?;
    Ok(plain(schema, batches)?)
}

/// DuckDB sums integers in 128 bits, which Arrow can only call a decimal of 38 digits. Such columns become 64-bit
/// integers where all values fit, so that a count looks like a count in every format; in an answer too long to be
/// looked at first they stay.
fn plain(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<QueryResult, arrow::error::ArrowError> {
    let (schema, batches) = in_utc(schema, batches)?;
    let wide = DataType::Decimal128(38, 0);
    let fits =
        |i: usize| batches.iter().all(|b| b.column(i).as_primitive::<Decimal128Type>().iter().flatten().all(|v| i64::try_from(v).is_ok()));
    let narrow: Vec<bool> = schema.fields().iter().enumerate().map(|(i, f)| *f.data_type() == wide && fits(i)).collect();
    let field = |(f, narrow): (&Arc<Field>, &bool)| if *narrow { Arc::new(Field::new(f.name(), DataType::Int64, true)) } else { f.clone() };
    let schema = Arc::new(Schema::new(schema.fields().iter().zip(&narrow).map(field).collect::<Vec<_>>()));
    let column = |(c, narrow): (&ArrayRef, &bool)| match narrow {
        true => cast_with_options(c, &DataType::Int64, &CastOptions::default()),
        false => Ok(c.clone()),
    };
    let batch =
        |b: &RecordBatch| RecordBatch::try_new(schema.clone(), b.columns().iter().zip(&narrow).map(column).collect::<Result<Vec<_>, _>>()?);
    let batches = batches.iter().map(batch).collect::<Result<Vec<_>, _>>()?;
    Ok(QueryResult { schema, batches })
}

/// Moments with a time zone, such as `now()`, are moments in UTC, which Arrow then shows without a database of time
/// zones.
fn in_utc(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<(SchemaRef, Vec<RecordBatch>), arrow::error::ArrowError> {
    let zoned = |f: &Arc<Field>| matches!(f.data_type(), DataType::Timestamp(_, Some(_)));
    if !schema.fields().iter().any(zoned) {
        return Ok((schema, batches));
    }
    let kind = |kind: &DataType| match kind {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some("+00:00".into())),
        other => other.clone(),
    };
    let fields = schema.fields().iter().map(|f| Field::new(f.name(), kind(f.data_type()), f.is_nullable()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    // The numbers mean the same in every zone.
    let column = |c: &ArrayRef| -> Result<ArrayRef, arrow::error::ArrowError> {
        Ok(make_array(c.to_data().into_builder().data_type(kind(c.data_type())).build()?))
    };
    let batch = |b: RecordBatch| RecordBatch::try_new(schema.clone(), b.columns().iter().map(column).collect::<Result<Vec<_>, _>>()?);
    let batches = batches.into_iter().map(batch).collect::<Result<_, _>>()?;
    Ok((schema, batches))
}

/// DuckDB's message, the nearest name when one was not found, and what there is to ask.
pub(super) fn explained(db: &Connection, sql: &str, message: &str) -> LogError {
    let first = message.lines().next().unwrap_or("DuckDB gave no reason");
    if first.contains(".parquet'") && !first.starts_with("Permission Error") {
        return LogError::Sql(format!(
            "{first}\nthe file is damaged: restore it from a copy, or make the run again from its pipeline.yaml"
        ));
    }
    if first.starts_with("Out of Memory Error") {
        return LogError::Sql(format!(
            "{first}\na question may take half of the memory that is free: ask for fewer columns, for some of the iterations \
             (`where iteration between 10 and 20`), or without `order by`"
        ));
    }
    if !["Catalog Error", "Binder Error", "Parser Error"].iter().any(|kind| first.starts_with(kind)) {
        return LogError::Sql(first.into());
    }
    let tables = views::tables(db).unwrap_or_default();
    let mut text = first.to_string();
    // DuckDB's own line with the place, and the caret below it.
    let place: Vec<&str> = message.lines().skip_while(|line| !line.starts_with("LINE ")).take(2).collect();
    place.iter().for_each(|line| text += &format!("\n{line}"));
    let candidates = tables.iter().flat_map(|t| std::iter::once(&t.name).chain(t.columns.iter().map(|c| &c.0)));
    if let Some(name) = missing_name(first) {
        let having: Vec<&str> =
            tables.iter().filter(|t| t.columns.iter().any(|c| c.0.eq_ignore_ascii_case(&name))).map(|t| t.name.as_str()).collect();
        match nearest(&name, candidates) {
            _ if !having.is_empty() => text += &format!("\n`{name}` is a column of {}", having.join(", ")),
            Some(name) => text += &format!("\ndid you mean `{name}`?"),
            None => (),
        }
    }
    if let Some(word) = word_at_error(first).filter(|word| tables.iter().any(|t| t.name == *word || t.columns.iter().any(|c| c.0 == *word)))
    {
        text += &format!("\n`{word}` is a word of SQL, too: as a name it stands in quotes, \"{word}\"");
    }
    text += "\nthere are:";
    let words: Vec<String> = sql.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).map(str::to_lowercase).collect();
    for table in &tables {
        // Of the others the name is enough.
        let columns: Vec<&str> = table.columns.iter().map(|c| c.0.as_str()).collect();
        text += &if words.contains(&table.name.to_lowercase()) {
            format!("\n  {} ({})", table.name, columns.join(", "))
        } else {
            format!("\n  {}", table.name)
        };
    }
    LogError::Sql(text)
}

/// The word at which DuckDB's parser failed.
fn word_at_error(message: &str) -> Option<String> {
    let (_, after) = message.split_once("syntax error at or near \"")?;
    Some(after.split('"').next()?.to_lowercase())
}

/// The name that DuckDB did not find.
fn missing_name(message: &str) -> Option<String> {
    let after = ["Table with name ", "Referenced column ", "Referenced table ", "does not have a column named "]
        .iter()
        .find_map(|start| message.split_once(start).map(|(_, after)| after))?;
    let name = after.split_whitespace().next()?.trim_matches(|c| c == '"' || c == '!');
    Some(name.to_lowercase())
}

fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let nearest = candidates.map(|c| (strsim::damerau_levenshtein(name, c), c)).min_by_key(|(distance, _)| *distance)?;
    (nearest.0 <= 1 + name.len() / 4).then_some(nearest.1)
}
