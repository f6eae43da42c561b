//! Settings held against their JSON Schema, with messages for people: what is wanted, what was found, and where.

use super::report::{listed, Report};
use super::tree::{At, Shape, Tree};
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::ValidationError;
use serde_json::{json, Value};

/// What is being checked, as messages name it.
pub struct Subject<'a> {
    /// `` `group` `` or ``the model `actor` ``.
    pub whole: String,
    pub schema: &'a Value,
    /// The key that holds the settings, for what is missing in them.
    pub owner: At,
}

/// Reports everything in `tree` that doesn't fit the schema; `true` if it fits.
pub fn check(tree: &Tree, subject: &Subject, report: &mut Report) -> bool {
    let schema = bounded(subject.schema);
    let validator = match jsonschema::draft202012::new(&schema) {
        Ok(validator) => validator,
        Err(error) => {
            report.add(subject.owner, format!("the schema of {} is broken: {error}", subject.whole), None);
            return false;
        }
    };
    let value = tree.json();
    let mut fits = true;
    for error in validator.iter_errors(&value).take(100) {
        fits = false;
        explain(&error, tree, subject, report);
    }
    fits
}

/// The schema with the limits of the integer formats spelled out: as formats alone they would not be checked.
fn bounded(schema: &Value) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(bounded).collect(),
        Value::Object(fields) => {
            let mut out: serde_json::Map<String, Value> = fields.iter().map(|(k, v)| (k.clone(), bounded(v))).collect();
            let limits = match fields.get("format").and_then(Value::as_str) {
                Some("uint8") => Some((json!(0), json!(u8::MAX))),
                Some("uint16") => Some((json!(0), json!(u16::MAX))),
                Some("uint32") => Some((json!(0), json!(u32::MAX))),
                Some("uint64" | "uint") => Some((json!(0), json!(u64::MAX))),
                Some("int32") => Some((json!(i32::MIN), json!(i32::MAX))),
                _ => None,
            };
            if let Some((least, most)) = limits {
                out.entry("minimum").or_insert(least);
                out.entry("maximum").or_insert(most);
            }
            Value::Object(out)
        }
        other => other.clone(),
    }
}

fn explain(error: &ValidationError, tree: &Tree, subject: &Subject, report: &mut Report) {
    let path = steps(error.instance_path.as_str());
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let here = tree.deepest(path.iter().copied());
    let name = named(&path, subject);
    let found = here.called();
    let about = |key: &str| subject.schema.pointer(&format!("/properties/{key}/description")).and_then(Value::as_str);
    let help = path.first().and_then(|key| about(key).map(|about| format!("`{key}`: {}", first_line(about))));
    let help = match here.text() {
        Some("yes" | "on" | "no" | "off") => Some("YAML's truth values are `true` and `false`".into()),
        _ => help,
    };
    let mut must = |what: String| report.add(here.at, format!("{name} must be {what}, found {found}"), help.clone());
    match &error.kind {
        Kind::Type { kind } => must(types(kind).join(" or ")),
        Kind::Minimum { limit } => must(format!("at least {limit}")),
        Kind::Maximum { limit } => must(format!("at most {limit}")),
        Kind::ExclusiveMinimum { limit } => must(format!("above {limit}")),
        Kind::ExclusiveMaximum { limit } => must(format!("below {limit}")),
        Kind::MultipleOf { multiple_of } => must(format!("a multiple of {multiple_of}")),
        Kind::Pattern { pattern } => must(format!("of the form {pattern}")),
        Kind::MinLength { limit: 1 } => must("a text that isn't empty".into()),
        Kind::MinLength { limit } => must(format!("at least {limit} characters long")),
        Kind::MaxLength { limit } => must(format!("at most {limit} characters long")),
        Kind::MinItems { limit } => must(format!("a list of at least {limit}")),
        Kind::MaxItems { limit } => must(format!("a list of at most {limit}")),
        Kind::MinProperties { limit } => must(format!("a map of at least {limit}")),
        Kind::UniqueItems => report.add(here.at, format!("{name} names something twice"), help),
        Kind::Constant { .. } | Kind::Enum { .. } => choices(&[error], here, &name, help, report),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = known_at(subject.schema, &path);
            for key in unexpected {
                let at = here.entry(key).map_or(here.at, |e| e.at);
                let help = report.nearest(key, known.iter().map(String::as_str));
                report.add(at, format!("{name} has no setting `{key}`"), help);
            }
        }
        Kind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            let help = about(key).filter(|_| path.is_empty()).map(|about| format!("`{key}`: {}", first_line(about)));
            report.add(holder(tree, subject, &path), format!("{name} needs the setting `{key}`"), help);
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => alternatives(context, error, tree, subject, report),
        Kind::OneOfMultipleValid { .. } => report.add(here.at, format!("{name} mixes settings that exclude one another"), help),
        _ => report.add(here.at, format!("{name}: {error}"), help),
    }
}

/// Several shapes were allowed. If the value was plainly meant as one of them, what is wrong with it as that one;
/// otherwise what all of them would have been.
fn alternatives(context: &[Vec<ValidationError<'static>>], error: &ValidationError, tree: &Tree, subject: &Subject, report: &mut Report) {
    let path = error.instance_path.as_str();
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
    let meant = context.iter().filter(|branch| !branch.iter().any(other_kind)).min_by_key(rank);
    if let Some(branch) = meant {
        for error in branch {
            explain(error, tree, subject, report);
        }
        return;
    }
    let path = steps(path);
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let here = tree.deepest(path.iter().copied());
    let about = path.first().and_then(|key| subject.schema.pointer(&format!("/properties/{key}/description"))?.as_str());
    let help = about.map(|about| format!("`{}`: {}", path[0], first_line(about)));
    let all: Vec<&ValidationError> = context.iter().flatten().collect();
    choices(&all, here, &named(&path, subject), help, report);
}

/// A value that is none of those allowed: all of them, and the nearest name.
fn choices(errors: &[&ValidationError], here: &Tree, name: &str, help: Option<String>, report: &mut Report) {
    let mut values: Vec<String> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    collect(errors, &mut values, &mut kinds);
    // A text was given where names are allowed: that one of them is wanted says enough.
    if here.text().is_some() && !values.is_empty() {
        kinds.retain(|k| k != "text" && k != "a text");
    }
    let mut wanted: Vec<String> = Vec::new();
    match values.len() {
        0 => (),
        1 => wanted.push(format!("`{}`", values[0])),
        _ => wanted.push(format!("one of {}", listed(&values, "and"))),
    }
    if kinds.len() + wanted.len() > 1 {
        kinds.retain(|k| k != "nothing");
    }
    wanted.extend(kinds);
    let near = here.text().and_then(|text| report.guess(text, values.iter().map(String::as_str)));
    let help = near.map(|near| format!("did you mean `{near}`?")).or(help);
    report.add(here.at, format!("{name} must be {}, found {}", wanted.join(" or "), here.called()), help);
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

fn types(kind: &TypeKind) -> Vec<String> {
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

/// The steps of a JSON pointer.
fn steps(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|s| s.replace("~1", "/").replace("~0", "~")).collect()
}

/// What a message calls the value at `path`.
fn named(path: &[&str], subject: &Subject) -> String {
    match path {
        [] => subject.whole.clone(),
        [.., last] if last.parse::<usize>().is_err() => format!("`{last}`"),
        [.., list, item] => format!("item {} of `{list}`", item.parse::<usize>().unwrap_or_default() + 1),
        [item] => format!("item {item}"),
    }
}

/// The key whose map lies at `path`.
fn holder(tree: &Tree, subject: &Subject, path: &[&str]) -> At {
    let Some((last, before)) = path.split_last() else { return subject.owner };
    let above = tree.deepest(before.iter().copied());
    match &above.value {
        Shape::Map(_) => above.entry(last).map_or(above.at, |e| e.at),
        _ => tree.deepest(path.iter().copied()).at,
    }
}

/// The settings that the schema knows at `path`, all alternatives together.
fn known_at(schema: &Value, path: &[&str]) -> Vec<String> {
    let mut here = opened(schema, vec![schema]);
    for step in path {
        let below =
            here.iter().flat_map(|s| [s.get("properties").and_then(|p| p.get(step)), s.get("additionalProperties"), s.get("items")]);
        here = opened(schema, below.flatten().collect());
    }
    let mut keys: Vec<String> = Vec::new();
    for key in here.iter().filter_map(|s| s.get("properties")?.as_object()).flat_map(|p| p.keys()) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
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

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
