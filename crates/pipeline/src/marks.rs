//! What the texts in settings name, as their schema marks it: `x-names: model` an entry of `models:`, `x-names: agent`
//! one of `agents:`, `x-names: file` a file or folder, `x-names: template` a file with a template or the template
//! itself, `x-names: function` a function in a file of Python or in a module. Code that looks for models or files looks for the mark, so that a setting with a new name needs no list of
//! names to be told of it.

use serde_json::Value;
use std::collections::BTreeSet;

/// The mark of settings that name an entry of `models:`.
pub const MODEL: &str = "model";
/// The mark of settings that name an entry of `agents:`, in whose place the entry may stand.
pub const AGENT: &str = "agent";
/// The mark of settings that name a file or a folder.
pub const FILE: &str = "file";
/// The mark of settings that hold a template, or name a file with one.
pub const TEMPLATE: &str = "template";

/// The mark of settings that name a function: `FILE.py:NAME` or `MODULE:NAME`.
pub const FUNCTION: &str = "function";

/// A text in settings that names something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Where it stands in the settings: keys, and positions in lists. The last key is the role: `model`, `critic`,
    /// `by_name`.
    pub path: Vec<String>,
    /// What its schema says that it names.
    pub mark: String,
    /// The text.
    pub name: String,
}

impl Named {
    /// The setting's own key.
    pub fn role(&self) -> &str {
        self.path.iter().rev().find(|step| step.parse::<usize>().is_err()).map_or("", String::as_str)
    }
}

/// The marked texts in a value of this schema, defaults of the outermost settings included, in the schema's order, each
/// once.
pub fn marked(value: &Value, schema: &Value) -> Vec<Named> {
    let mut walk = MarkFinder { root: schema, places: BTreeSet::new(), marked: Vec::new() };
    walk.within(value, schema, &mut Vec::new());
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        if let (Some(mark), Some(name), None) = (property["x-names"].as_str(), property["default"].as_str(), value.get(key)) {
            walk.marked.push(Named { path: vec![key.clone()], mark: mark.into(), name: name.into() });
        }
    }
    walk.marked
}

/// The models that settings of this schema name.
pub fn models(value: &Value, schema: &Value) -> Vec<String> {
    marked(value, schema).into_iter().filter(|named| named.mark == MODEL).map(|named| named.name).collect()
}

struct MarkFinder<'a> {
    /// What references point into.
    root: &'a Value,
    places: BTreeSet<Vec<String>>,
    marked: Vec<Named>,
}

impl MarkFinder<'_> {
    fn within(&mut self, value: &Value, schema: &Value, path: &mut Vec<String>) {
        if let Some(target) = schema["$ref"].as_str().and_then(|target| self.root.pointer(target.trim_start_matches('#'))) {
            self.within(value, target, path);
        }
        if let (Some(mark), Some(name)) = (schema["x-names"].as_str(), value.as_str()) {
            // What a setting knows by name is no file.
            let known = schema["x-known"].as_array().is_some_and(|known| known.iter().any(|value| value == name));
            if !known && self.places.insert(path.clone()) {
                self.marked.push(Named { path: path.clone(), mark: mark.into(), name: name.into() });
            }
        }
        for several in ["anyOf", "oneOf", "allOf"] {
            schema[several].as_array().into_iter().flatten().for_each(|branch| self.within(value, branch, path));
        }
        if schema["then"].is_object() {
            self.within(value, &schema["then"], path);
        }
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(value) = value.get(key) {
                self.step(value, property, key.clone(), path);
            }
        }
        // A map whose keys the author chooses.
        if schema["additionalProperties"].is_object() {
            for (key, value) in value.as_object().into_iter().flatten().filter(|(key, _)| schema["properties"].get(key).is_none()) {
                self.step(value, &schema["additionalProperties"], key.clone(), path);
            }
        }
        for (i, item) in value.as_array().into_iter().flatten().enumerate().filter(|_| schema["items"].is_object()) {
            self.step(item, &schema["items"], i.to_string(), path);
        }
    }

    fn step(&mut self, value: &Value, schema: &Value, step: String, path: &mut Vec<String>) {
        path.push(step);
        self.within(value, schema, path);
        path.pop();
    }
}

/// The value at this path of keys and positions.
pub fn at_path<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |here, step| match here {
        Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
        _ => here.get_mut(step),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn marked_texts_are_known_wherever_they_stand() {
        let schema = json!({
            "properties": {
                "agent": { "anyOf": [{ "type": "string", "x-names": "agent" }, { "$ref": "#/$defs/Agent" }] },
                "reflect": { "anyOf": [{ "$ref": "#/$defs/Agent" }, { "type": "null" }] },
                "reference": { "type": "string", "x-names": "model", "default": "base" },
                "runs": { "additionalProperties": { "$ref": "#/$defs/Run" } },
            },
            "$defs": { "Agent": { "properties": {
                "model": { "type": "string", "x-names": "model" },
                "prompt": { "x-names": "template", "x-known": ["board"] },
                "context": { "type": "array", "items": { "anyOf": [{ "properties": { "file": { "x-names": "file" } } }] } },
            } }, "Run": { "properties": { "pipeline": { "x-names": "file" } } } },
        });
        let value = json!({ "runs": { "long": { "pipeline": "b", "seeds": [1] } }, "agent": "player", "reflect": { "model": "actor", "prompt": "board", "context": [{ "file": "a" }] } });
        let texts: Vec<_> = marked(&value, &schema).into_iter().map(|n| format!("{} {} {}", n.path.join("."), n.mark, n.name)).collect();
        assert_eq!(
            texts,
            [
                "agent agent player",
                "reflect.model model actor",
                "reflect.context.0.file file a",
                "runs.long.pipeline file b",
                "reference model base"
            ]
        );
        let mut value = value;
        *at_path(&mut value, &["reflect", "context", "0", "file"].map(String::from)).unwrap() = "b".into();
        assert_eq!(value["reflect"]["context"][0]["file"], "b");
        assert!(at_path(&mut value, &["agent".into(), "model".into()]).is_none());
    }
}
