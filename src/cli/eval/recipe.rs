//! From a pipeline that trains, the part of it that plays.

use crate::cli::error::{Error, Result};
use crate::pipeline::{Node, Pipeline, LOOP};
use serde_json::{json, Map, Value};
use std::path::Path;

/// What the node with the tasks is called.
pub const TASKS: &str = "tasks";

/// What is other than in training.
pub struct Changes<'a> {
    /// Where the weights are.
    pub model: &'a Path,
    pub node: Option<&'a str>,
    pub attempts: Option<u32>,
    pub samples: u32,
    pub temperature: f64,
    pub max_turns: Option<u32>,
    pub seed: u64,
}

/// A pipeline of one iteration: tasks, and the node that plays them, as it does in `trained`, with weights that stay as they are. It logs
/// that node alone.
pub fn recipe(trained: &Pipeline, changes: &Changes) -> Result<String> {
    let node = chosen(trained, changes.node)?;
    let played = trained.source["nodes"][&node.id].clone();
    let inner = if node.body.is_some() { played["nodes"].as_object().cloned().unwrap_or_default() } else { Map::new() };
    let played = match &node.body {
        None => {
            let played = quiet(&played, "rollout", changes, &[]);
            if changes.attempts.unwrap_or(1) == 1 {
                played
            } else {
                let mut again = played;
                again["inputs"]["memory"] = json!({ "after": "attempt" });
                json!({ "loop": { "attempts": changes.attempts }, "nodes": { "attempt": again }, "output": "attempt" })
            }
        }
        Some(_) => {
            let mut played = played;
            let names: Vec<&str> = inner.keys().map(String::as_str).collect();
            for (id, one) in &inner {
                let op = one["op"].as_str().unwrap_or_default();
                played["nodes"][id] = quiet(one, op, changes, &names);
            }
            if let Some(attempts) = changes.attempts {
                played["loop"]["attempts"] = json!(attempts);
            }
            played
        }
    };
    let source = tasks_of(trained, node).ok_or_else(|| Error::Asked(format!("`{}` reads no tasks", node.id)))?;
    let name = if [TASKS, "attempt"].contains(&node.id.as_str()) { "played" } else { &node.id };
    let models: Map<String, Value> = models(node).into_iter().map(|m| (m.clone(), json!({ "load": changes.model, "of": m }))).collect();
    let pipeline = json!({
        "flow": "eval",
        "iterations": 1,
        "seed": changes.seed,
        "models": models,
        "nodes": { TASKS: trained.source["nodes"][&source.id].clone(), name: played },
        "log": [name],
    });
    Ok(serde_json::to_string_pretty(&pipeline)?)
}

/// The node that plays with a model: the one that is asked for, or the only one.
fn chosen<'a>(pipeline: &'a Pipeline, wanted: Option<&str>) -> Result<&'a Node> {
    let acts = |node: &&Node| rollouts(node).any(|n| n.with["actor"] != "expert");
    let players: Vec<&Node> = pipeline.nodes.iter().filter(acts).collect();
    let names = || players.iter().map(|n| format!("`{}`", n.id)).collect::<Vec<_>>().join(", ");
    match wanted {
        Some(id) => {
            let found = players.iter().find(|n| n.id == id).copied();
            found.ok_or_else(|| Error::Asked(format!("`{id}` plays nothing; what plays is {}", names())))
        }
        None if players.len() == 1 => Ok(players[0]),
        None if players.is_empty() => Err(Error::asked("no node plays with a model")),
        None => Err(Error::Asked(format!("several nodes play: name one of {} by --node", names()))),
    }
}

fn rollouts(node: &Node) -> impl Iterator<Item = &Node> {
    node.all().filter(|n| n.op == "rollout")
}

/// The node whose tasks `node` plays.
fn tasks_of<'a>(pipeline: &'a Pipeline, node: &Node) -> Option<&'a Node> {
    let inputs = rollouts(node).flat_map(|n| &n.inputs);
    inputs.filter(|i| i.port == "tasks").find_map(|i| pipeline.node(&i.from))
}

fn models(node: &Node) -> Vec<String> {
    let mut models: Vec<String> = node.all().filter(|n| n.op != LOOP).filter_map(|n| n.with["model"].as_str()).map(String::from).collect();
    models.sort();
    models.dedup();
    models
}

/// A node as it plays when nothing is learnt: what comes from outside is tasks, and the settings are those asked for.
fn quiet(node: &Value, op: &str, changes: &Changes, inside: &[&str]) -> Value {
    let mut node = node.clone();
    if op == "rollout" {
        let memory = node["inputs"].get("memory").cloned();
        let tasks = json!({ "tasks": TASKS });
        node["inputs"] = tasks;
        if let Some(memory) = memory.filter(|m| m["after"].as_str().is_some_and(|from| inside.contains(&from))) {
            node["inputs"]["memory"] = memory;
        }
    }
    if !["rollout", "reflect"].contains(&op) {
        return node;
    }
    if !node["with"].is_object() {
        node["with"] = json!({});
    }
    node["with"]["temperature"] = json!(changes.temperature);
    node["with"]["actor"] = json!("policy");
    if op == "rollout" {
        node["with"]["samples"] = json!(changes.samples);
        if let Some(most) = changes.max_turns {
            node["with"]["max_turns"] = json!(most);
        }
        if let Some(with) = node["with"].as_object_mut() {
            with.remove("groups");
        }
    }
    node
}
