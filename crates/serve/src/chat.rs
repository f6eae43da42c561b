//! Free answers, by `chat/completions`.

use super::logprob;
use super::remote::RunningModel;
use super::server::ServerError;
use flow_model::{Reply, Request, RowFault, Sampling, Unanswered};
use serde_json::{json, Value};
use std::sync::atomic::Ordering::Relaxed;

/// The model's answer to a conversation. A setting that the server would else choose itself is sent as it is meant;
/// where OpenAI's own API has no such setting and the server refuses it, only what changes something is sent.
pub fn answer(running: &RunningModel, request: &Request, sampling: &Sampling) -> Result<Reply, ServerError> {
    let mut body = json!({
        "model": running.served,
        "messages": running.tokenizer.messages(&request.prompt),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "max_tokens": request.longest(sampling),
        // As large as every server reads it.
        "seed": request.seed >> 33,
        "logprobs": true,
    });
    if !sampling.stop.is_empty() {
        body["stop"] = json!(sampling.stop);
    }
    let ask = |strict: bool| {
        let mut body = body.clone();
        for Extension { name, value, .. } in extensions(running, sampling).into_iter().filter(|extension| !strict || extension.needed) {
            body[name] = value;
        }
        running.server.ask("chat/completions", &body, |response| read(running, response))
    };
    let strict = running.strict.load(Relaxed);
    match ask(strict) {
        Err(ServerError::Row(RowFault::Unanswered { cause: Unanswered::Refused, what })) if !strict && names_a_setting(&what) => {
            running.strict.store(true, Relaxed);
            ask(true)
        }
        answer => answer,
    }
}

/// A setting beyond OpenAI's API.
struct Extension {
    name: &'static str,
    value: Value,
    /// Whether it asks for something, and doesn't just switch a default off.
    needed: bool,
}

/// The settings beyond OpenAI's API. The servers' own defaults, such as those of llama.cpp and of a model's
/// `generation_config.json`, are switched off.
fn extensions(running: &RunningModel, sampling: &Sampling) -> Vec<Extension> {
    let top_k = if sampling.top_k > 0 { json!(sampling.top_k) } else { json!(-1) };
    let mut all = vec![
        ("top_k", top_k, sampling.top_k > 0),
        ("min_p", json!(sampling.min_p), sampling.min_p > 0.0),
        ("repetition_penalty", json!(sampling.repetition_penalty), sampling.repetition_penalty != 1.0),
        // As llama.cpp calls it.
        ("repeat_penalty", json!(sampling.repetition_penalty), false),
    ];
    if !sampling.stop.is_empty() {
        // The text that ends an answer is a part of it, as with a model here.
        all.push(("include_stop_str_in_output", json!(true), false));
    }
    if !running.template.is_empty() {
        all.push(("chat_template_kwargs", json!(running.template), true));
    }
    all.into_iter().map(|(name, value, needed)| Extension { name, value, needed }).collect()
}

/// Whether a refusal is about a setting that the server doesn't know.
fn names_a_setting(refusal: &str) -> bool {
    const NAMES: [&str; 5] = ["top_k", "min_p", "repetition_penalty", "repeat_penalty", "include_stop_str_in_output"];
    ["HTTP 400", "HTTP 422"].iter().any(|status| refusal.contains(status)) && NAMES.iter().any(|name| refusal.contains(name))
}

/// The reply: the bytes of the text. Those of a token of the server's have its log-probability on the first, and the
/// others are certain, so that the sum is that of the text. No server reports the end token's log-probability; it
/// counts as certain.
fn read(running: &RunningModel, response: &Value) -> Result<Reply, ServerError> {
    let choice = &response["choices"][0];
    let Some(text) = choice["message"]["content"].as_str() else {
        return Err(ServerError::malformed("a reply without `choices[0].message.content`"));
    };
    let Some(parts) = choice["logprobs"]["content"].as_array() else {
        return Err(ServerError::malformed("a reply without the log-probabilities of its tokens (`choices[0].logprobs.content`)"));
    };
    let mut tokens = running.tokenizer.encode(text);
    let mut logprobs = vec![0.0; tokens.len()];
    let mut at = 0;
    for part in parts {
        let malformed = || ServerError::malformed("a reply with an invalid log-probability");
        let logprob = logprob(&part["logprob"]).ok_or_else(malformed)?;
        if let Some(place) = logprobs.get_mut(at.min(text.len().saturating_sub(1))) {
            *place += logprob;
        }
        at += part["bytes"].as_array().map_or_else(|| part["token"].as_str().unwrap_or_default().len(), Vec::len);
    }
    if choice["finish_reason"] != "length" || tokens.is_empty() {
        tokens.push(running.tokenizer.end());
        logprobs.push(0.0);
    }
    Ok(Reply { tokens, logprobs })
}
