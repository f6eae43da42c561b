//! Files whose text belongs to a pipeline: a run keeps the text, so that it goes on as it began whatever becomes of the file.

use super::resolved::LOOP;
use super::Catalog;
use crate::files;
use serde_json::Value;

/// The largest file that a template may be, in bytes. A larger one isn't kept; whoever reads it says what is wrong with it.
pub const TEMPLATE_BYTES: u64 = 1 << 20;

/// Puts the text of each file in place of its name, where a setting's schema says `x-names: template`. `nodes` is the map of nodes as a
/// pipeline has it; what names no file stays.
pub fn embed(nodes: &mut Value, catalog: &Catalog) {
    for node in nodes.as_object_mut().into_iter().flat_map(|nodes| nodes.values_mut()) {
        if node.get(LOOP).is_some() {
            embed(&mut node["nodes"], catalog);
        } else if let Some(spec) = node["op"].as_str().and_then(|op| catalog.operator(op)) {
            if let Some(with) = node.get_mut("with") {
                within(with, &spec.settings, &spec.settings);
            }
        }
    }
}

/// The same for a value of this schema; `root` has what it refers to.
fn within(value: &mut Value, schema: &Value, root: &Value) {
    if let Some(target) = schema["$ref"].as_str().and_then(|target| root.pointer(target.trim_start_matches('#'))) {
        return within(value, target, root);
    }
    if schema["x-names"] == "template" {
        if let Some(text) = value.as_str().and_then(|name| files::text(name.as_ref(), TEMPLATE_BYTES).ok()) {
            *value = text.into();
        }
        return;
    }
    schema["anyOf"].as_array().into_iter().flatten().for_each(|one| within(value, one, root));
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get_mut(key) {
            within(value, property, root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_becomes_its_text_where_the_schema_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prompt.txt");
        std::fs::write(&file, "why?\n").unwrap();
        let schema = json!({
            "properties": {
                "prompt": { "type": "string", "x-names": "template" },
                "model": { "type": "string" },
                "reflect": { "anyOf": [{ "$ref": "#/$defs/Reflect" }, { "type": "null" }] },
            },
            "$defs": { "Reflect": { "properties": { "prompt": { "x-names": "template" } } } },
        });
        let mut with = json!({ "prompt": "board", "model": file, "reflect": { "prompt": file } });
        within(&mut with, &schema, &schema);
        assert_eq!(with, json!({ "prompt": "board", "model": file, "reflect": { "prompt": "why?\n" } }));
    }
}
