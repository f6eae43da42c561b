//! Checks models that learn here while servers generate for them: they need an adapter, which is all that servers are
//! sent, and log-probabilities that the update can use.

use super::upstream::{named, trains_on};
use crate::ops::is;
use flow_model::ServeSettings;
use flow_pipeline::{Mistake, Node, Pipeline, Role};
use serde::Deserialize;
use serde_json::Value;

/// Models that servers can't generate for, and nodes whose rows would get log-probabilities of another distribution
/// than the update computes.
pub fn mistakes(pipeline: &Pipeline) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (name, model) in pipeline.models.iter().filter(|(_, model)| model["serve"].is_object()) {
        // What isn't in its form is reported as that.
        let Ok(serve) = ServeSettings::deserialize(&model["serve"]) else { continue };
        if let Some((message, help)) = fault(name, model, &serve) {
            mistakes.push(Mistake::in_model(name, "serve", message).help(help));
        }
        let asks = |node: &&Node| node.model() == Some(name) || named(node).any(|other| other == name);
        mistakes.extend(pipeline.all().filter(asks).filter_map(|node| unlike(pipeline, node, name, &serve)));
    }
    mistakes
}

/// Why these servers can't generate for that model, and what helps.
fn fault(name: &str, model: &Value, serve: &ServeSettings) -> Option<(String, String)> {
    let two = "`serve: { vllm: [\"http://10.0.0.1:8000\", \"http://10.0.0.2:8000\"] }`".to_owned();
    let Some((addresses, sglang)) = serve.addresses() else {
        return Some((
            format!("the servers of `{name}` are named once: by `vllm`, by `sglang`, by `tinker`, or one of them by `openai`"),
            two,
        ));
    };
    let twice = addresses.iter().enumerate().find(|(i, address)| addresses[..*i].contains(address));
    if let Some((_, address)) = twice {
        return Some((format!("{address} is named twice"), "name each server once".into()));
    }
    let plain = |url: &str| url.trim_end_matches('/').to_owned();
    if serve.tinker.is_some() && serve.tinker.as_deref().map(plain) != model["train"]["tinker"].as_str().map(plain) {
        let message = format!("the weights of `{name}` lie on the server that it learns on, and no other one generates by them");
        return Some((message, "name the same server in `train: { tinker: ... }`, or give `serve` a vLLM".into()));
    }
    if serve.tinker.is_some() && serve.tempered {
        return Some(("`tempered` is of vLLM: such a server's log-probabilities are at temperature 1".into(), "leave it out".into()));
    }
    if sglang && serve.tempered {
        return Some(("`tempered` is of vLLM: SGLang's log-probabilities are at the sampling temperature".into(), "leave it out".into()));
    }
    if serve.sleeps() && model["train"]["tinker"].is_string() {
        return Some((format!("`{name}` learns on another server, so its vLLM has no reason to sleep"), "leave `sleep` out".into()));
    }
    if !serve.receivers.is_empty() && serve.receivers.len() != addresses.len() {
        let (receivers, servers) = (serve.receivers.len(), addresses.len());
        let message = format!("`{name}` names {receivers} receivers for {servers} servers");
        return Some((message, "name one for each server, in the same order".into()));
    }
    if model["head"] == "value" {
        let message =
            format!("`{name}` is a critic: it writes nothing, and servers load no adapter with a head of its own (`modules_to_save`)");
        return Some((message, "leave `serve` out".into()));
    }
    None
}

/// That libtorch learns while servers sleep.
pub fn note(model: &str, pipeline: &Pipeline) -> Option<String> {
    let model = pipeline.models.get(model).filter(|model| !model["train"].is_object())?;
    let sleeps = ServeSettings::deserialize(&model["serve"]).is_ok_and(|serve| serve.sleeps());
    sleeps.then(|| {
        "its servers sleep during an update, but libtorch keeps the memory that it has taken of a GPU: with `train: { torchrun: 1 }` the trainer \
         gives it back"
            .into()
    })
}

/// A `node` whose servers return log-probabilities of another distribution than the update computes.
fn unlike(pipeline: &Pipeline, node: &Node, model: &str, serve: &ServeSettings) -> Option<Mistake> {
    let with = node.with.raw();
    let agent = &with["agent"];
    // Where actions are ranked the draw is made here; an expert's rows have no draw.
    let written = is(node, Role::Reflects) || is(node, Role::Plays) && agent["decode"] == "free";
    if !written || with["actor"] == "expert" {
        return None;
    }
    let set = |key: &&str| {
        let neutral = if ["top_p", "repetition_penalty"].contains(key) { 1.0 } else { 0.0 };
        agent[*key].as_f64().is_some_and(|value| value != neutral)
    };
    let changes = |keys: &[&'static str], who: &str| {
        let key = keys.iter().copied().find(set)?;
        let message = format!("{who} returns log-probabilities after `{key}`, and an update computes them without it: `{}`", node.id);
        Some(Mistake::in_node(node, &["with", "agent", key], message).help("leave it out"))
    };
    const PENALTIES: [&str; 3] = ["repetition_penalty", "presence_penalty", "frequency_penalty"];
    if !serve.sglang.is_empty() {
        return changes(&PENALTIES, "SGLang");
    }
    if serve.tempered {
        return changes(&[&["top_p", "top_k", "min_p"], &PENALTIES[..]].concat(), "with `tempered` vLLM");
    }
    let temperature = with["temperature"].as_f64().or(agent["temperature"].as_f64())?;
    if temperature == 1.0 || temperature == 0.0 && !trains_on(pipeline, node) {
        return None;
    }
    let message = format!(
        "a server generates for `{model}` and returns log-probabilities at temperature 1, and `{}` samples at {temperature}",
        node.id
    );
    let help = "sample at 1, or start vLLM with `--logprobs-mode processed_logprobs` and write `tempered: true` into `serve`";
    Some(Mistake::in_node(node, &["with", "temperature"], message).help(help))
}
