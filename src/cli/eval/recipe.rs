//! From a pipeline that trains to one that measures: a node whose agent plays a panel, as it does in training.

use super::EvalArgs;
use crate::cli::error::{Error, Result};
use crate::ops;
use flow_pipeline::{Node, Pipeline, Role};
use serde_json::{json, Map, Value};
use std::path::Path;

/// A pipeline of one iteration: the agent of the node that plays in `trained`, with weights that stay as they are,
/// plays the panel, and those attempts are reflected on that are in training. It logs that node alone.
pub fn recipe(trained: &Pipeline, changes: &EvalArgs) -> Result<String> {
    let node = chosen(trained, changes.node.as_deref())?;
    let memories = if changes.memory.is_some() { memories_of(trained, node)? } else { vec![] };
    let attempts = changes.attempts.or(node.body.as_ref().map(|body| body.attempts)).unwrap_or(1);
    if !memories.is_empty() && attempts > 1 {
        return Err(Error::request("later attempts read notes on earlier ones, and not a memory: leave out `--attempts` or `--memory`"));
    }
    let mut with = json!({
        "agent": agent(node, Role::Plays, changes).unwrap_or_default(),
        "panel": changes.panel,
        "every": 1,
        "samples": changes.samples,
        "attempts": attempts,
        "temperature": changes.temperature,
        "seed": changes.seed,
    });
    if let Some(reflects) = node.all().find(|inner| ops::is(inner, Role::Reflects)) {
        let mut reflect = reflects.with.raw().clone();
        if let Some(settings) = reflect.as_object_mut() {
            // Who reflects is the model, about its own attempts; anything else is asked for where it is wanted.
            ["actor", "notes", "temperature"].iter().for_each(|key| drop(settings.remove(*key)));
        }
        with["reflect"] = reflect;
    }
    let mut nodes = json!({});
    nodes[&node.id] = json!({ "op": ops::measuring(), "with": with });
    let mut log = vec![node.id.clone()];
    for (port, memory) in memories {
        nodes[&node.id]["inputs"][port] = json!({ "after": memory.id });
        // Its changes come from the log; of a memory only the settings for comparing keys count.
        let raw = memory.with.raw();
        let compares = ops::comparing().into_iter().filter_map(|key| Some((key.clone(), raw.get(&key)?.clone())));
        let with = if ops::is(memory, Role::Remembers) { compares.collect::<Map<_, _>>().into() } else { raw.clone() };
        nodes[&memory.id] = json!({ "op": memory.op, "inputs": node.id, "with": with });
        log.push(memory.id.clone());
    }
    let pipeline = json!({
        "flow": "eval",
        "iterations": 1,
        "seed": changes.seed,
        "models": models(trained, &nodes, changes)?,
        "nodes": nodes,
        "log": log,
    });
    Ok(serde_json::to_string_pretty(&pipeline)?)
}

/// The agent of the first node of this role, itself or inside the loop, as it plays when nothing is learnt.
fn agent(node: &Node, role: Role, changes: &EvalArgs) -> Option<Value> {
    let mut agent = node.all().find(|inner| ops::is(inner, role))?.with.raw()["agent"].clone();
    if let Some(most) = changes.max_turns {
        agent["max_turns"] = json!(most);
    }
    for source in agent.get_mut("context").and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        // A control, which is asked for where it is wanted.
        if source.contains_key("notes") {
            source.insert("notes".into(), json!("own"));
        }
    }
    Some(agent)
}

/// The node that plays with a model: the one that is asked for, or the only one.
fn chosen<'a>(pipeline: &'a Pipeline, name: Option<&str>) -> Result<&'a Node> {
    let acts = |node: &&Node| node.all().any(ops::acts);
    let players: Vec<&Node> = pipeline.nodes.iter().filter(acts).collect();
    let names = || players.iter().map(|n| format!("`{}`", n.id)).collect::<Vec<_>>().join(", ");
    match name {
        Some(id) => {
            let node = players.iter().find(|n| n.id == id).copied();
            node.ok_or_else(|| Error::Request(format!("`{id}` plays nothing; nodes that play: {}", names())))
        }
        None if players.len() == 1 => Ok(players[0]),
        None if players.is_empty() => Err(Error::request("no node plays with a model")),
        None => Err(Error::Request(format!("several nodes play: name one of {} by --node", names()))),
    }
}

/// The memories that `node` reads, and the clusters by which it reads them, each with the port that it comes by.
fn memories_of<'a>(pipeline: &'a Pipeline, node: &'a Node) -> Result<Vec<(&'a str, &'a Node)>> {
    let remembers = |from: &str| pipeline.node(from).filter(|n| ops::remembers(n));
    let read = node.inputs.iter().filter(|_| node.body.is_none());
    let memories: Vec<_> = read.filter_map(|input| Some((input.port.as_str(), remembers(&input.from)?))).collect();
    match !memories.iter().any(|(_, node)| ops::is(node, Role::Remembers)) {
        true => Err(Error::Request(format!("`{}` reads no memory, which `--memory` is for", node.id))),
        false => Ok(memories),
    }
}

/// The model that lies at `model`, computed as the run computed it: the measured model is the trained one.
fn loaded(model: &Path, name: &str, settings: Option<&Value>) -> Value {
    let mut loaded = json!({ "load": model, "of": name });
    // Only the base of an adapter is kept apart from the learning weights.
    if settings.is_some_and(|settings| settings.get("base").is_some()) {
        loaded["adapter"] = json!(model);
    }
    for key in ["dtype", "base", "act", "cache_gb"] {
        if let Some(value) = settings.and_then(|settings| settings.get(key)) {
            loaded[key] = value.clone();
        }
    }
    loaded
}

/// The models that the agents of these nodes name, with the weights that are asked for, and the encoders of the
/// memories.
fn models(trained: &Pipeline, nodes: &Value, changes: &EvalArgs) -> Result<Map<String, Value>> {
    let mut models = Map::new();
    for name in ops::models(nodes) {
        let settings = match (trained.models.get(&name), &changes.run) {
            // Its weights are where they always are.
            (Some(settings), _) if ops::remote(settings) || settings["encode"].is_string() => settings.clone(),
            (settings, Some(model)) => loaded(model, &name, settings),
            (_, None) => {
                let help = "name the run whose weights play: flow eval RUN --panel FILE";
                return Err(Error::Request(format!("nothing says which weights of `{name}` play")).help(help));
            }
        };
        models.insert(name, settings);
    }
    Ok(models)
}
