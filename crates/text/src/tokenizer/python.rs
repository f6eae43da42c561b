//! Where Python's Jinja, which chat templates were made for, differs from minijinja: how values are printed, tests,
//! filters, and methods of texts.

use super::python_json::{float, json};
use crate::jinja;
use minijinja::value::{from_args, Tuple, Value, ValueKind};
use minijinja::{escape_formatter, Environment, Error, ErrorKind, State};
use std::fmt::Write;

/// Makes an environment render as Python's does.
pub fn install(environment: &mut Environment) {
    environment.set_formatter(|out, state, value| match printed(value) {
        Some(text) => out.write_str(&text).map_err(|_| ErrorKind::WriteFailure.into()),
        None => escape_formatter(out, state, value),
    });
    environment.add_filter("tojson", json);
    environment.add_filter("string", |value: &Value| printed(value).unwrap_or_else(|| value.to_string()));
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("wordcount", |text: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).count()
    });
    let sized = |value: &Value| value.is_undefined() || matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map);
    environment.add_test("iterable", move |value: &Value| sized(value) || value.kind() == ValueKind::Iterable);
    environment.add_test("sequence", move |value: &Value| sized(value));
    environment.add_test("callable", |value: &Value| {
        let macros = value.as_object().is_some_and(|object| object.type_name().ends_with("::Macro"));
        value.is_undefined() || value.kind() == ValueKind::Plain || macros
    });
    let cased = |value: &Value, without: fn(char) -> bool, with: fn(char) -> bool| {
        let text = printed(value).unwrap_or_else(|| value.to_string());
        text.contains(with) && !text.contains(without)
    };
    environment.add_test("lower", move |value: &Value| cased(value, char::is_uppercase, char::is_lowercase));
    environment.add_test("upper", move |value: &Value| cased(value, char::is_lowercase, char::is_uppercase));
    environment.add_test("odd", |value: &Value| remainder(value, 2).map(|rest| rest == 1.0));
    environment.add_test("even", |value: &Value| remainder(value, 2).map(|rest| rest == 0.0));
    environment.add_test("divisibleby", |value: &Value, by: i64| remainder(value, by).map(|rest| rest == 0.0));
    environment.set_unknown_method_callback(|state, value, name, arguments| match value.as_str() {
        Some(text) => method(state, (value, text), name, arguments),
        None => jinja::method(state, value, name, arguments),
    });
}

/// A value as Python's `str` writes it, where minijinja doesn't.
fn printed(value: &Value) -> Option<String> {
    match value.kind() {
        ValueKind::Number if !value.is_integer() => f64::try_from(value.clone()).ok().map(float),
        ValueKind::Seq | ValueKind::Map => {
            let mut text = String::new();
            repr(value, &mut text);
            Some(text)
        }
        _ => None,
    }
}

/// Writes a value as Python's `repr` does.
fn repr(value: &Value, to: &mut String) {
    match value.kind() {
        ValueKind::String => quoted(value.as_str().unwrap_or_default(), to),
        ValueKind::Map => {
            to.push('{');
            for (i, key) in value.try_iter().into_iter().flatten().enumerate() {
                to.push_str(if i > 0 { ", " } else { "" });
                repr(&key, to);
                to.push_str(": ");
                repr(&value.get_item(&key).unwrap_or_default(), to);
            }
            to.push('}');
        }
        ValueKind::Seq => {
            let tuple = value.downcast_object_ref::<Tuple>().is_some();
            to.push(if tuple { '(' } else { '[' });
            for (i, item) in value.try_iter().into_iter().flatten().enumerate() {
                to.push_str(if i > 0 { ", " } else { "" });
                repr(&item, to);
            }
            to.push_str(match (tuple, value.len()) {
                (true, Some(1)) => ",)",
                (true, _) => ")",
                (false, _) => "]",
            });
        }
        ValueKind::Undefined => to.push_str("Undefined"),
        _ => to.push_str(&printed(value).unwrap_or_else(|| value.to_string())),
    }
}

fn quoted(text: &str, to: &mut String) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    to.push(mark);
    for c in text.chars() {
        match c {
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            '\\' => to.push_str("\\\\"),
            c if c == mark => to.extend(['\\', c]),
            c if (c as u32) < 0x20 || (0x7f..0xa1).contains(&(c as u32)) || c == '\u{ad}' => drop(write!(to, "\\x{:02x}", c as u32)),
            c => to.push(c),
        }
    }
    to.push(mark);
}

/// `value % by`, as Python has it.
fn remainder(value: &Value, by: i64) -> Result<f64, Error> {
    let error = |what: &str| Error::new(ErrorKind::InvalidOperation, what.to_owned());
    if by == 0 {
        return Err(error("nothing is divisible by 0"));
    }
    match i128::try_from(value.clone()) {
        Ok(whole) => Ok(whole.rem_euclid(i128::from(by)) as f64),
        Err(_) => {
            f64::try_from(value.clone()).map(|number| number.rem_euclid(by as f64)).map_err(|_| error("only a number has a remainder"))
        }
    }
}

/// Quotes a text, or the pairs of a mapping or of a list, for an address.
fn urlencode(value: &Value) -> Result<String, Error> {
    let quoted = |value: &Value, safe: &str, space: &str| {
        let text = printed(value).unwrap_or_else(|| value.to_string());
        let byte = |byte: u8| match byte {
            b' ' if !space.is_empty() => space.to_owned(),
            byte if byte.is_ascii_alphanumeric() || safe.as_bytes().contains(&byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        text.bytes().map(byte).collect::<String>()
    };
    let pair = |key: &Value, value: &Value| format!("{}={}", quoted(key, "_.-~", "+"), quoted(value, "_.-~", "+"));
    match value.kind() {
        ValueKind::Map => {
            let pairs: Result<Vec<String>, Error> = value.try_iter()?.map(|key| Ok(pair(&key, &value.get_item(&key)?))).collect();
            Ok(pairs?.join("&"))
        }
        ValueKind::Seq => {
            let item = |item: Value| Ok(pair(&item.get_item_by_index(0)?, &item.get_item_by_index(1)?));
            Ok(value.try_iter()?.map(item).collect::<Result<Vec<String>, Error>>()?.join("&"))
        }
        _ => Ok(quoted(value, "_.-~/", "")),
    }
}

/// Methods of Python's texts that the library lacks.
fn method(state: &mut State, (value, text): (&Value, &str), name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let parts = |parts: [&str; 3]| Value::from(Tuple::from(parts.map(Value::from).to_vec()));
    let separator = || match from_args::<(&str,)>(arguments)? {
        ("",) => Err(Error::new(ErrorKind::InvalidOperation, format!("`{name}` needs a separator"))),
        (separator,) => Ok(separator),
    };
    Ok(match name {
        "partition" => {
            let by = separator()?;
            text.split_once(by).map_or_else(|| parts([text, "", ""]), |(before, after)| parts([before, by, after]))
        }
        "rpartition" => {
            let by = separator()?;
            text.rsplit_once(by).map_or_else(|| parts(["", "", text]), |(before, after)| parts([before, by, after]))
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        _ => return jinja::method(state, value, name, arguments),
    })
}

#[cfg(test)]
mod tests {
    use super::super::chat::ChatTemplate;
    use std::path::Path;

    /// What Python's Jinja made of the same templates, by `scripts/golden_templates.py`; null is an error.
    #[test]
    fn templates_render_as_in_python() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/templates.json");
        let golden: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let variables = serde_json::from_value(golden["given"].clone()).unwrap();
        let mut wrong = Vec::new();
        for case in golden["cases"].as_array().unwrap() {
            let text = case[0].as_str().unwrap();
            let made = ChatTemplate::new("it", text, []).and_then(|mut template| {
                template.set(&variables);
                template.converse(&[], &[], true)
            });
            if made.as_deref().ok() != case[1].as_str() {
                wrong.push(format!("{text}: {made:?}, in Python {}", case[1]));
            }
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), golden["cases"].as_array().unwrap().len(), wrong.join("\n"));
    }
}
