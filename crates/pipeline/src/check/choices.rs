//! Errors in settings that may take one of several forms: which form was meant, and what all of them are.

use crate::parse::{listed, Report, Tree};
use crate::MODEL;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::ValidationError;
use serde_json::Value;

/// The shape that the value at `path` was plainly meant as: what is wrong with it as that one. None if it could be any
/// of them.
pub fn meant<'c>(context: &'c [Vec<ValidationError<'static>>], path: &str) -> Option<&'c Vec<ValidationError<'static>>> {
    // A branch whose first objection is to the very kind of value was not meant.
    let other_kind = |e: &ValidationError| {
        e.instance_path.as_str() == path && matches!(e.kind, Kind::Type { .. } | Kind::Constant { .. } | Kind::Enum { .. })
    };
    // A name that selects the shape counts for more than anything else that is wrong.
    let rank = |branch: &&Vec<ValidationError<'static>>| {
        let foreign = |e: &ValidationError| match &e.kind {
            Kind::AdditionalProperties { unexpected } => 2 * unexpected.len(),
            Kind::Constant { .. } => 8,
            Kind::Required { .. } => 3,
            _ => 1,
        };
        branch.iter().map(foreign).sum::<usize>()
    };
    context.iter().filter(|branch| !branch.iter().any(other_kind)).min_by_key(rank)
}

/// A value that isn't allowed: the allowed ones, and the nearest name.
pub fn choices(errors: &[&ValidationError], here: &Tree, name: &str, help: Option<String>, report: &mut Report) {
    let mut values: Vec<String> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    collect(errors, &mut values, &mut kinds);
    // Where names are allowed, that one of them is wanted says enough.
    if !values.is_empty() {
        kinds.retain(|k| k != "text" && k != "a text");
    }
    let mut expected: Vec<String> = Vec::new();
    match values.len() {
        0 => (),
        1 => expected.push(format!("`{}`", values[0])),
        _ => expected.push(format!("one of {}", listed(&values, "and"))),
    }
    if kinds.len() + expected.len() > 1 {
        kinds.retain(|k| k != "nothing");
    }
    expected.extend(kinds);
    let near = here.text().and_then(|text| report.guess(text, values.iter().map(String::as_str)));
    let help = near.map(|near| format!("did you mean `{near}`?")).or(help);
    report.add(here.at, format!("{name} must be {}, found {}", expected.join(" or "), here.called()), help);
}

fn collect(errors: &[&ValidationError], values: &mut Vec<String>, kinds: &mut Vec<String>) {
    let mut value = |v: &Value| match v {
        // Leaving a setting out is the way to have nothing.
        Value::Null => (),
        Value::String(text) if !values.contains(text) => values.push(text.clone()),
        Value::String(_) => (),
        other => values.push(other.to_string()),
    };
    let mut deeper = Vec::new();
    for error in errors {
        match &error.kind {
            Kind::Constant { expected_value } => value(expected_value),
            Kind::Enum { options } => options.as_array().into_iter().flatten().for_each(&mut value),
            Kind::Type { kind } => {
                for kind in types(kind) {
                    if !kinds.contains(&kind) {
                        kinds.push(kind);
                    }
                }
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => deeper.extend(context.iter().flatten()),
            _ => (),
        }
    }
    if !deeper.is_empty() {
        collect(&deeper, values, kinds);
    }
}

/// The JSON types that were wanted, in plain words.
pub fn types(kind: &TypeKind) -> Vec<String> {
    let names: Vec<String> = match kind {
        TypeKind::Single(kind) => vec![kind.to_string()],
        TypeKind::Multiple(kinds) => kinds.iter().map(|k| k.to_string()).collect(),
    };
    let plain = |name: &String| match name.as_str() {
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text",
        "boolean" => "`true` or `false`",
        "array" => "a list",
        "object" => "a map",
        _ => "nothing",
    };
    let all: Vec<String> = names.iter().map(plain).map(String::from).collect();
    let some: Vec<String> = all.iter().filter(|n| *n != "nothing").cloned().collect();
    if some.is_empty() {
        all
    } else {
        some
    }
}

/// The settings that the schema knows at `path`, all alternatives together.
pub fn known_at(schema: &Value, path: &[&str]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for key in schemas_at(schema, path).iter().filter_map(|s| s.get("properties")?.as_object()).flat_map(|p| p.keys()) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

/// Whether the text at `path` names a model.
pub fn names_model(schema: &Value, path: &[&str]) -> bool {
    schemas_at(schema, path).iter().any(|schema| schema["x-names"] == MODEL)
}

/// The description of the value at `path`, or of the setting that it is an item of.
pub fn described_at(schema: &Value, path: &[&str]) -> Option<String> {
    let paths = (1..=path.len()).rev().map(|steps| &path[..steps]);
    let about = |path| schemas_at(schema, path).iter().find_map(|schema| schema["description"].as_str().map(String::from));
    paths.into_iter().find_map(about).map(|text| text.replace('\n', " "))
}

/// What the schema says of a value at `path`, all alternatives.
fn schemas_at<'s>(schema: &'s Value, path: &[&str]) -> Vec<&'s Value> {
    path.iter().fold(opened(schema, vec![schema]), |here, step| {
        let below =
            here.iter().flat_map(|s| [s.get("properties").and_then(|p| p.get(step)), s.get("additionalProperties"), s.get("items")]);
        opened(schema, below.flatten().collect())
    })
}

/// These schemas and all that they refer to or offer as alternatives.
fn opened<'s>(root: &'s Value, mut schemas: Vec<&'s Value>) -> Vec<&'s Value> {
    let mut next = 0;
    while next < schemas.len() && schemas.len() < 200 {
        let schema = schemas[next];
        next += 1;
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|r| root.pointer(r.trim_start_matches('#')));
        let offered = ["anyOf", "oneOf", "allOf"].iter().filter_map(|k| schema.get(k)?.as_array()).flatten();
        schemas.extend(target.into_iter().chain(offered));
    }
    schemas
}
