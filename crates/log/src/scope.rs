//! Which iterations a query reads: found in DuckDB's query plan, by the filters on its scans of the log's files.

use duckdb::Connection;
use serde_json::Value;
use std::ops::RangeInclusive;

/// The iterations that the result of `sql` can depend on: the iterations that every scan of a file filters for. All,
/// where that isn't known.
pub(super) fn iterations(db: &Connection, sql: &str) -> RangeInclusive<u64> {
    plan(db, sql).and_then(|plan| span_of_scans(&plan)).unwrap_or(0..=u64::MAX)
}

/// The plan of a statement that has one, as DuckDB explains it.
fn plan(db: &Connection, sql: &str) -> Option<Value> {
    let mut statement = db.prepare(&format!("EXPLAIN (FORMAT json) {sql}")).ok()?;
    let mut rows = statement.query([]).ok()?;
    let text: String = rows.next().ok()??.get(1).ok()?;
    serde_json::from_str(&text).ok()
}

/// What spans the iterations of all scans under `plan`; none where one of them reads all.
fn span_of_scans(plan: &Value) -> Option<RangeInclusive<u64>> {
    let mut span: Option<RangeInclusive<u64>> = None;
    let mut left: Vec<&Value> = vec![plan];
    while let Some(node) = left.pop() {
        match node {
            Value::Array(nodes) => left.extend(nodes),
            Value::Object(fields) => {
                left.extend(fields.get("children"));
                if fields.get("name").and_then(Value::as_str).is_some_and(|name| name.trim() == "READ_PARQUET") {
                    let own = filtered(fields.get("extra_info")?.get("Filters")?)?;
                    span = Some(match span {
                        None => own,
                        Some(span) => *span.start().min(own.start())..=*span.end().max(own.end()),
                    });
                }
            }
            _ => {}
        }
    }
    span
}

/// The iterations that filters leave, which all must hold: one text, or a list of texts.
fn filtered(filters: &Value) -> Option<RangeInclusive<u64>> {
    let texts: Vec<&str> = match filters {
        Value::String(text) => vec![text],
        Value::Array(texts) => texts.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    // A text may hold what looks like a filter.
    if texts.iter().any(|text| text.contains(['\'', '"'])) {
        return None;
    }
    let (mut first, mut last, mut known) = (0, u64::MAX, false);
    // In parentheses there may be an OR: such a filter is passed over, which leaves more than it would.
    for term in texts.iter().flat_map(|text| text.split(" AND ")).filter(|term| !term.contains(['(', ')']) && !term.contains(" OR ")) {
        let Some(rest) = term.trim().strip_prefix("iteration") else { continue };
        let (sign, number) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
        let Ok(number) = number.trim().parse::<u64>() else { continue };
        match sign.trim() {
            "=" => (first, last) = (first.max(number), last.min(number)),
            ">=" => first = first.max(number),
            ">" => first = first.max(number.saturating_add(1)),
            "<=" => last = last.min(number),
            "<" => last = last.min(number.checked_sub(1)?),
            _ => continue,
        }
        known = true;
    }
    (known && first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scan(filters: Value) -> Value {
        json!({ "name": "READ_PARQUET ", "children": [], "extra_info": { "Filters": filters } })
    }

    #[test]
    fn every_scan_must_say_it() {
        let both = |a: Value, b: Value| span_of_scans(&json!([{ "name": "HASH_JOIN", "children": [a, b] }]));
        assert_eq!(both(scan(json!("iteration=7")), scan(json!("iteration>=3 AND iteration<=5"))), Some(3..=7));
        assert_eq!(both(scan(json!("iteration=7")), json!({ "name": "READ_PARQUET", "children": [], "extra_info": {} })), None);
        assert_eq!(both(scan(json!("iteration=7")), scan(json!("turn=7"))), None);
        assert_eq!(span_of_scans(&json!([{ "name": "DUMMY_SCAN", "children": [] }])), None);
    }

    #[test]
    fn what_is_no_plain_bound_is_passed_over() {
        let range = |text: &str| filtered(&json!(text));
        assert_eq!(range("iteration>4 AND iteration<9 AND turn=1"), Some(5..=8));
        assert_eq!(range("((iteration >= 1) OR (iteration <= 2))"), None);
        assert_eq!(range("iteration=1 OR iteration=9"), None);
        assert_eq!(range("iteration IN (1, 2)"), None);
        assert_eq!(range("optional: iteration>3"), None);
        assert_eq!(range("iteration=3 AND task!=' AND iteration=0 AND x'"), None);
        assert_eq!(filtered(&json!(["iteration>=3", "turn=2"])), Some(3..=u64::MAX));
        assert_eq!(range("iteration=5 AND iteration=6"), None, "nothing is left, and DuckDB would have said so");
    }
}
