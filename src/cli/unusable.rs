//! Checks that the models of a pipeline can be loaded, and that their chat templates take the messages of the agents: a
//! run would fail after minutes, and play nothing. Headers and configurations are read, no weights.

use super::models::{newest_of, run_at};
use crate::ops;
use crate::pipeline::{Pipeline, Wrong};
use crate::policy::{inspect, ModelSettings, PolicyError, Tokenizer};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What is wrong with the models called `names`, whose folders exist.
pub fn unusable<'a>(pipeline: &Pipeline, names: impl Iterator<Item = &'a String>) -> Vec<Wrong> {
    let models: BTreeMap<String, ModelSettings> =
        pipeline.models.iter().filter_map(|(name, model)| Some((name.clone(), located(name, model)?))).collect();
    let (mut wrongs, mut tokenizers) = (Vec::new(), BTreeMap::new());
    for name in names.filter(|name| models.contains_key(*name)) {
        match inspect(name, &models) {
            Ok(tokenizer) => tokenizers.extend(tokenizer.map(|tokenizer| (name.as_str(), tokenizer))),
            Err((setting, error)) => {
                let message = match &error {
                    PolicyError::Model { .. } => error.to_string(),
                    error => format!("`{name}` can't be loaded: {error}"),
                };
                wrongs.push(Wrong::in_model(name, setting, message));
            }
        }
    }
    let mut known = BTreeSet::new();
    let agents = pipeline.all().flat_map(ops::agents).filter(|agent| known.insert((agent.model.clone(), agent.system, agent.conversation)));
    wrongs.extend(agents.filter_map(|agent| refused(pipeline, &tokenizers, agent)));
    wrongs
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
fn refused(pipeline: &Pipeline, tokenizers: &BTreeMap<&str, Arc<Tokenizer>>, agent: ops::AgentMessages) -> Option<Wrong> {
    let model = &pipeline.models[&agent.model];
    let tokenizer = tokenizers.get(agent.model.as_str()).or_else(|| tokenizers.get(model["on"].as_str()?))?;
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
    Some(Wrong::in_model(&agent.model, setting, message).help(help))
}
