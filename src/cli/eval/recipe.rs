//! From a pipeline that trains, the part of it that plays.

use crate::cli::error::{Error, Result};
use crate::ops::{self, Operator};
use crate::pipeline::{Carries, Node, Pipeline, Role, LOOP};
use serde_json::{json, Map, Value};
use std::path::Path;

/// What a rollout without a loop is called in the loop that it gets for several attempts.
const ATTEMPT: &str = "attempt";

/// What is other than in training.
pub struct Changes<'a> {
    /// Where the weights are; only models that a server runs do without.
    pub model: Option<&'a Path>,
    pub node: Option<&'a str>,
    pub attempts: Option<u32>,
    pub samples: u32,
    pub temperature: f64,
    pub max_turns: Option<u32>,
    pub seed: u64,
    /// Whether it is played with a memory.
    pub remembers: bool,
}

/// A pipeline of one iteration: tasks, and the node that plays them, as it does in `trained`, with weights that stay as they are. It logs
/// that node alone.
pub fn recipe(trained: &Pipeline, changes: &Changes) -> Result<String> {
    let node = chosen(trained, changes.node)?;
    let played = trained.source["nodes"][&node.id].clone();
    let inner = if node.body.is_some() { played["nodes"].as_object().cloned().unwrap_or_default() } else { Map::new() };
    let source = tasks_of(trained, node).ok_or_else(|| Error::Asked(format!("`{}` reads no tasks", node.id)))?;
    let memory = if changes.remembers { Some(memory_of(trained, node)?) } else { None };
    if memory.is_some() && changes.attempts.unwrap_or(1) > 1 {
        return Err(Error::asked(
            "several attempts are told of one another, and not what is remembered: leave out `--attempts` or `--memory`",
        ));
    }
    let played = match &node.body {
        None => {
            let mut played = quiet(&played, &source.id, changes, &[]);
            if let Some(memory) = memory {
                remembering(&mut played, trained, node, memory);
            }
            match ops::operator(&node.op).and_then(|o| o.port(Carries::Memory)) {
                Some(memory) if changes.attempts.unwrap_or(1) > 1 => {
                    played["inputs"][memory.name] = json!({ "after": ATTEMPT });
                    json!({ "loop": { "attempts": changes.attempts }, "nodes": { ATTEMPT: played }, "output": ATTEMPT })
                }
                _ => played,
            }
        }
        Some(_) => {
            let mut played = played;
            let names: Vec<&str> = inner.keys().map(String::as_str).collect();
            for (id, one) in &inner {
                played["nodes"][id] = quiet(one, &source.id, changes, &names);
            }
            if let Some(attempts) = changes.attempts {
                played["loop"]["attempts"] = json!(attempts);
            }
            played
        }
    };
    let name = if node.id == ATTEMPT { "played" } else { &node.id };
    let mut known = Map::new();
    for name in models(node) {
        let settings = match (trained.models.get(&name), changes.model) {
            // Its weights are where they always are.
            (Some(settings), _) if ops::remote(settings) => settings.clone(),
            (_, Some(model)) => json!({ "load": model, "of": name }),
            (_, None) => {
                let help = "name the run whose weights play: flow eval RUN --panel FILE";
                return Err(Error::Asked(format!("nothing says which weights of `{name}` play")).help(help));
            }
        };
        known.insert(name, settings);
    }
    let mut pipeline = json!({
        "flow": "eval",
        "iterations": 1,
        "seed": changes.seed,
        "models": known,
        "nodes": { &source.id: trained.source["nodes"][&source.id].clone(), name: played },
        "log": [name],
    });
    if let Some(memory) = memory {
        if let Some(encoder) = node.with.names("encoder") {
            pipeline["models"][encoder] = trained.source["models"][encoder].clone();
        }
        // Its changes come from the log; what says how its keys are compared is all that counts of it.
        let mut with = json!({});
        for setting in ops::comparing() {
            if let Some(given) = trained.source["nodes"][&memory.id]["with"].get(&setting) {
                with[setting] = given.clone();
            }
        }
        pipeline["nodes"][&memory.id] = json!({ "op": memory.op, "inputs": name, "with": with });
        pipeline["log"] = json!([name, memory.id]);
    }
    Ok(serde_json::to_string_pretty(&pipeline)?)
}

/// The node that plays with a model: the one that is asked for, or the only one.
fn chosen<'a>(pipeline: &'a Pipeline, wanted: Option<&str>) -> Result<&'a Node> {
    let acts = |node: &&Node| node.all().any(ops::acts);
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
    node.all().filter(|n| ops::is(n, Role::Plays))
}

/// The memory that `node` reads.
fn memory_of<'a>(pipeline: &'a Pipeline, node: &Node) -> Result<&'a Node> {
    let remembers = |from: &str| pipeline.node(from).filter(|n| ops::is(n, Role::Remembers));
    let read = node.inputs.iter().find_map(|input| remembers(&input.from)).filter(|_| node.body.is_none());
    read.ok_or_else(|| Error::Asked(format!("`{}` reads no memory, which `--memory` is for", node.id)))
}

/// Has the node read the memory in every iteration, as in training.
fn remembering(played: &mut Value, trained: &Pipeline, node: &Node, memory: &Node) {
    let had = &trained.source["nodes"][&node.id];
    let port = node.inputs.iter().find(|input| input.from == memory.id).map(|input| input.port.clone());
    if let Some(port) = port {
        played["inputs"][port] = json!({ "after": memory.id });
    }
    for setting in ["retrieve", "encoder"] {
        if let Some(given) = had["with"].get(setting) {
            played["with"][setting] = given.clone();
        }
    }
    if let Some(retrieve) = played["with"]["retrieve"].as_object_mut() {
        retrieve.remove("chance");
    }
}

/// The node whose tasks `node` plays.
fn tasks_of<'a>(pipeline: &'a Pipeline, node: &Node) -> Option<&'a Node> {
    let ports = |n: &Node| ops::operator(&n.op).and_then(|o| o.port(Carries::Tasks)).map(|p| p.name);
    let mut inputs = rollouts(node).flat_map(|n| n.inputs.iter().filter(move |i| Some(i.port.as_str()) == ports(n)));
    inputs.find_map(|i| pipeline.node(&i.from))
}

fn models(node: &Node) -> Vec<String> {
    let playing = node.all().filter(|n| n.op != LOOP);
    let mut models: Vec<String> = playing.flat_map(|n| [n.model(), n.with.names("critic")]).flatten().map(String::from).collect();
    models.sort();
    models.dedup();
    models
}

/// A node as it plays when nothing is learnt: what comes from outside is tasks, and the settings are those asked for.
fn quiet(node: &Value, tasks: &str, changes: &Changes, inside: &[&str]) -> Value {
    let mut node = node.clone();
    let Some(operator) = node["op"].as_str().and_then(ops::operator) else { return node };
    if operator.role == Role::Plays {
        node["inputs"] = inputs(&node["inputs"], operator, tasks, inside);
    }
    if !matches!(operator.role, Role::Plays | Role::Reflects) {
        return node;
    }
    if !node["with"].is_object() {
        node["with"] = json!({});
    }
    node["with"]["temperature"] = json!(changes.temperature);
    node["with"]["actor"] = json!("policy");
    if let Some(with) = node["with"].as_object_mut() {
        // A control, which is asked for where it is wanted.
        with.remove("notes");
        // Read where a memory is asked for.
        with.remove("retrieve");
        with.remove("encoder");
    }
    if operator.role == Role::Plays {
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

/// The tasks, and what the attempt before tells.
fn inputs(had: &Value, operator: &Operator, tasks: &str, inside: &[&str]) -> Value {
    let mut inputs = Map::new();
    if let Some(port) = operator.port(Carries::Tasks) {
        inputs.insert(port.name.into(), json!(tasks));
    }
    let told = operator.port(Carries::Memory).and_then(|port| Some((port.name, had.get(port.name)?)));
    if let Some((port, edge)) = told.filter(|(_, edge)| edge["after"].as_str().is_some_and(|from| inside.contains(&from))) {
        inputs.insert(port.into(), edge.clone());
    }
    Value::Object(inputs)
}
