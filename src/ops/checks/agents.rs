//! Checks an agent where it plays or reflects, and collects the words of its prompts. Templates are rendered once on a
//! sample, so that their errors are reported before anything runs.

use super::{branches, by_name, critics};
use crate::ops::memories::reading;
use flow_pipeline::{Mistake, Node, Pipeline};
use flow_rollout::action::Decode;
use flow_rollout::agent::{Agent, PromptLayout};
use flow_rollout::context::{PassageSlot, RecallTime};
use flow_rollout::settings::Actor;
use flow_rollout::tags::{self, ACTION};
use flow_rollout::template::{PromptTemplates, TemplateError};
use flow_rollout::{prompt, question};

/// Checks the node's agent where it plays; `attempts` is true where its prompts tell of earlier attempts.
pub fn mistakes(node: &Node, pipeline: &Pipeline, agent: &Agent, actor: Actor, attempts: bool) -> Vec<Mistake> {
    let mut mistakes = critics::mistakes(node, pipeline, agent, actor);
    mistakes.extend(branches::mistakes(node, pipeline, agent));
    mistakes.extend(by_name::mistakes(node, pipeline, agent, actor));
    let at = |setting: &str, message: String| Mistake::in_node(node, &["with", "agent", setting], message);
    match prompt::tried(agent) {
        Err((setting, error)) => mistakes.push(template(node, &["agent", setting], &error)),
        Ok(prompt) => {
            mistakes.extend(reading::unplaced(node, agent, prompt.asks("memory"), attempts));
            let whole: Vec<&str> = agent.parts().filter(|part| part.carry).map(|part| part.tag.as_str()).collect();
            if !whole.is_empty() && !prompt.asks("memory") && !prompt.asks("carried") && agent.layout == PromptLayout::Rebuilt {
                let message = format!("`{}` carries `{}` on, and its prompt doesn't say it", node.id, whole.join("`, `"));
                mistakes.push(at("prompt", message).help("put `{{ carried.TAG }}` or `{{ memory }}` into the template"));
            }
        }
    }
    if agent.max_turns.is_none() {
        let message = format!("`{}` plays, and nothing says after how many turns an episode is cut", node.id);
        mistakes.push(at("max_turns", message).help("give the agent `max_turns`, such as `max_turns: 20`"));
    }
    if agent.decode == Decode::Constrained && agent.answer.iter().flatten().any(|part| part.tag != ACTION) {
        let message = "with `decode: constrained` an answer is an action and has no other part".to_owned();
        mistakes.push(at("answer", message).help("write `decode: free`, or leave `answer` out"));
    }
    let penalties = [
        ("repetition_penalty", agent.repetition_penalty != 1.0),
        ("presence_penalty", agent.presence_penalty != 0.0),
        ("frequency_penalty", agent.frequency_penalty != 0.0),
    ];
    if let Some((key, _)) = penalties.iter().find(|(_, set)| *set && agent.decode == Decode::Constrained) {
        let message = format!("with `decode: constrained` an answer is an action, and `{key}` has no meaning");
        mistakes.push(at(key, message).help("write `decode: free`, or leave it out"));
    }
    if agent.decode == Decode::Constrained && !agent.stop.is_empty() {
        let message = "with `decode: constrained` an answer is an action, and no text ends it before".to_owned();
        mistakes.push(at("stop", message).help("write `decode: free`, or leave `stop` out"));
    }
    if agent.answer.as_ref().is_some_and(|parts| !parts.is_empty() && !parts.iter().any(|part| part.tag == ACTION)) {
        let message = "no part of its answers is the action".to_owned();
        mistakes.push(at("answer", message).help(format!("add `{{ tag: {ACTION}, required: true }}`")));
    }
    if agent.answer.iter().flatten().any(|part| part.tag == ACTION && part.number) {
        let message = "an action goes to the environment, and no number is read from it".to_owned();
        mistakes.push(at("answer", message).help("leave `number` out of the part `action`"));
    }
    mistakes
}

/// Notes on tags that no prompt mentions, and on the cost of a conversation whose system message changes.
pub fn notes(node: &Node, agent: &Agent) -> Vec<String> {
    let undescribed = prompt::undescribed(agent).map(|tag| {
        format!("its answers need <{tag}>, which its prompt doesn't mention: put `{{{{ form }}}}` into the prompt, or train a policy that writes it already")
    });
    let moves = agent.memories().any(|memory| {
        let read = node.inputs.iter().any(|input| input.port == memory.memory);
        read && memory.place == PassageSlot::System && memory.at == RecallTime::Turn
    });
    let cost = "the system message may be another in each turn, so the conversation is read anew in each: `at: episode`, or `place: before`, reads it once";
    undescribed.into_iter().chain((moves && agent.layout == PromptLayout::Chat).then(|| cost.to_owned())).collect()
}

/// The words of an agent's own prompt templates and the tags of its answers, for a vocabulary.
pub fn words(node: &Node, agent: &Agent) -> Result<Vec<String>, Mistake> {
    let own = prompt::own_words(agent).map_err(|error| template(node, &["agent", "prompt"], &error))?;
    let marks = agent.parts().flat_map(|part| [tags::open(&part.tag), tags::close(&part.tag)]);
    Ok(own.into_iter().chain(marks).chain(flow_rollout::branches::words(agent)).collect())
}

/// The reflection prompt of an agent whose settings are at this path in the node's.
pub fn question(node: &Node, at: &[&str], agent: &Agent) -> Result<PromptTemplates, Mistake> {
    question::tried(agent).map_err(|(setting, error)| template(node, &[at, &["agent", setting]].concat(), &error))
}

fn template(node: &Node, at: &[&str], error: &TemplateError) -> Mistake {
    let setting = at.last().copied().unwrap_or_default();
    Mistake::in_node(node, &[&["with"], at].concat(), format!("{setting}: {error}")).help(error.help())
}
