//! Settings described for a person, from their JSON Schema: meaning, permitted values and default of each.

use serde_json::Value;

/// One setting.
pub struct Setting {
    /// The value of another setting that brings this one, as `env: sokoban`.
    pub when: Option<String>,
    /// Its name; of a setting inside another one, `overlong.max`.
    pub name: String,
    pub about: String,
    /// Such as `a whole number of at least 1`.
    pub kind: String,
    /// Its allowed values, each with its meaning.
    pub words: Vec<(String, String)>,
    pub required: bool,
    /// What it is unless given, as YAML, where the description doesn't say so itself.
    pub default: Option<String>,
}

/// The settings of a schema, in its order; settings of a map follow the map, and settings that another setting adds or
/// restricts come last.
pub fn settings(schema: &Value) -> Vec<Setting> {
    let cases = cases(schema);
    let mut all = Vec::new();
    walk(schema, schema, "", &mut all);
    let mentioned = |name: &str| schema["properties"][name].as_object().is_some_and(|property| property.keys().eq(["description"]));
    all.retain(|setting| !mentioned(&setting.name) || !cases.iter().any(|(_, then)| own(then).any(|(name, _)| *name == setting.name)));
    for (when, then) in cases {
        let before = all.len();
        walk(schema, then, "", &mut all);
        all[before..].iter_mut().for_each(|setting| setting.when = Some(when.clone()));
    }
    all
}

/// The alternatives of a schema, such as the kinds of models: the description of each, and its own schema.
pub fn forms(schema: &Value) -> Vec<(String, Value)> {
    let form = |alternative: &Value| {
        let target = alternative["$ref"].as_str().and_then(|r| schema.pointer(r.trim_start_matches('#')));
        let mut shape = target.unwrap_or(alternative).clone();
        shape["$defs"] = schema["$defs"].clone();
        let about = alternative["description"].as_str().or(shape["description"].as_str()).unwrap_or_default().to_string();
        (about, shape)
    };
    match schema["anyOf"].as_array() {
        Some(alternatives) => alternatives.iter().map(form).collect(),
        None => vec![form(schema)],
    }
}

/// The schema of the items of a list among the properties, with all that it refers to.
pub fn items(schema: &Value, list: &str) -> Value {
    let property = &schema["properties"][list];
    let target = |schema: &Value, item: &Value| {
        let target = item["$ref"].as_str().and_then(|r| schema.pointer(r.trim_start_matches('#'))).unwrap_or(item);
        target.clone()
    };
    let list = shapes(schema, property).into_iter().find(|shape| shape["items"].is_object());
    let mut item = list.map(|list| target(schema, &list["items"])).unwrap_or_default();
    item["$defs"] = schema["$defs"].clone();
    item
}

/// Every property of a schema, those of its cases too.
pub fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    own(schema).chain(cases(schema).into_iter().flat_map(|(_, then)| own(then)))
}

/// The values of a setting that bring settings of their own, as `env: sokoban`, and what the schema then says.
fn cases(schema: &Value) -> Vec<(String, &Value)> {
    let case = |case| {
        let (key, value) = Value::get(case, "if")?["properties"].as_object()?.iter().next()?;
        let then = case.get("then")?;
        own(then).next()?;
        let several = || Some(value["enum"].as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "));
        Some((format!("{key}: {}", value["const"].as_str().map(String::from).or_else(several)?), then))
    };
    schema["allOf"].as_array().into_iter().flatten().filter_map(case).collect()
}

/// The properties that have a place here. Those of another case are there too, as `false`.
fn own(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten().filter(|(_, property)| property.is_object())
}

fn walk(root: &Value, schema: &Value, prefix: &str, all: &mut Vec<Setting>) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in own(schema) {
        let mut shapes = shapes(root, property);
        // What an agent is stands in one place.
        let agent = shapes.iter().any(|shape| shape["x-names"] == "agent");
        shapes.retain(|shape| !agent || shape["x-names"] == "agent");
        let own = || property["description"].as_str();
        let about = own().or_else(|| shapes.iter().find_map(|s| s["description"].as_str())).unwrap_or_default().replace('\n', " ");
        let default = property.get("default").filter(|d| !d.is_null() && !about.contains("Default: ")).map(short);
        let (required, name) = (required.contains(&name.as_str()), format!("{prefix}{name}"));
        let mut kinds: Vec<String> = Vec::new();
        for kind in shapes.iter().filter_map(|s| kind(root, s)) {
            kinds.extend((!kinds.contains(&kind)).then_some(kind));
        }
        let words = shapes.iter().flat_map(|s| words(s)).collect();
        all.push(Setting { when: None, name: name.clone(), about, kind: kinds.join(", or "), words, required, default });
        shapes.iter().filter(|s| s["properties"].is_object()).for_each(|s| walk(root, s, &format!("{name}."), all));
    }
}

/// What a property may look like: what it refers to, and each of its alternatives.
fn shapes<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    if let Some(target) = schema["$ref"].as_str().and_then(|r| root.pointer(r.trim_start_matches('#'))) {
        return shapes(root, target);
    }
    let alternatives = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    match alternatives {
        Some(all) if all.iter().any(|s| s.get("const").is_none()) => all.iter().flat_map(|s| shapes(root, s)).collect(),
        _ => vec![schema],
    }
}

/// The words among which a schema lets one choose.
fn words(schema: &Value) -> Vec<(String, String)> {
    let about = |s: &Value| s["description"].as_str().unwrap_or_default().replace('\n', " ");
    let word = |s: &Value| s["const"].as_str().map(|word| (word.to_string(), about(s)));
    let plain = schema["enum"].as_array().into_iter().flatten().filter_map(|w| Some((w.as_str()?.to_string(), String::new())));
    let described = schema["oneOf"].as_array().into_iter().flatten().flat_map(|s| match s["enum"].as_array() {
        Some(several) => several.iter().filter_map(|w| Some((w.as_str()?.to_string(), about(s)))).collect(),
        None => word(s).into_iter().collect::<Vec<_>>(),
    });
    plain.chain(described).chain(word(schema)).collect()
}

/// The kind of value in words; nothing for a choice of words and for no value at all.
fn kind(root: &Value, schema: &Value) -> Option<String> {
    if !words(schema).is_empty() {
        return None;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let plain = match *types.iter().find(|t| **t != "null")? {
        "integer" => "a whole number".to_string(),
        "number" => "a number".into(),
        "string" => match schema["x-names"].as_str() {
            Some("agent") => "the name of one of `agents:`, or its settings".into(),
            Some("model") => "the name of one of `models:`".into(),
            _ => "a text".into(),
        },
        "boolean" => "`true` or `false`".into(),
        "array" => {
            let inner = shapes(root, &schema["items"]).into_iter().find_map(|s| kind(root, s));
            inner.map_or("a list".into(), |inner| format!("a list, each {inner}"))
        }
        "object" => "a map".into(),
        other => other.into(),
    };
    let limit = |key: &str| schema.get(key).filter(|v| v.is_number()).map(short);
    // The least that an unsigned number can be says nothing.
    let most = limit("maximum");
    let least = limit("minimum").filter(|l| l != "0" || types.contains(&"number") || most.is_some());
    let range = match (least, most, limit("exclusiveMinimum")) {
        (Some(least), Some(most), _) => format!(" from {least} to {most}"),
        (Some(least), None, _) => format!(" of at least {least}"),
        (None, Some(most), Some(above)) => format!(" above {above}, at most {most}"),
        (None, Some(most), None) => format!(" of at most {most}"),
        (None, None, Some(above)) => format!(" above {above}"),
        (None, None, None) => String::new(),
    };
    Some(plain + &range)
}

/// A value as YAML in one line.
fn short(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            let text = number.to_string();
            text.strip_suffix(".0").unwrap_or(&text).into()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_in_words() {
        let schema = json!({
            "$defs": { "Of": { "oneOf": [{ "const": "won", "description": "Whether it won." }, { "enum": ["a", "b"] }] },
                       "Cut": { "type": "object", "properties": { "max": { "type": "integer", "minimum": 1 } }, "required": ["max"] } },
            "properties": {
                "of": { "$ref": "#/$defs/Of", "description": "What counts.", "default": "won" },
                "gamma": { "type": "number", "minimum": 0.0, "maximum": 1.0, "description": "Default: 0.5 (a paper).", "default": 0.5 },
                "cut": { "anyOf": [{ "$ref": "#/$defs/Cut" }, { "type": "null" }], "default": null },
                "by": { "type": ["array", "null"], "items": { "type": "string" } },
            },
            "required": ["by"],
        });
        let summary: Vec<_> = settings(&schema).into_iter().map(|s| (s.name, s.kind, s.words.len(), s.required, s.default)).collect();
        let row = |name: &str, kind: &str, words, required, default: Option<&str>| {
            (name.to_string(), kind.to_string(), words, required, default.map(String::from))
        };
        assert_eq!(
            summary,
            [
                row("of", "", 3, false, Some("won")),
                row("gamma", "a number from 0 to 1", 0, false, None),
                row("cut", "a map", 0, false, None),
                row("cut.max", "a whole number of at least 1", 0, true, None),
                row("by", "a list, each a text", 0, true, None),
            ]
        );
    }

    /// A case that restricts a setting of its own schema is a row beside it; one whose setting is only described takes its
    /// place.
    #[test]
    fn a_case_adds_to_a_setting() {
        let case = |key: &str, then: Value| json!({ "if": { "properties": { key: { "const": "x" } } }, "then": then });
        let schema = json!({
            "properties": {
                "scale": { "type": "string", "enum": ["std", "none"], "description": "The divisor.", "default": "std" },
                "size": { "description": "Rows of the board." },
                "steps": { "type": "integer", "description": "Steps.", "default": 3 },
            },
            "allOf": [
                case("baseline", json!({ "properties": { "scale": { "const": "none" } }, "required": ["scale"] })),
                case("env", json!({ "properties": { "size": { "type": "integer", "description": "Rows of the board.", "default": 6 } } })),
                case("env", json!({ "properties": { "steps": { "maximum": 9 } } })),
            ],
        });
        let summary: Vec<_> = settings(&schema).into_iter().map(|s| (s.when, s.name, s.required, s.default)).collect();
        let row = |when: Option<&str>, name: &str, required, default: Option<&str>| {
            (when.map(String::from), name.to_string(), required, default.map(String::from))
        };
        assert_eq!(
            summary,
            [
                row(None, "scale", false, Some("std")),
                row(None, "steps", false, Some("3")),
                row(Some("baseline: x"), "scale", true, None),
                row(Some("env: x"), "size", false, Some("6")),
                row(Some("env: x"), "steps", false, None),
            ]
        );
    }

    /// Whatever the schema of an operator, an agent or a model has is described, with the default that the schema gives.
    #[test]
    fn every_property_of_the_schema_is_described() {
        let catalog = crate::ops::catalog();
        let operators = catalog.operators.iter().map(|spec| (spec.name.to_string(), spec.settings.clone()));
        let models = forms(&catalog.model);
        let mut checked = 0;
        for (of, schema) in operators.chain(models).chain([("agent".to_string(), catalog.agent.clone())]) {
            let described = settings(&schema);
            for (name, property) in own(&schema) {
                let found: Vec<_> = described.iter().filter(|setting| setting.name == *name).collect();
                assert!(!found.is_empty(), "{of}: `{name}`");
                let Some(default) = property.get("default").filter(|default| !default.is_null()) else { continue };
                let base =
                    found.iter().find(|setting| setting.when.is_none()).unwrap_or_else(|| panic!("{of}: `{name}` has no row of its own"));
                let stated = base.about.contains("Default: ");
                assert!(stated || base.default.as_deref() == Some(&short(default)), "{of}: `{name}` {:?}", base.default);
                checked += 1;
            }
        }
        assert!(checked > 50, "{checked} defaults");
        let advantage = catalog.operator("advantage").map(|spec| settings(&spec.settings)).unwrap_or_default();
        let scale: Vec<_> =
            advantage.iter().filter(|setting| setting.name == "scale").map(|s| (s.when.as_deref(), s.words.len())).collect();
        assert_eq!(scale, [(None, 3), (Some("baseline: ema"), 1)]);
    }
}
