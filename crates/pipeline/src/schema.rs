//! The JSON Schema of a whole pipeline file, for editors: what `inputs` and `with` hold follows from `op`.

use super::check::{loop_schema, MOST_STALENESS};
use super::{Catalog, Delay, OperatorSpec, Port, Test, WeightRetention};
use serde_json::{json, Map, Value};

/// JSON Schema (draft 2020-12) of a pipeline that uses the catalog's operators.
pub fn schema(catalog: &Catalog) -> Value {
    let mut defs = Map::new();
    let model = hoisted(&catalog.model, "model", &mut defs);
    defs.insert("model".into(), model);
    let agent = hoisted(&catalog.agent, "agent", &mut defs);
    defs.insert("agent".into(), agent);
    let edge = json!({
        "description": "What the node made at least one iteration ago.",
        "type": "object",
        "properties": {
            "after": { "type": "string", "description": "The node that is read." },
            "staleness": { "type": "integer", "minimum": 0, "maximum": MOST_STALENESS, "default": 0, "description": "How many iterations older than the newest it may be." },
        },
        "required": ["after"],
        "additionalProperties": false,
    });
    defs.insert("after".into(), edge);
    let names: Vec<Value> = catalog.operators.iter().map(|o| json!({ "const": o.name, "description": o.about })).collect();
    let cases: Vec<Value> = catalog.operators.iter().map(|o| case(o, &mut defs)).collect();
    let node = json!({
        "type": "object",
        "properties": {
            "op": { "description": "The operator.", "oneOf": names },
            "inputs": { "description": "A node (for the first port), or a map from ports to nodes." },
            "with": { "description": "The operator's settings." },
        },
        "required": ["op"],
        "additionalProperties": false,
        "allOf": cases,
    });
    defs.insert("node".into(), node);
    let able: Vec<&str> = catalog.operators.iter().filter(|o| o.loops).map(|o| o.name).collect();
    let trial = hoisted(&loop_schema(), "trial", &mut defs);
    defs.insert("loop".into(), looped(trial, &able));
    let keep = hoisted(&WeightRetention::schema(), "keep", &mut defs);
    let test = hoisted(&Test::schema(), "test", &mut defs);
    let either = json!({ "if": { "required": ["loop"] }, "then": { "$ref": "#/$defs/loop" }, "else": { "$ref": "#/$defs/node" } });
    let name = json!({ "type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,63}$" });
    let like = json!({ "description": "Another pipeline's file: this one has only the differences. Maps are merged, and a null takes a key away.", "type": "string" });
    let variant = json!({
        "description": "A pipeline that is like another one.",
        "type": "object",
        "properties": { "like": like, "nodes": { "type": "object" }, "models": { "type": "object" }, "agents": { "type": "object" } },
    });
    defs.insert("variant".into(), variant);
    let whole = json!({
        "type": "object",
        "properties": {
            "flow": { "description": "The pipeline's name.", "$ref": "#/$defs/name" },
            "about": { "description": "What it is for.", "type": "string" },
            "iterations": { "description": "How many training iterations to run.", "type": "integer", "minimum": 1 },
            "seed": { "description": "What all randomness follows from.", "type": "integer", "minimum": 0, "default": 0 },
            "models": { "description": "The policies, by name.", "type": "object", "propertyNames": { "$ref": "#/$defs/name" }, "additionalProperties": { "$ref": "#/$defs/model" } },
            "agents": { "description": "How models act, by name: nodes that play, reflect or measure name one.", "type": "object", "propertyNames": { "$ref": "#/$defs/name" }, "additionalProperties": { "$ref": "#/$defs/agent" } },
            "nodes": { "description": "The operators at work, by name.", "type": "object", "minProperties": 1, "propertyNames": { "$ref": "#/$defs/name" }, "additionalProperties": either },
            "log": { "description": "The nodes whose rows are kept.", "type": "array", "items": { "type": "string" }, "uniqueItems": true },
            "keep": keep,
            "tests": { "description": "Rows fed to nodes and rows expected from others: `flow test` runs them.", "type": ["array", "null"], "items": test },
        },
        "required": ["flow", "iterations", "nodes"],
        "additionalProperties": false,
    });
    defs.insert("pipeline".into(), whole);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A pipeline",
        "if": { "required": ["like"] },
        "then": { "$ref": "#/$defs/variant" },
        "else": { "$ref": "#/$defs/pipeline" },
        "$defs": with_name(defs, name),
    })
}

fn with_name(mut defs: Map<String, Value>, name: Value) -> Value {
    defs.insert("name".into(), name);
    Value::Object(defs)
}

/// A loop of nodes whose operators are among `able`.
fn looped(trial: Value, able: &[&str]) -> Value {
    let inner = json!({ "allOf": [{ "$ref": "#/$defs/node" }, { "properties": { "op": { "enum": able } } }] });
    json!({
        "type": "object",
        "properties": {
            "loop": trial,
            "nodes": { "description": "The nodes of one attempt, by name. `after` another of them is what that made in the attempt before.", "type": "object", "minProperties": 1, "propertyNames": { "$ref": "#/$defs/name" }, "additionalProperties": inner },
            "output": {
                "description": "The inner node whose rows are the loop's, or several in a list.",
                "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1, "uniqueItems": true }],
            },
        },
        "required": ["loop", "nodes", "output"],
        "additionalProperties": false,
    })
}

/// What holds of a node with this operator.
fn case(operator: &OperatorSpec, defs: &mut Map<String, Value>) -> Value {
    let name = format!("with.{}", operator.name);
    let settings = hoisted(&operator.settings, &name, defs);
    let needs = |key: &str| settings.get(key).and_then(Value::as_array).is_some_and(|r| !r.is_empty());
    let mut required = Vec::new();
    if operator.ports.iter().any(|p| !p.optional) {
        required.push("inputs");
    }
    if needs("required") {
        required.push("with");
    }
    let reference = json!({ "$ref": format!("#/$defs/{name}") });
    let with = if needs("required") { reference } else { json!({ "anyOf": [reference, { "type": "null" }] }) };
    defs.insert(name, settings);
    json!({
        "if": { "properties": { "op": { "const": operator.name } }, "required": ["op"] },
        "then": { "properties": { "inputs": inputs(operator.ports), "with": with }, "required": required },
    })
}

fn inputs(ports: &[Port]) -> Value {
    let Some(first) = ports.first() else { return json!(false) };
    let named = ports.iter().filter(|p| p.name != "*");
    let properties: Map<String, Value> = named.clone().map(|p| (p.name.to_string(), edge(p))).collect();
    let required: Vec<&str> = named.filter(|p| !p.optional).map(|p| p.name).collect();
    let free = ports.iter().find(|p| p.name == "*");
    let others = free.map_or(json!(false), edge);
    let least = if free.is_some_and(|p| !p.optional) { 1 } else { 0 };
    let map =
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": others, "minProperties": least });
    let alone = first.name != "*" && first.delay != Delay::Always && ports.iter().skip(1).all(|p| p.optional);
    let short = json!({ "type": "string", "description": format!("The node for `{}`: {}", first.name, first.about) });
    if alone {
        json!({ "anyOf": [short, map] })
    } else {
        map
    }
}

fn edge(port: &Port) -> Value {
    let (now, after) = (json!({ "type": "string" }), json!({ "$ref": "#/$defs/after" }));
    match port.delay {
        Delay::Never => json!({ "description": port.about, "type": "string" }),
        Delay::Always => json!({ "description": port.about, "$ref": "#/$defs/after" }),
        Delay::Either => json!({ "description": port.about, "anyOf": [now, after] }),
    }
}

/// The schema without its own definitions: they go to `defs`, under names that cannot meet those of other schemas.
fn hoisted(schema: &Value, prefix: &str, defs: &mut Map<String, Value>) -> Value {
    let mut schema = renamed(schema, prefix);
    if let Value::Object(fields) = &mut schema {
        fields.remove("$schema");
        if let Some(Value::Object(own)) = fields.remove("$defs") {
            defs.extend(own.into_iter().map(|(name, def)| (format!("{prefix}.{name}"), def)));
        }
    }
    schema
}

fn renamed(schema: &Value, prefix: &str) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(|v| renamed(v, prefix)).collect(),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| match (key.as_str(), value.as_str().and_then(|v| v.strip_prefix("#/$defs/"))) {
                ("$ref", Some(name)) => (key.clone(), json!(format!("#/$defs/{prefix}.{name}"))),
                _ => (key.clone(), renamed(value, prefix)),
            };
            Value::Object(fields.iter().map(field).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{catalog, GOOD, LOOPED};
    use crate::{parse, schema};

    /// What the schema can say at all, it says as the checker does.
    #[test]
    fn schema_and_checker_agree() {
        let catalog = catalog();
        let schema = schema(&catalog);
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let changes = [
            ("flow: eapo", "flow: eapo", true),
            ("with: { of: step_return, gamma: 0.9 }", "with:", true),
            (", with: { of: step_return, gamma: 0.9 }", "", true),
            ("inputs: group", "inputs: { rows: group }", true),
            ("inputs: advantage", "inputs: { rows: { after: advantage } }", true),
            ("lr: 1.0e-6", "lr: 1.0e-6, kl: { weight: 1, kind: k3 }", true),
            ("flow: eapo", "flow: an eapo", false),
            ("iterations: 3", "iterations: 0", false),
            ("op: group", "op: groop", false),
            ("gamma: 0.9", "gamma: 2", false),
            ("gamma: 0.9", "gama: 1", false),
            ("batch: 4", "batch: 0", false),
            ("lr: 1.0e-6", "lr: 0", false),
            ("lr: 1.0e-6", "lr: 1, kl: { kind: k3 }", false),
            (", with: { env: sokoban, batch: 4 }", "", false),
            ("new: tiny", "new: tiny, rank: 3", false),
            ("tasks: tasks, ", "", false),
            ("weights: { after: update, staleness: 0 }", "weights: update", false),
            ("staleness: 0", "staleness: -1", false),
            ("inputs: group", "inputs: [group]", false),
            ("inputs: group", "inputs: { row: group }", false),
        ];
        let loops = [
            ("until: won", "until: never", true),
            (", until: won", "", true),
            ("output: [rollout, reflect]", "output: rollout", true),
            ("loop: { attempts: 3, until: won }", "loop:", false),
            ("attempts: 3", "attempts: 0", false),
            ("attempts: 3", "attempts: 101", false),
            ("until: won", "until: lost", false),
            ("output: [rollout, reflect]", "output: []", false),
            ("output: [rollout, reflect]", "output: [rollout, rollout]", false),
            ("    output: [rollout, reflect]\n", "", false),
            ("    output:", "    inputs: tasks\n    output:", false),
            ("    output:", "    with: {}\n    output:", false),
            ("    output:", "    op: rollout\n    output:", false),
            ("op: reflect", "op: group", false),
            ("op: reflect, inputs: { rows: rollout, weights: { after: update, staleness: 1 } }", "op: reflect", false),
            ("samples: 8", "samples: 0", false),
        ];
        let both = changes.map(|change| (GOOD, change)).into_iter().chain(loops.map(|change| (LOOPED, change)));
        for (whole, (from, to, good)) in both {
            assert!(whole.contains(from), "{from}");
            let text = whole.replace(from, to);
            let value = crate::parse::read(&text, 0).unwrap().0.json();
            assert_eq!(validator.is_valid(&value), good, "schema: {to}");
            let message = parse("x", &text, &[], &catalog).err().map(|d| d.to_string()).unwrap_or_default();
            assert_eq!(message.is_empty(), good, "checker: {to}: {message}");
        }
    }
}
