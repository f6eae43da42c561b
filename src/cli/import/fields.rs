//! Which fields of a line are read, or change nothing: all others are named.

use serde_json::Value;
use std::collections::BTreeSet;

/// The most names that are kept: a file may have a name of its own in each line.
const MOST: usize = 64;

/// Adds the paths of fields of `value` that no pattern has. A pattern is a path where `*` is any name or place in a
/// list, and a last `**` is all below. Null, empty texts, lists and objects say nothing.
pub fn unread(value: &Value, known: &[&str], into: &mut BTreeSet<String>) {
    walk(value, &mut Vec::new(), known, into);
}

fn walk(value: &Value, path: &mut Vec<String>, known: &[&str], into: &mut BTreeSet<String>) {
    let says = match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(all) => !all.is_empty(),
        Value::Object(all) => !all.is_empty(),
        _ => true,
    };
    if !says || into.len() >= MOST {
        return;
    }
    if path.is_empty() || known.iter().any(|pattern| leads(pattern, path)) {
        match value {
            Value::Array(all) => all.iter().for_each(|value| below("*", value, path, known, into)),
            Value::Object(all) => all.iter().for_each(|(name, value)| below(name, value, path, known, into)),
            _ => {}
        }
        return;
    }
    if !known.iter().any(|pattern| has(pattern, path)) {
        into.insert(path.join(".").replace(".*", "[]"));
    }
}

fn below(name: &str, value: &Value, path: &mut Vec<String>, known: &[&str], into: &mut BTreeSet<String>) {
    path.push(name.into());
    walk(value, path, known, into);
    path.pop();
}

/// Whether a pattern names fields below `path`.
fn leads(pattern: &str, path: &[String]) -> bool {
    let parts: Vec<&str> = pattern.split('.').collect();
    parts.len() > path.len() && parts[path.len()] != "**" && begins(&parts, path)
}

/// Whether a pattern names `path` itself, or all around it.
fn has(pattern: &str, path: &[String]) -> bool {
    let parts: Vec<&str> = pattern.split('.').collect();
    let open = parts.iter().position(|part| *part == "**");
    open.map_or(parts.len() == path.len(), |at| path.len() >= at) && begins(&parts, path)
}

fn begins(parts: &[&str], path: &[String]) -> bool {
    let until = parts.iter().position(|part| *part == "**").unwrap_or(parts.len());
    parts[..until].iter().zip(path).all(|(part, name)| *part == "*" || part == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_no_pattern_has_is_named_once() {
        let known = ["id", "nodes.*.role", "nodes.*.content.*.text", "nodes.*.content", "data.**", "run.work.step"];
        let named = |value: Value| {
            let mut names = BTreeSet::new();
            unread(&value, &known, &mut names);
            names.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(named(json!({ "id": 1, "data": { "a": { "b": [1] } }, "nodes": [{ "role": "x", "content": "y" }] })), [""; 0]);
        let two =
            json!({ "nodes": [{ "tokens": [1] }, { "tokens": [2], "content": [{ "text": "a" }, { "image": "b" }] }], "extra": { "a": 1 } });
        assert_eq!(named(two), ["extra", "nodes[].content[].image", "nodes[].tokens"]);
        assert_eq!(
            named(json!({ "run": { "id": "x", "work": { "step": 1, "other": 0 } }, "note": "", "more": null, "none": [] })),
            ["run.id", "run.work.other"]
        );
        assert_eq!(named(Value::Object((0..1000).map(|i| (format!("f{i}"), 1.into())).collect())).len(), MOST);
    }
}
