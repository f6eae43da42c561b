//! A small operator table for the tests of this module: the shape of the real one, without any of its code.

use super::{Carries, Catalog, Delay, Need, OperatorSpec, Port, Role, With};
use serde_json::{json, Value};
use std::any::Any;
use std::sync::Arc;

const fn port(name: &'static str, needs: &'static [&'static str], optional: bool, delay: Delay) -> Port {
    Port { name, about: "rows", carries: Carries::Rows, needs, optional, delay }
}

const fn weights(needs: &'static [&'static str], optional: bool, delay: Delay) -> Port {
    Port { name: "weights", about: "weights", carries: Carries::Weights, needs, optional, delay }
}

/// As the file has them.
fn read(json: &Value) -> Result<Arc<dyn Any + Send + Sync>, serde_json::Error> {
    Ok(Arc::new(json.clone()))
}

fn nothing(_: &With) -> Vec<Need> {
    Vec::new()
}

fn grouped(with: &With) -> Vec<Need> {
    let by = with.raw()["by"].as_array().into_iter().flatten().enumerate();
    by.filter_map(|(i, c)| Some(Need { port: "rows".into(), column: c.as_str()?.into(), at: vec!["by".into(), i.to_string()] })).collect()
}

fn settings(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

pub fn catalog() -> Catalog {
    let count = json!({ "type": "integer", "format": "uint32", "minimum": 1, "description": "How many.\nMore." });
    let agent = settings(
        json!({ "model": { "type": "string", "x-names": "model" }, "turns": count, "prompt": { "type": "string", "x-names": "template" } }),
        &["model"],
    );
    let estimators = json!({ "oneOf": [{ "type": "string", "const": "episode_return" }, { "type": "string", "const": "step_return" }, { "type": "string", "const": "reward" }] });
    let kl = json!({ "anyOf": [{ "type": "number", "minimum": 0 }, { "$ref": "#/$defs/Kl" }, { "type": "null" }] });
    let mut update = settings(
        json!({ "model": { "type": "string", "x-names": "model" }, "reference": { "type": ["string", "null"], "x-names": "model" }, "lr": { "type": "number", "exclusiveMinimum": 0, "description": "The learning rate." }, "kl": kl }),
        &["model", "lr"],
    );
    update["$defs"] =
        json!({ "Kl": settings(json!({ "weight": { "type": "number" }, "kind": { "enum": ["k1", "k2", "k3"] } }), &["weight"]) });
    let spec = |name, ports, keeps, adds, role, settings, needs| OperatorSpec {
        name,
        about: "An operator.",
        role,
        ports,
        keeps,
        adds,
        loops: matches!(role, Role::Plays | Role::Reflects),
        settings,
        read,
        needs,
        makes: |_| Vec::new(),
        lacks: |_| Vec::new(),
        unknown: |_| None,
        kept: |_| None,
    };
    const ROWS: Port = port("rows", &["task", "reward"], false, Delay::Never);
    let operators = vec![
        spec(
            "tasks",
            &[],
            false,
            &["iteration", "task"],
            Role::Opens,
            settings(json!({ "env": { "enum": ["sokoban", "minesweeper"] }, "batch": count }), &["env", "batch"]),
            nothing as fn(&With) -> Vec<Need>,
        ),
        spec(
            "rollout",
            const {
                &[
                    port("tasks", &["iteration", "task"], false, Delay::Never),
                    weights(&["version"], true, Delay::Always),
                    port("memory", &["task", "reflection"], true, Delay::Always),
                ]
            },
            false,
            &["iteration", "task", "sample", "turn", "state", "reward"],
            Role::Plays,
            settings(
                json!({ "model": { "type": "string", "x-names": "model" }, "samples": count, "agent": { "anyOf": [{ "type": "string", "x-names": "agent" }, agent] } }),
                &[],
            ),
            nothing,
        ),
        spec(
            "reflect",
            const { &[ROWS, weights(&["version"], true, Delay::Always)] },
            false,
            &["iteration", "task", "sample", "turn", "reward", "reflection"],
            Role::Reflects,
            settings(json!({ "model": { "type": "string", "x-names": "model" } }), &["model"]),
            nothing,
        ),
        spec(
            "group",
            const { &[ROWS] },
            true,
            &["group", "group_size", "visitation_depth"],
            Role::Judges,
            settings(json!({ "by": { "type": "array", "items": { "type": "string" }, "minItems": 1 } }), &["by"]),
            grouped,
        ),
        spec(
            "advantage",
            const { &[port("rows", &["group"], false, Delay::Never)] },
            true,
            &["return", "advantage"],
            Role::Judges,
            settings(json!({ "of": estimators, "gamma": { "type": "number", "minimum": 0, "maximum": 1 } }), &[]),
            nothing,
        ),
        spec(
            "combine",
            const { &[port("*", &["advantage"], false, Delay::Never)] },
            true,
            &["advantage"],
            Role::Judges,
            settings(json!({ "weights": { "type": "object", "x-keys": "inputs" } }), &[]),
            nothing,
        ),
        spec(
            "gpu-update",
            const { &[port("rows", &["advantage"], false, Delay::Either)] },
            false,
            &["version"],
            Role::Learns,
            update,
            nothing,
        ),
        spec(
            "evaluate",
            const { &[weights(&["version"], false, Delay::Either)] },
            false,
            &["won"],
            Role::Measures,
            settings(json!({ "model": { "type": "string", "x-names": "model" } }), &["model"]),
            nothing,
        ),
    ];
    let model = json!({ "anyOf": [
        settings(json!({ "new": { "const": "tiny" }, "layers": count }), &["new"]),
        settings(json!({ "load": { "type": "string" }, "lora": settings(json!({ "rank": count }), &["rank"]) }), &["load"]),
        settings(json!({ "on": { "type": "string", "x-names": "model" }, "lora": settings(json!({ "rank": count }), &["rank"]) }), &["on", "lora"]),
    ] });
    let columns = vec![
        "iteration",
        "task",
        "sample",
        "turn",
        "state",
        "reward",
        "reflection",
        "won",
        "visitation_depth",
        "group",
        "group_size",
        "return",
        "advantage",
        "version",
    ];
    Catalog { operators, model, agent, columns, text: |name| name == "reflection", logged: Default::default(), mistakes: |_| Vec::new() }
}

/// A pipeline without a mistake.
pub const GOOD: &str = "flow: eapo
about: a test
iterations: 3
models:
  actor: { new: tiny }
nodes:
  tasks: { op: tasks, with: { env: sokoban, batch: 4 } }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update, staleness: 0 } }
    with: { model: actor, samples: 8 }
  group: { op: group, inputs: rollout, with: { by: [task, state] } }
  advantage: { op: advantage, inputs: group, with: { of: step_return, gamma: 0.9 } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-6 } }
log: [rollout, update]
";

/// Another one, with a loop in it.
pub const LOOPED: &str = "flow: lamer
iterations: 3
models:
  actor: { new: tiny }
nodes:
  tasks: { op: tasks, with: { env: sokoban, batch: 4 } }
  trial:
    loop: { attempts: 3, until: won }
    nodes:
      reflect: { op: reflect, inputs: { rows: rollout, weights: { after: update, staleness: 1 } }, with: { model: actor } }
      rollout:
        op: rollout
        inputs: { tasks: tasks, weights: { after: update }, memory: { after: reflect } }
        with: { model: actor, samples: 8 }
    output: [rollout, reflect]
  group: { op: group, inputs: trial, with: { by: [task] } }
  advantage: { op: advantage, inputs: group }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-6 } }
log: [trial, update]
";
