//! Settings held against their JSON Schema, with messages for people: what is wanted, what was found, and where.

use super::choices::{self, alternatives, choices, types};
use super::report::Report;
use super::tree::{At, Shape, Tree};
use jsonschema::error::ValidationErrorKind as Kind;
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

/// Puts one objection of the validator into words.
pub fn explain(error: &ValidationError, tree: &Tree, subject: &Subject, report: &mut Report) {
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
        // An operator is no map; what is behind its `with` is.
        Kind::Type { .. } if path.is_empty() && subject.whole.starts_with('`') => {
            report.add(here.at, format!("the settings of {name} must be a map, found {found}"), None);
        }
        Kind::Type { kind } => must(types(kind).join(" or ")),
        Kind::Minimum { limit } => must(format!("at least {}", number(limit))),
        Kind::Maximum { limit } => must(format!("at most {}", number(limit))),
        Kind::ExclusiveMinimum { limit } => must(format!("above {}", number(limit))),
        Kind::ExclusiveMaximum { limit } => must(format!("below {}", number(limit))),
        Kind::MultipleOf { multiple_of } => must(format!("a multiple of {multiple_of}")),
        Kind::Pattern { pattern } => must(format!("of the form {pattern}")),
        Kind::MinLength { limit: 1 } => must("a text that isn't empty".into()),
        Kind::MinLength { limit } => must(format!("at least {limit} characters long")),
        Kind::MaxLength { limit } => must(format!("at most {limit} characters long")),
        Kind::MinItems { limit } => {
            report.add(here.at, format!("{name} must have at least {limit} {}, found {}", items(*limit), here.length()), help)
        }
        Kind::MaxItems { limit } => {
            report.add(here.at, format!("{name} must have at most {limit} {}, found {}", items(*limit), here.length()), help)
        }
        Kind::MinProperties { limit } => {
            report.add(here.at, format!("{name} must have at least {limit} {}, found {}", entries(*limit), here.entries().len()), help)
        }
        // How a schema says that a setting has no place beside certain others.
        Kind::FalseSchema => report.add(holder(tree, subject, &path), format!("nothing reads {name} with these settings"), help),
        Kind::UniqueItems => report.add(here.at, format!("{name} names something twice"), help),
        Kind::Constant { .. } | Kind::Enum { .. } => choices(&[error], here, &name, help, report),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = choices::known_at(subject.schema, &path);
            for key in unexpected {
                let at = here.entry(key).map_or(here.at, |e| e.at);
                if known.contains(key) {
                    report.add(at, format!("{name} can't have `{key}` beside its other settings"), None);
                    continue;
                }
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

fn entries(count: u64) -> &'static str {
    if count == 1 {
        "entry"
    } else {
        "entries"
    }
}

fn items(count: u64) -> &'static str {
    if count == 1 {
        "item"
    } else {
        "items"
    }
}

/// A limit as people write it: `1`, not `1.0`.
fn number(limit: &Value) -> String {
    let text = limit.to_string();
    text.strip_suffix(".0").unwrap_or(&text).into()
}

/// The steps of a JSON pointer.
pub fn steps(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|s| s.replace("~1", "/").replace("~0", "~")).collect()
}

/// What a message calls the value at `path`.
pub fn named(path: &[&str], subject: &Subject) -> String {
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

/// The first line of a description: the rest is for the documentation.
pub fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::pipeline::fake::{catalog, GOOD};
    use crate::pipeline::parse;

    #[test]
    fn a_list_that_may_not_be_empty_is_told_about_in_the_singular() {
        let said = parse("x", &GOOD.replace("by: [task, state]", "by: []"), &[], &catalog()).unwrap_err();
        assert_eq!(said.0[0].message, "`by` must have at least 1 item, found 0", "{said}");
    }
}
