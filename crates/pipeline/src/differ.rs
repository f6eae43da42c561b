//! The settings that differ between two pipeline files.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One setting that differs; `None` where a file doesn't give it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// Such as `nodes.update.with.lr`.
    pub path: String,
    pub a: Option<Value>,
    pub b: Option<Value>,
}

/// The settings that differ, in the order of `a` and then of `b`. A list is one setting, and so is a map that only one
/// side has.
pub fn differences(a: &Value, b: &Value) -> Vec<Difference> {
    let mut differing = Vec::new();
    walk("", Some(a), Some(b), &mut differing);
    differing
}

fn walk(path: &str, a: Option<&Value>, b: Option<&Value>, differing: &mut Vec<Difference>) {
    if let (Some(Value::Object(a)), Some(Value::Object(b))) = (a, b) {
        for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
            let inside = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            walk(&inside, a.get(key), b.get(key), differing);
        }
    } else if a != b {
        differing.push(Difference { path: path.into(), a: a.cloned(), b: b.cloned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_is_named_by_its_path() {
        let a = json!({ "flow": "x", "nodes": { "group": { "op": "group", "with": { "by": ["task"] } }, "old": { "op": "tasks" } } });
        let b = json!({ "flow": "x", "nodes": { "group": { "op": "group", "with": { "by": ["task", "state"], "more": 1 } } }, "seed": 3 });
        let differing: Vec<String> = differences(&a, &b).into_iter().map(|d| d.path).collect();
        assert_eq!(differing, ["nodes.group.with.by", "nodes.group.with.more", "nodes.old", "seed"]);
        let old = Difference { path: "nodes.old".into(), a: Some(json!({ "op": "tasks" })), b: None };
        assert_eq!(differences(&a, &b)[2], old);
        assert!(differences(&a, &a).is_empty());
    }
}
