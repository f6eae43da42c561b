//! Turns a schema validator's errors into messages for people: what is expected, what is there, and where.

use super::choices::{choices, described_at, known_at, meant, names_model, types};
use super::foreign;
use crate::parse::{Location, Report, Shape, Tree};
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::ValidationError;
use serde_json::Value;

/// What is being checked, as messages name it.
pub struct Subject<'a> {
    /// `` `group` `` or ``the model `actor` ``.
    pub whole: String,
    pub schema: &'a Value,
    /// The key that holds the settings, for messages about missing ones.
    pub owner: Location,
}

/// Puts one objection of the validator into words.
pub fn explain(error: &ValidationError, tree: &Tree, subject: &Subject, report: &mut Report) {
    let path = steps(error.instance_path.as_str());
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let here = tree.deepest(path.iter().copied());
    let name = named(&path, subject);
    let actual = here.called();
    let about = |key: &str| subject.schema.pointer(&format!("/properties/{key}/description")).and_then(Value::as_str);
    let help = path.first().and_then(|key| about(key).map(|about| format!("`{key}`: {}", first_sentence(about))));
    let help = match here.text() {
        Some("yes" | "on" | "no" | "off") => Some("YAML's truth values are `true` and `false`".into()),
        _ => help,
    };
    let mut must = |what: String| report.add(here.at, format!("{name} must be {what}, found {actual}"), help.clone());
    match &error.kind {
        // An operator is no map; what is behind its `with` is.
        Kind::Type { .. } if path.is_empty() && subject.whole.starts_with('`') => {
            report.add(here.at, format!("the settings of {name} must be a map, found {actual}"), None);
        }
        Kind::Type { .. } if names_model(subject.schema, &path) => must("a name of `models:`".into()),
        Kind::Type { kind } => must(types(kind).join(" or ")),
        Kind::Minimum { limit } => must(format!("at least {}", number(limit))),
        Kind::Maximum { limit } => must(format!("at most {}", number(limit))),
        Kind::ExclusiveMinimum { limit } => must(format!("above {}", number(limit))),
        Kind::ExclusiveMaximum { limit } => must(format!("below {}", number(limit))),
        Kind::MultipleOf { multiple_of } => must(format!("a multiple of {multiple_of}")),
        Kind::Pattern { pattern } => match here.text().filter(|text| text.starts_with("https://") && pattern.starts_with("^http://")) {
            Some(text) => {
                let about = described_at(subject.schema, &path);
                report.add(here.at, format!("{name} can't be `{text}`: flow speaks `http` and no `https`"), about);
            }
            None => must(form(pattern)),
        },
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
        Kind::FalseSchema => {
            let known = known_at(subject.schema, &path[..path.len().saturating_sub(1)]);
            let names = known.iter().map(String::as_str);
            let abroad =
                path.last().and_then(|key| foreign::meant(key, names).map(|(whose, own)| format!("{whose}'s `{key}` is `{own}` here")));
            let help = [help, abroad].into_iter().flatten().reduce(|help, abroad| format!("{help} {abroad}."));
            report.add(holder(tree, subject, &path), format!("nothing reads {name} with these settings"), help)
        }
        Kind::UniqueItems => report.add(here.at, format!("{name} names something twice"), help),
        Kind::Constant { .. } | Kind::Enum { .. } => choices(&[error], here, &name, help, report),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = known_at(subject.schema, &path);
            for key in unexpected {
                let at = here.entry(key).map_or(here.at, |e| e.at);
                if known.contains(key) {
                    report.add(at, format!("{name} can't have `{key}` beside its other settings"), None);
                    continue;
                }
                let names = || known.iter().map(String::as_str);
                let help = foreign::help(key, names()).or_else(|| report.nearest(key, names()));
                report.add(at, format!("{name} has no setting `{key}`"), help);
            }
        }
        Kind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            let help = about(key).filter(|_| path.is_empty()).map(|about| format!("`{key}`: {}", first_sentence(about)));
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
    if let Some(branch) = meant(context, error.instance_path.as_str()) {
        return branch.iter().for_each(|error| explain(error, tree, subject, report));
    }
    let path = steps(error.instance_path.as_str());
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let here = tree.deepest(path.iter().copied());
    let about = path.first().and_then(|key| subject.schema.pointer(&format!("/properties/{key}/description"))?.as_str());
    let help = about.map(|about| format!("`{}`: {}", path[0], first_sentence(about)));
    let all: Vec<&ValidationError> = context.iter().flatten().collect();
    choices(&all, here, &named(&path, subject), help, report);
}

/// A pattern of the schema in words.
fn form(pattern: &str) -> String {
    match pattern {
        address if address.starts_with("^http://") => "an address such as `http://127.0.0.1:8000`".into(),
        address if address.starts_with("^https?://") => "an address such as `https://HOST`".into(),
        // The validator writes classes such as `\S` out.
        address if address.ends_with(":[0-9]+$") => "a host and a port, such as `10.0.0.1:29500`".into(),
        "^[a-z][a-z0-9_]{0,31}$" => "a lower-case letter and up to 31 lower-case letters, digits and `_` after it".into(),
        "^[A-Za-z][A-Za-z0-9_-]{0,63}$" => "a letter and up to 63 letters, digits, `_` and `-` after it".into(),
        "^[A-Za-z_][A-Za-z0-9_]*$" => "the name of an environment variable".into(),
        other => format!("of the form {other}"),
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
fn holder(tree: &Tree, subject: &Subject, path: &[&str]) -> Location {
    let Some((last, before)) = path.split_last() else { return subject.owner };
    let above = tree.deepest(before.iter().copied());
    match &above.value {
        Shape::Map(_) => above.entry(last).map_or(above.at, |e| e.at),
        _ => tree.deepest(path.iter().copied()).at,
    }
}

/// The first sentence of a description, however its lines are broken: the rest is for the documentation.
fn first_sentence(text: &str) -> String {
    let line = text.replace('\n', " ");
    let begins = |at: usize| line[at + 2..].starts_with(|c: char| c.is_uppercase() || c == '`');
    let end = line.match_indices(". ").map(|(at, _)| at).find(|at| begins(*at)).map_or(line.len(), |at| at + 1);
    line[..end].into()
}
