//! The prompts of a pipeline: each playing node's first turn at a real task, as its model reads it.

use super::error::{Error, Result};
use crate::ops;
use flow_core::files;
use flow_core::printable::printable;
use flow_env::process::Programs;
use flow_env::{Environments, TrainingTasks};
use flow_model::TemplateVariables;
use flow_pipeline::{Node, Pipeline};
use flow_rollout::agent::Agent;
use flow_rollout::prompt::{self, Situation};
use flow_text::{Message, Tokenizer};
use serde::Deserialize;
use std::path::Path;

/// The prompt of the first turn of every node that plays with an agent.
pub fn prompts(pipeline: &Pipeline) -> Result<String> {
    let programs = Programs::default();
    ops::programs(pipeline).for_each(|(_, program)| programs.declare(program));
    let mut text = String::new();
    for node in pipeline.all().filter(|node| ops::rolls_out(node) && node.body.is_none()) {
        let agent = Agent::deserialize(&node.with.raw()["agent"]).map_err(|e| Error::Json(e).at(&node.id))?;
        text += &first_prompt(node, &agent, pipeline, &programs)?;
    }
    programs.close();
    Ok(text)
}

fn first_prompt(node: &Node, agent: &Agent, pipeline: &Pipeline, programs: &Programs) -> Result<String> {
    let Some(game) = ops::played(node, pipeline) else { return Ok(String::new()) };
    let task = TrainingTasks::new(game, pipeline.seed, &node.id, programs)?.tasks(0, 1).remove(0);
    let mut envs = Environments::new(programs.clone());
    let rules = envs.rules(&task.game)?;
    let view = envs.reset(&[(0, &task)])?.remove(0).map_err(|fault| Error::Request(fault.text))?;
    let (form, carried) = (agent.form(), agent.carried().map_or_else(Vec::new, |carried| carried.texts(None)));
    let situation = Situation {
        rules: &rules,
        instruction: &view.extras.facts.instruction,
        observation: &view.step.observation,
        admissible: &view.actions,
        max_turns: agent.turns(),
        form: &form,
        carried: &carried,
        ..Situation::default()
    };
    let messages = prompt::new(agent).and_then(|prompt| prompt.messages("", |place| situation.place(place))).map_err(Error::request)?;
    Ok(format!("\n`{}` reads in the first turn of {}:\n{}\n", node.id, task.name(), printable(&as_read(&messages, agent, pipeline)?)))
}

/// The messages by the chat template of a published model; else one after the other, each under its role.
fn as_read(messages: &[Message], agent: &Agent, pipeline: &Pipeline) -> Result<String> {
    let model = pipeline.models.get(&agent.model);
    let load = model.and_then(|model| model["load"].as_str());
    let tokenizer = load.and_then(|folder| Tokenizer::saved(Path::new(folder), &|path| files::text(path, 256 << 20).ok()));
    if let Some(mut tokenizer) = tokenizer.filter(Tokenizer::has_template) {
        let variables = model.and_then(|model| TemplateVariables::deserialize(&model["template"]).ok());
        tokenizer.set(&variables.unwrap_or_default());
        return Ok(tokenizer.transcribe(&tokenizer.chat(messages)?));
    }
    Ok(match messages {
        [only] => only.content.clone(),
        all => all.iter().map(|message| format!("[{}]\n{}\n", message.role, message.content)).collect(),
    })
}
