//! Types of DuckDB that Arrow or an answer's format lacks: such columns of an answer are cast to text in SQL.

use super::sql::quoted;
use super::AnswerFormat;
use duckdb::Connection;
use std::borrow::Cow;

/// The types that no format has, wherever they are in a column's type. An unsigned number of 128 bits reaches Arrow as a
/// signed one; bits, large numbers and geometries as bytes; an interval and a union can't be written to Parquet.
const TEXTS: [&str; 9] = ["UHUGEINT", "BIGNUM", "VARINT", "BIT", "UNION", "VARIANT", "GEOMETRY", "INTERVAL", "TIME WITH TIME ZONE"];

/// `sql`, with columns cast to text whose types can't be printed in `format`, or in any format where it is none.
pub fn printable_types<'s>(db: &Connection, sql: &'s str, format: Option<AnswerFormat>) -> Cow<'s, str> {
    let by_keys = format.is_none_or(|format| format == AnswerFormat::Json);
    texts_of(db, sql, |kind| lacks(kind) || by_keys && has_other_keys(kind)).map_or(sql.into(), Cow::from)
}

/// `sql` with the columns cast to text whose types, as DuckDB writes them, meet `is`; none where no column does. The
/// question is planned for that, not answered.
pub fn texts_of(db: &Connection, sql: &str, is: impl Fn(&str) -> bool) -> Option<String> {
    let inner = sql.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let mut described = db.prepare(&format!("SELECT column_name, column_type FROM (DESCRIBE\n{inner}\n)")).ok()?;
    let columns = described.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).ok()?;
    let columns: Vec<(String, String)> = columns.collect::<Result<_, _>>().ok()?;
    if !columns.iter().any(|(_, kind)| is(kind)) {
        return None;
    }
    // By their places: two columns may have one name.
    let column = |(i, (name, kind)): (usize, &(String, String))| match is(kind) {
        true => format!("CAST(c{i} AS VARCHAR) AS {}", quoted(name)),
        false => format!("c{i} AS {}", quoted(name)),
    };
    let shown: Vec<String> = columns.iter().enumerate().map(column).collect();
    let places: Vec<String> = (0..columns.len()).map(|i| format!("c{i}")).collect();
    Some(format!("SELECT {} FROM (\n{inner}\n) AS answer({})", shown.join(", "), places.join(", ")))
}

/// Whether the type is a date, a time or a moment, or has one.
pub fn is_moment(kind: &str) -> bool {
    ["DATE", "TIME"].iter().any(|word| words(kind).any(|w| w.starts_with(word)))
}

/// Whether no format has the type.
fn lacks(kind: &str) -> bool {
    let zoned = "TIMESTAMP WITH TIME ZONE";
    let other = kind.replace(zoned, "");
    TEXTS.iter().any(|text| match text.contains(' ') {
        true => other.contains(text),
        false => words(&other).any(|word| word == *text),
    }) || kind != zoned && kind.contains(zoned)
}

/// Whether the type has a map whose keys are no texts, which JSON lacks.
fn has_other_keys(kind: &str) -> bool {
    kind.match_indices("MAP(").any(|(at, map)| !kind[at + map.len()..].starts_with("VARCHAR"))
}

/// The words of a type.
fn words(kind: &str) -> impl Iterator<Item = &str> {
    kind.split(|c: char| !(c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::super::query::{ask, stream_to};
    use super::super::views;
    use super::*;
    use arrow::array::{Array, AsArray};

    fn csv(db: &Connection, sql: &str) -> String {
        let mut out = Vec::new();
        stream_to(db, sql, AnswerFormat::Csv, &mut out).unwrap_or_else(|error| panic!("{sql}: {error}"));
        String::from_utf8(out).unwrap()
    }

    /// 2^127, 2^128 - 1 and the hash of a text, which were negative; beside them a sum, which stays a number.
    #[test]
    fn unsigned_numbers_of_128_bits_are_themselves() {
        let db = views::empty_database().unwrap();
        let sql =
            "select 170141183460469231731687303715884105728::uhugeint a, 340282366920938463463374607431768211455::uhugeint b, sum(7) c;";
        assert_eq!(csv(&db, sql), "a,b,c\n170141183460469231731687303715884105728,340282366920938463463374607431768211455,7\n");
        assert!(!csv(&db, "select md5_number('b') x").contains('-'));
        let nested =
            "select [340282366920938463463374607431768211455::uhugeint, 1] x, {'a': 170141183460469231731687303715884105728::uhugeint} y";
        assert!(csv(&db, nested).contains("[340282366920938463463374607431768211455, 1]"), "{}", csv(&db, nested));
        let answer = ask(&db, "select 340282366920938463463374607431768211455::uhugeint x, 2 x").unwrap();
        assert_eq!(answer.batches[0].column(0).as_string::<i32>().value(0), "340282366920938463463374607431768211455");
        assert_eq!(answer.schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["x", "x"], "two of one name");
        let ordered = csv(&db, "select x::uhugeint x from range(3000) t(x) order by hash(x) desc, x");
        let plain = csv(&db, "select x::varchar x from range(3000) t(x) order by hash(x) desc, x");
        assert_eq!(ordered, plain, "in the order that was asked for");
    }

    #[test]
    fn a_time_beyond_arrows_is_text_in_json() {
        let db = views::empty_database().unwrap();
        let json = |sql: &str| {
            let mut out = Vec::new();
            stream_to(&db, sql, AnswerFormat::Json, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let sql = "select date 'infinity' a, timestamp '290000-01-01' b, date '2026-01-02' c";
        assert_eq!(json(sql), "[\n{\"a\":\"infinity\",\"b\":\"290000-01-01 00:00:00\",\"c\":\"2026-01-02\"}\n]\n");
    }

    /// Every type that DuckDB has, its least and its greatest value and null, prints in every format.
    #[test]
    fn all_types_print_in_all_formats() {
        let db = views::empty_database().unwrap();
        let answer = ask(&db, "select column_name, column_type from (describe from test_all_types())").unwrap();
        let (names, kinds) = (answer.batches[0].column(0).as_string::<i32>(), answer.batches[0].column(1).as_string::<i32>());
        assert!(names.len() > 40, "{}", names.len());
        let mut failed = Vec::new();
        for (name, kind) in names.iter().flatten().zip(kinds.iter().flatten()) {
            let sql = format!("select {} x from test_all_types()", quoted(name));
            for format in [AnswerFormat::Table, AnswerFormat::Csv, AnswerFormat::Json, AnswerFormat::Parquet] {
                let printed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stream_to(&db, &sql, format, &mut Vec::new())));
                match printed {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => failed.push(format!("{kind}, {format:?}: {error}")),
                    Err(_) => failed.push(format!("{kind}, {format:?}: a panic")),
                }
            }
            if lacks(kind) {
                let text = csv(&db, &format!("select {}::varchar x from test_all_types()", quoted(name)));
                assert_eq!(csv(&db, &sql), text, "{kind}");
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }

    /// What others are made of them: lists, structures and maps.
    #[test]
    fn parts_of_a_type_are_looked_at() {
        for kind in ["UHUGEINT", "BIT[]", "STRUCT(a INTEGER, b UHUGEINT)", "UNION(a INTEGER)", "TIME WITH TIME ZONE", "INTERVAL[3]"] {
            assert!(lacks(kind), "{kind}");
        }
        assert!(lacks("TIMESTAMP WITH TIME ZONE[]") && has_other_keys("MAP(INTEGER, VARCHAR)[]"));
        for kind in ["HUGEINT", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "BLOB", "MAP(VARCHAR, INTEGER)", "DECIMAL(38,0)", "BITS"] {
            assert!(!lacks(kind) && !has_other_keys(kind), "{kind}");
        }
    }
}
