//! What may stand in an expression: DuckDB's parser reads all of SQL, and a column over rows is a small part of it.

use serde_json::Value;
use std::collections::BTreeSet;

/// The functions that may be called. DuckDB's own word on which are free of side effects doesn't serve: it calls the
/// local time constant.
const FUNCTIONS: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "^",
    "**",
    "||",
    "abs",
    "any_value",
    "avg",
    "ceil",
    "contains",
    "count",
    "count_star",
    "cume_dist",
    "dense_rank",
    "exp",
    "first_value",
    "floor",
    "greatest",
    "hash",
    "isfinite",
    "lag",
    "last_value",
    "lead",
    "least",
    "len",
    "length",
    "list_apply",
    "list_avg",
    "list_concat",
    "list_filter",
    "list_max",
    "list_min",
    "list_sum",
    "list_transform",
    "list_value",
    "ln",
    "log",
    "lower",
    "max",
    "median",
    "min",
    "nth_value",
    "ntile",
    "nullif",
    "percent_rank",
    "pow",
    "power",
    "rank",
    "round",
    "row",
    "row_number",
    "sign",
    "sqrt",
    "starts_with",
    "stddev_pop",
    "stddev_samp",
    "struct_extract",
    "struct_pack",
    "sum",
    "trim",
    "upper",
    "var_pop",
    "var_samp",
];

/// Functions of other languages, and what to write in their place.
const INSTEAD: &[(&str, &str)] = &[
    ("clamp", "greatest(low, least(high, x))"),
    ("clip", "greatest(low, least(high, x))"),
    ("mean", "avg(x)"),
    ("std", "stddev_pop(x)"),
    ("where", "case when condition then x else y end"),
    ("if", "case when condition then x else y end"),
    ("relu", "greatest(0, x)"),
    ("sigmoid", "1 / (1 + exp(-x))"),
    ("maximum", "greatest(x, y)"),
    ("minimum", "least(x, y)"),
    ("isnan", "not isfinite(x)"),
];

/// The kinds of expressions, as DuckDB calls them.
const CLASSES: &[&str] =
    &["BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA", "OPERATOR", "WINDOW"];

/// The types that may be cast to: a text cast to a date can be the day it is.
const TYPES: &[&str] = &["BOOLEAN", "VARCHAR", "FLOAT", "DOUBLE", "DECIMAL", "INTEGER", "UINTEGER", "BIGINT", "UBIGINT", "HUGEINT"];

/// The parts of a call that put rows in an order or choose among them.
const AMONG_ROWS: [&str; 5] = ["orders", "order_bys", "arg_orders", "filter", "filter_expr"];

/// Whether a call orders or chooses rows by their iteration, or takes the iteration of another row: the rows are one
/// iteration's, so it would see no other. As a part of a hash the iteration is a seed.
fn across_iterations(call: &Value) -> bool {
    let taken = |child: &Value| child["class"] == "COLUMN_REF" && names_iteration(child);
    AMONG_ROWS.iter().any(|part| names_iteration(&call[part]))
        || call["class"] == "WINDOW" && call["children"].as_array().into_iter().flatten().any(taken)
}

/// Whether the column `iteration` is read, other than in a hash.
fn names_iteration(tree: &Value) -> bool {
    match tree {
        Value::Object(entries) if entries.get("function_name").is_some_and(|name| name == "hash") => false,
        Value::Object(entries) => {
            let named = entries.get("column_names").and_then(Value::as_array);
            named.is_some_and(|names| names.iter().any(|name| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case("iteration"))))
                || entries.values().any(names_iteration)
        }
        Value::Array(items) => items.iter().any(names_iteration),
        _ => false,
    }
}

/// Why an expression may not be computed, if it may not; the columns that it reads go into `read`. `bound` are the
/// names that a list's items have around it.
pub fn refusal(tree: &Value, bound: &[String], read: &mut BTreeSet<String>) -> Option<String> {
    if let Some(class) = tree["class"].as_str() {
        if !CLASSES.contains(&class) {
            return Some(format!("an expression over rows has no {} in it", class.to_lowercase()));
        }
        if let Some(names) = tree["column_names"].as_array() {
            let [Value::String(name)] = names.as_slice() else { return Some("a column is named without its table".into()) };
            if !bound.contains(name) {
                read.insert(name.clone());
            }
        }
        if across_iterations(tree) {
            let why =
                "it looks for rows of other iterations by `iteration`, and an expression sees the rows of one iteration: leave it out";
            return Some(format!("{why}, or read what this node made earlier as `last_NAME`, with `by`"));
        }
        if class == "LAMBDA" {
            let mut items = BTreeSet::new();
            return refusal(&tree["lhs"], &[], &mut items).or_else(|| {
                let bound: Vec<String> = bound.iter().cloned().chain(items).collect();
                refusal(&tree["expr"], &bound, read)
            });
        }
        if let Some(kind) = tree["cast_type"]["id"].as_str().filter(|kind| !TYPES.contains(kind)) {
            return Some(format!("nothing is cast to {kind} in an expression over rows: only to {}", TYPES.join(", ")));
        }
        if let Some(function) = tree["function_name"].as_str().filter(|function| !FUNCTIONS.contains(function)) {
            if let Some((_, instead)) = INSTEAD.iter().find(|(name, _)| *name == function) {
                return Some(format!("`{function}` isn't a function of expressions: write `{instead}`"));
            }
            let words = FUNCTIONS.iter().filter(|name| name.starts_with(char::is_alphabetic)).copied();
            return Some(format!("`{function}` isn't a function of expressions: {}", words.collect::<Vec<_>>().join(", ")));
        }
    }
    match tree {
        Value::Object(entries) => entries.values().find_map(|value| refusal(value, bound, read)),
        Value::Array(items) => items.iter().find_map(|value| refusal(value, bound, read)),
        _ => None,
    }
}
