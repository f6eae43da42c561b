//! Which statements may be asked of a log: one, and one that only reads.
//!
//! DuckDB is locked before it sees a statement, but the files of the log must stay readable to it, and what it may read
//! it may also overwrite (`COPY ... TO`). So a statement that writes is refused here, by its first word. To be sure
//! which word is first and that no second statement follows, this scanner must agree with DuckDB's on where strings and
//! comments end; the notations where two scanners could disagree (E'...' strings, $$ quoting, nested comments) are
//! refused.

use super::LogError;

const ASKS: [&str; 9] = ["SELECT", "WITH", "FROM", "VALUES", "TABLE", "DESCRIBE", "SHOW", "SUMMARIZE", "EXPLAIN"];

#[derive(Debug, PartialEq, Eq)]
enum SqlToken {
    Word(String),
    /// A name in quotes.
    Name(String),
    Open,
    Close,
    End,
    Other,
}

/// Functions that read nothing, and change the database or what it prints.
const CHANGES: [&str; 7] = [
    "ENABLE_LOGGING",
    "DISABLE_LOGGING",
    "ENABLE_PROFILING",
    "DISABLE_PROFILING",
    "TRUNCATE_DUCKDB_LOGS",
    "CHECKPOINT",
    "FORCE_CHECKPOINT",
];

/// Refuses whatever isn't one statement that reads.
pub(super) fn check(sql: &str) -> Result<(), LogError> {
    let refused = |why: &str| Err(LogError::Refused(why.into()));
    let mut tokens = tokens(sql)?;
    for called in tokens.windows(2).filter(|pair| pair[1] == SqlToken::Open) {
        if let SqlToken::Word(name) | SqlToken::Name(name) = &called[0] {
            if CHANGES.contains(&name.as_str()) {
                return refused(&format!("{name} changes the database"));
            }
        }
    }
    while tokens.last() == Some(&SqlToken::End) {
        tokens.pop();
    }
    if tokens.contains(&SqlToken::End) {
        return refused("here is more than one statement");
    }
    let mut rest = tokens.as_slice();
    loop {
        match rest {
            [] => return refused("here is no statement"),
            [SqlToken::Open, ..] => rest = &rest[1..],
            [SqlToken::Word(word), ..] if !ASKS.contains(&word.as_str()) => return refused(&format!("{word} isn't one")),
            [SqlToken::Word(word), after @ ..] if word == "EXPLAIN" => rest = explained(after),
            [SqlToken::Word(word), after @ ..] if word == "WITH" => return check_with(after),
            [SqlToken::Word(_), ..] => return Ok(()),
            _ => return refused("this starts with no such word"),
        }
    }
}

/// The statement that an EXPLAIN explains (and, with ANALYZE, carries out): the words after its options.
fn explained(mut rest: &[SqlToken]) -> &[SqlToken] {
    loop {
        rest = match rest {
            [SqlToken::Word(word), after @ ..] if word == "ANALYZE" || word == "VERBOSE" => after,
            [SqlToken::Open, SqlToken::Word(word), ..] if !ASKS.contains(&word.as_str()) => {
                let close = rest.iter().position(|t| *t == SqlToken::Close).unwrap_or(rest.len() - 1);
                &rest[close + 1..]
            }
            _ => return rest,
        }
    }
}

/// `name [(columns)] AS [NOT MATERIALIZED] (...), ...` and then the statement: the first word after a closing
/// parenthesis that doesn't belong to this list. It could also be an INSERT.
fn check_with(rest: &[SqlToken]) -> Result<(), LogError> {
    let mut depth = 0;
    for (i, token) in rest.iter().enumerate() {
        match token {
            SqlToken::Open => depth += 1,
            SqlToken::Close => depth -= 1,
            SqlToken::Word(word) if depth == 0 && i > 0 && rest[i - 1] == SqlToken::Close && word != "AS" && word != "USING" => {
                return if ASKS.contains(&word.as_str()) { Ok(()) } else { Err(LogError::Refused(format!("WITH ... {word} isn't one"))) };
            }
            _ => {}
        }
    }
    Ok(()) // not SQL, or `WITH ... (SELECT ...)`: nothing here can write
}

fn tokens(sql: &str) -> Result<Vec<SqlToken>, LogError> {
    let refused = |why: &str| Err(LogError::Refused(why.into()));
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let next = |n: usize| &rest[n..];
        rest = if let Some(comment) = rest.strip_prefix("--") {
            comment.find(['\n', '\r']).map_or("", |end| &comment[end..])
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").unwrap_or(comment.len());
            if comment[..end].contains("/*") {
                return refused("comments inside comments aren't read");
            }
            comment.get(end + 2..).unwrap_or("")
        } else if first == '\'' || first == '"' {
            let end = next(1).find(first); // a doubled quote reads as two strings in a row
            let name = || SqlToken::Name(next(1)[..end.unwrap_or(rest.len() - 1)].to_uppercase());
            tokens.push(if first == '"' { name() } else { SqlToken::Other });
            end.map_or("", |end| &rest[end + 2..])
        } else if first == '$' {
            return refused("$ quoting and parameters aren't read");
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
            if rest[..end].eq_ignore_ascii_case("e") && next(end).starts_with('\'') {
                return refused("E'...' strings aren't read; chr(10) is a line end");
            }
            tokens.push(SqlToken::Word(rest[..end].to_uppercase()));
            next(end)
        } else {
            tokens.extend(match first {
                '(' => Some(SqlToken::Open),
                ')' => Some(SqlToken::Close),
                ';' => Some(SqlToken::End),
                c if c.is_whitespace() => None,
                _ => Some(SqlToken::Other),
            });
            next(first.len_utf8())
        };
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_pass() {
        for sql in [
            "SELECT 1",
            " /* why */ -- because\n select ';' ; ",
            "(SELECT 1) UNION (SELECT 2)",
            "FROM update",
            "WITH update AS (SELECT 1), b(x) AS NOT MATERIALIZED (SELECT 2) SELECT * FROM update",
            "with a as (select ')') from a",
            "EXPLAIN ANALYZE SELECT 1",
            "EXPLAIN (ANALYZE, FORMAT json) FROM a",
            "DESCRIBE trajectories",
            "SHOW TABLES",
            "SUMMARIZE rollout",
            "SELECT 'it''s; fine', \"a;b\" FROM a",
            "SELECT checkpoint FROM rollout WHERE response LIKE '%checkpoint(%'",
        ] {
            assert!(check(sql).is_ok(), "{sql}: {:?}", check(sql));
        }
    }

    #[test]
    fn whatever_writes_is_refused() {
        for sql in [
            "",
            ";",
            "CREATE TABLE a (b INT)",
            "INSERT INTO metrics VALUES (1)",
            "COPY (SELECT 1) TO 'x'",
            "ATTACH 'x'",
            "PRAGMA version",
            "SET threads = 1",
            "INSTALL httpfs",
            "from enable_logging(level='trace', storage='file', storage_path='x'), rollout",
            "from \"Enable_Profiling\"()",
            "from enable_logging ('x')",
            "from enable_profiling/* why */()",
            "select * from force_checkpoint('memory')",
            "CALL duckdb_tables()",
            "SELECT 1; SELECT 2",
            "SELECT 1 /* ; */; COPY a TO 'b'",
            "SELECT '\\'; COPY a TO 'b' --'",
            "SELECT E'\\'; COPY a TO $$b$$ --'",
            "SELECT $$;$$",
            "/* /* */ SELECT */ COPY a TO 'b'",
            "-- SELECT\rCOPY a TO 'b'",
            "EXPLAIN ANALYZE COPY a TO 'b'",
            "EXPLAIN (ANALYZE) COPY a TO 'b'",
            "EXPLAIN EXPLAIN ANALYZE INSERT INTO a FROM b",
            "WITH a AS (SELECT 1) INSERT INTO metrics FROM a",
            "WITH a AS (SELECT ')') DELETE FROM metrics",
        ] {
            assert!(check(sql).is_err(), "{sql}");
        }
    }
}
