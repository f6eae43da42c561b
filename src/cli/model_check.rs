//! Checks that the models of a pipeline can be loaded, and that their chat templates take the messages of the agents: a
//! run would fail after minutes, and play nothing. Headers and configurations are read, no weights.

use super::models::{newest_of, run_at};
use crate::ops;
use flow_checkpoint::{inspect, Inspected};
use flow_model::{ModelSettings, PolicyError};
use flow_pipeline::{Mistake, Node, Pipeline};
use flow_text::Tokenizer;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What is wrong with the models called `names`, whose folders exist.
pub fn unusable<'a>(pipeline: &Pipeline, names: impl Iterator<Item = &'a String>) -> Vec<Mistake> {
    let models: BTreeMap<String, ModelSettings> =
        pipeline.models.iter().filter_map(|(name, model)| Some((name.clone(), located(name, model)?))).collect();
    let (mut mistakes, mut known) = (Vec::new(), BTreeMap::new());
    for name in names.filter(|name| models.contains_key(*name)) {
        match inspect(name, &models) {
            Ok(inspected) => drop(known.insert(name.as_str(), inspected)),
            Err((setting, error)) => {
                let message = match &error {
                    PolicyError::Model { .. } => error.to_string(),
                    error => format!("`{name}` can't be loaded: {error}"),
                };
                mistakes.push(Mistake::in_model(name, setting, message));
            }
        }
    }
    mistakes.extend(known.iter().filter_map(|(name, inspected)| unread_variable(name, &pipeline.models[*name], inspected)));
    let mut checked = BTreeSet::new();
    for node in pipeline.all() {
        for agent in ops::agents(node) {
            mistakes.extend(too_long(pipeline, &known, node, &agent));
            if checked.insert((agent.model.clone(), agent.system, agent.conversation)) {
                mistakes.extend(refused(pipeline, &known, agent));
            }
        }
    }
    mistakes
}

/// What is known of a model, or of the one that it is on.
fn inspected<'a>(
    pipeline: &Pipeline,
    known: &'a BTreeMap<&str, Inspected>,
    model: &str,
    has: impl Fn(&Inspected) -> bool,
) -> Option<&'a Inspected> {
    let base = pipeline.models.get(model).and_then(|settings| settings["on"].as_str());
    [Some(model), base].into_iter().flatten().find_map(|name| known.get(name).filter(|inspected| has(inspected)))
}

/// A variable that the chat template never reads: it was meant to change something.
fn unread_variable(name: &str, model: &serde_json::Value, inspected: &Inspected) -> Option<Mistake> {
    let tokenizer = inspected.tokenizer.as_ref()?;
    let variable = model["template"].as_object()?.keys().find(|variable| !tokenizer.reads(variable))?;
    let message = format!("the chat template of `{name}` reads no variable `{variable}`, so it would change nothing");
    Some(Mistake::in_model(name, "template", message).help("take it out, or look into the model's chat template for the name it has there"))
}

/// An agent whose answers alone may fill the model's context.
fn too_long(pipeline: &Pipeline, known: &BTreeMap<&str, Inspected>, node: &Node, agent: &ops::AgentMessages) -> Option<Mistake> {
    let game = ops::played(node, pipeline);
    let free = agent.free || game.as_ref().and_then(|game| game.program()).is_some_and(|program| program.calls);
    let context = inspected(pipeline, known, &agent.model, |inspected| inspected.context.is_some())?.context?;
    let max = agent.max_tokens;
    (free && max >= context).then(|| {
        let message =
            format!("an answer may have {max} tokens, and `{}` reads {context} with the prompt: nothing could be asked", agent.model);
        let help = format!("give the agent a `max_tokens` well below {context}, so that a prompt has room beside the answer");
        Mistake::in_node(node, &[&["with"], agent.place, &["max_tokens"]].concat(), message).help(help)
    })
}

/// The tokenizer of a model, or of the one that it is on; none of one without files, or whose files are wrong.
pub fn tokenizer(pipeline: &Pipeline, model: &str) -> Option<Arc<Tokenizer>> {
    let base = pipeline.models.get(model)?["on"].as_str().unwrap_or(model);
    let settings = located(base, pipeline.models.get(base)?)?;
    inspect(base, &[(base.to_owned(), settings)].into()).ok()?.tokenizer
}

/// A model with the folders of its newest weights in place of the runs that made them.
fn located(name: &str, model: &serde_json::Value) -> Option<ModelSettings> {
    let mut settings: ModelSettings = serde_json::from_value(model.clone()).ok()?;
    let find = |path: &mut String, of: &Option<String>| {
        let run = run_at(Path::new(path)).ok()?;
        if let Some(run) = run {
            *path = run.root().join(newest_of(&run, of.as_deref().unwrap_or(name)).ok()??.path).display().to_string();
        }
        Some(())
    };
    match &mut settings {
        ModelSettings::Load(load) => {
            find(&mut load.load, &load.of)?;
            load.adapter.as_mut().map_or(Some(()), |adapter| find(adapter, &load.of))?;
        }
        ModelSettings::Shared(shared) => shared.adapter.as_mut().map_or(Some(()), |adapter| find(adapter, &shared.of))?,
        _ => {}
    }
    Some(settings)
}

/// What a chat template says against the messages of an agent.
fn refused(pipeline: &Pipeline, known: &BTreeMap<&str, Inspected>, agent: ops::AgentMessages) -> Option<Mistake> {
    let model = &pipeline.models[&agent.model];
    let tokenizer = inspected(pipeline, known, &agent.model, |inspected| inspected.tokenizer.is_some())?.tokenizer.as_ref()?;
    let error = tokenizer.takes(agent.system, agent.conversation).err()?;
    let setting = if model["on"].is_null() { "load" } else { "on" };
    let messages = match (agent.system, agent.conversation) {
        (true, true) => "a system message and further messages after an answer",
        (true, false) => "a system message",
        (false, true) => "further messages after an answer",
        (false, false) => "the messages",
    };
    let message = format!("{error}: `{}` gives it {messages}", agent.node);
    let help = "an agent without `system`, whose `prompt` says it, or with `layout: rebuilt`, needs less of a template";
    Some(Mistake::in_model(&agent.model, setting, message).help(help))
}
