//! The operator table: the one list of operators. Parsing, checking, the JSON Schema, `flow ops` and the engine all
//! read it. To add an operator: one file here, one line in [`TABLE`], one pipeline that uses it.

mod advantage;
mod attempts;
mod combine;
mod episodes;
mod evaluate;
mod gpu_update;
mod group;
mod heads;
mod how;
mod incoming;
mod memory;
mod misplaced;
mod play;
mod player;
mod playing;
mod prompt;
mod reflect;
mod reflecting;
mod reflections;
mod resample;
mod reward;
mod rollout;
mod said;
mod select;
mod tally;
mod tasks;
mod tries;
mod turns;
mod value;

use crate::dataflow::{Edge, Outside, Ports, Render};
use crate::env::process::ProcessSettings;
use crate::env::{EnvError, Game};
use crate::pipeline::{Catalog, Node, OperatorSpec, Pipeline, Wrong};
use crate::policy::{ModelSettings, NewModel, TokenKind};
use crate::row;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// What an author sees of an operator, and how it becomes timely.
pub struct Operator {
    pub spec: fn() -> OperatorSpec,
    pub render: Render,
}

/// An operator that can't stand in a loop.
const fn outside(spec: fn() -> OperatorSpec, outside: Outside) -> Operator {
    Operator { spec, render: Render::outside(outside) }
}

/// THE operator table.
pub const TABLE: &[Operator] = &[
    outside(tasks::spec, tasks::render),
    Operator { spec: rollout::spec, render: Render { outside: rollout::render, inside: Some(rollout::inside) } },
    Operator { spec: reflect::spec, render: Render { outside: reflect::render, inside: Some(reflect::inside) } },
    outside(reward::spec, reward::render),
    outside(value::spec, value::render),
    outside(group::spec, group::render),
    outside(advantage::spec, advantage::render),
    outside(combine::spec, combine::render),
    outside(gpu_update::spec, gpu_update::render),
    outside(evaluate::spec, evaluate::render),
];

/// The table as the pipeline language reads it.
pub fn catalog() -> Catalog {
    Catalog {
        operators: TABLE.iter().map(|o| (o.spec)()).collect(),
        model: schema::<ModelSettings>(),
        columns: row::COLUMNS.iter().map(|c| c.name).collect(),
        logged: Default::default(),
        wrong,
    }
}

/// The table for a pipeline that is replayed: it plays no board and no panel, so that nothing can be wrong with them, and
/// the nodes of `logged` have the columns that a log has of them.
pub fn replayed(logged: BTreeMap<String, Vec<String>>) -> Catalog {
    Catalog { logged, wrong: judged_wrong, ..catalog() }
}

/// Whether a node, or one inside it, plays episodes: what a replay doesn't do.
pub fn plays(node: &Node) -> bool {
    node.all().any(|n| ["rollout", "evaluate"].contains(&n.op.as_str()))
}

/// Whether a node's rows are the turns of a training's rollouts, be it through a loop.
pub fn rolls_out(node: &Node) -> bool {
    node.all().any(|n| n.op == "rollout")
}

/// How the operator called `name` becomes timely.
pub fn find(name: &str) -> Option<Render> {
    TABLE.iter().find(|o| (o.spec)().name == name).map(|o| o.render)
}

/// The columns that the operator called `name` adds, and so logs.
pub fn adds(name: &str) -> &'static [&'static str] {
    TABLE.iter().map(|o| (o.spec)()).find(|s| s.name == name).map_or(&[], |s| s.adds)
}

/// How many versions of the weights an iteration makes, at most.
pub fn updates(pipeline: &Pipeline) -> usize {
    pipeline.nodes.iter().filter(|n| n.op == "gpu-update").count()
}

/// Every game that the pipeline plays: what the words of a new model's vocabulary come from.
pub fn games(pipeline: &Pipeline) -> Result<Vec<Game>, String> {
    let mut games: Vec<Game> = Vec::new();
    for node in &pipeline.nodes {
        let game = match node.op.as_str() {
            "tasks" => tasks::game(node).map_err(|e| e.to_string())?,
            "evaluate" => evaluate::game(node)?,
            _ => continue,
        };
        if !games.contains(&game) {
            games.push(game);
        }
    }
    Ok(games)
}

/// The game that these settings of a `tasks` node mean; how many tasks it makes doesn't matter.
pub fn game(mut with: serde_json::Map<String, Value>) -> Result<Game, String> {
    with.insert("batch".into(), 1.into());
    let node = Node { id: "tasks".into(), op: "tasks".into(), inputs: vec![], with: Value::Object(with), body: None };
    let game = tasks::game(&node).map_err(|e| e.to_string())?;
    match game.program() {
        Some(_) => Err("a process has no frozen panels".into()),
        None => Ok(game),
    }
}

/// The programs that the pipeline plays with.
fn processes(pipeline: &Pipeline) -> Result<Vec<ProcessSettings>, EnvError> {
    let nodes = pipeline.nodes.iter().filter(|n| n.op == "tasks");
    Ok(nodes.map(tasks::process).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The words of every text that the pipeline's games and prompts can show, each once. What a process shows it is asked for, if
/// some model is made of words.
pub fn words(pipeline: &Pipeline) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = games(pipeline)?.iter().flat_map(Game::vocabulary).chain(prompt::words()).collect();
    // Only then, so that models of pipelines without attempts have no word that they never see.
    if pipeline.nodes.iter().any(|n| n.body.is_some() || n.with["attempts"].as_u64().is_some_and(|n| n > 1)) {
        words.extend(memory::words());
    }
    for node in pipeline.all().filter(|n| n.op == "reflect") {
        words.extend(reflect::words(node)?);
    }
    let of_words = |model: &&String| {
        let new = serde_json::from_value::<NewModel>(pipeline.models[*model].clone());
        new.is_ok_and(|new| new.tokens == TokenKind::Words)
    };
    if let Some(model) = pipeline.models.keys().find(of_words) {
        for settings in processes(pipeline).map_err(|e| e.to_string())? {
            let hello = settings.greet().map_err(|e| e.to_string())?;
            if hello.words.is_empty() {
                let name = settings.name;
                return Err(format!(
                    "the process `{name}` names no words, and the model `{model}` is made of words: let its hello name the `words` of its texts, or write `tokens: bytes` in the model"
                ));
            }
            words.extend(hello.words);
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    words.retain(|word| seen.insert(word.clone()));
    Ok(words)
}

/// What only the operators can see: settings that no board can have, a panel that isn't there, likeness of what is no text, updates
/// without an order.
fn wrong(pipeline: &Pipeline) -> Vec<Wrong> {
    let mut found = Vec::new();
    for node in &pipeline.nodes {
        let looked = match node.op.as_str() {
            "tasks" => tasks::game(node).map_err(|e| (e.setting().unwrap_or("env"), e.to_string())),
            "evaluate" => evaluate::game(node).map_err(|message| ("panel", message)),
            _ => continue,
        };
        if let Err((setting, message)) = looked {
            let at = ["nodes", &node.id, "with", setting].map(String::from).to_vec();
            found.push(Wrong { at, message, help: None });
        }
    }
    found.extend(pipeline.all().filter(|n| n.op == "rollout").flat_map(|node| misplaced::wrong(node, pipeline)));
    found.extend(namesakes(pipeline));
    found.extend(judged_wrong(pipeline));
    found
}

/// Of that, what is about rows that are there already.
fn judged_wrong(pipeline: &Pipeline) -> Vec<Wrong> {
    let mut found: Vec<Wrong> = pipeline.nodes.iter().filter(|n| n.op == "reward").filter_map(reward::wrong).collect();
    found.extend(pipeline.nodes.iter().filter(|n| n.op == "group").filter_map(group::wrong));
    found.extend(pipeline.models.keys().flat_map(|model| unordered(pipeline, model)));
    found.extend(heads::wrong(pipeline));
    found.extend(pipeline.all().filter(|n| n.op == "reflect").filter_map(reflect::wrong));
    found
}

/// Two programs of one name: a task's name would not say which of them it is played by.
fn namesakes(pipeline: &Pipeline) -> Vec<Wrong> {
    let mut known: Vec<(&Node, ProcessSettings)> = Vec::new();
    let mut found = Vec::new();
    for node in pipeline.nodes.iter().filter(|n| n.op == "tasks") {
        // What is wrong with the settings themselves is told by `tasks::game`.
        let Ok(Some(process)) = tasks::process(node) else { continue };
        match known.iter().find(|(_, other)| other.name == process.name && *other != process) {
            Some((other, _)) => found.push(Wrong {
                at: ["nodes", &node.id, "with", "name"].map(String::from).to_vec(),
                message: format!("`{}` starts the process `{}` otherwise than `{}` does", node.id, process.name, other.id),
                help: Some(
                    "tasks are known by the name of their process: give one of the two another name, or both the same settings".into(),
                ),
            }),
            None => known.push((node, process)),
        }
    }
    found
}

/// Several updates of one model must take turns: each waits for the one before it, the first for the last one's previous
/// iteration. Otherwise which weights a row was made with would be a matter of timing.
fn unordered(pipeline: &Pipeline, model: &str) -> Vec<Wrong> {
    let turns: Vec<&Node> = pipeline.nodes.iter().filter(|n| n.op == "gpu-update" && n.with["model"] == model).collect();
    let mut found = Vec::new();
    for (i, node) in turns.iter().enumerate().filter(|_| turns.len() > 1) {
        let before = &turns[(i + turns.len() - 1) % turns.len()].id;
        let waits = node.inputs.iter().any(|e| e.port == "weights" && &e.from == before && e.staleness.unwrap_or(0) == 0);
        if !waits {
            let edge = if i == 0 { format!("{{ after: {before} }}") } else { before.clone() };
            found.push(Wrong {
                at: ["nodes", &node.id].map(String::from).to_vec(),
                message: format!("`{model}` is updated by {} nodes, which must take turns", turns.len()),
                help: Some(format!("give `{}` the input `weights: {edge}`", node.id)),
            });
        }
    }
    found
}

/// JSON Schema of a settings struct.
fn schema<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

/// A node's settings, typed. The checker has held them against the schema already; what is left to say is rare.
fn settings<T: DeserializeOwned>(node: &Node) -> Result<T, String> {
    let with = if node.with.is_null() { Value::Object(Default::default()) } else { node.with.clone() };
    serde_json::from_value(with).map_err(|e| format!("with: {e}"))
}

/// The edge into `name`, if it is connected.
fn port<'s>(ports: &Ports<'s>, name: &str) -> Option<Edge<'s>> {
    ports.iter().find(|(n, _)| n == name).map(|(_, edge)| edge.clone())
}

/// The edge into `name`, which the checker has seen to be there.
fn must<'s>(ports: &Ports<'s>, name: &str) -> Result<Edge<'s>, String> {
    port(ports, name).ok_or_else(|| format!("needs an input `{name}`"))
}

/// No further columns needed, whatever the settings.
fn nothing(_: &Value) -> Vec<crate::pipeline::Need> {
    Vec::new()
}
