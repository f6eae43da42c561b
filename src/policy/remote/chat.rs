//! Free answers, by `chat/completions`.

use super::server::ServerError;
use super::{logprob, Remote};
use crate::policy::{Reply, Request, Sampling};
use serde_json::{json, Value};

/// The model's answer to a conversation.
pub fn answer(remote: &Remote, request: &Request, sampling: &Sampling) -> Result<Reply, ServerError> {
    let mut body = json!({
        "model": remote.served,
        "messages": remote.tokenizer.messages(&request.prompt),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        // As large as every server reads it.
        "seed": request.seed >> 33,
        "logprobs": true,
    });
    if sampling.top_k > 0 {
        body["top_k"] = json!(sampling.top_k);
    }
    remote.server.ask("chat/completions", &body, |response| read(remote, response))
}

/// The reply: the bytes of the text. Those of a token of the server's have its log-probability on the first, and the others are certain, so
/// that the sum is that of the text. No server reports the end token's log-probability; it counts as certain.
fn read(remote: &Remote, response: &Value) -> Result<Reply, ServerError> {
    let choice = &response["choices"][0];
    let Some(text) = choice["message"]["content"].as_str() else {
        return Err(ServerError::malformed("a reply without `choices[0].message.content`"));
    };
    let Some(parts) = choice["logprobs"]["content"].as_array() else {
        return Err(ServerError::malformed("a reply without the log-probabilities of its tokens (`choices[0].logprobs.content`)"));
    };
    let mut tokens = remote.tokenizer.encode(text);
    let mut logprobs = vec![0.0; tokens.len()];
    let mut at = 0;
    for part in parts {
        let none = || ServerError::malformed("a reply with a log-probability that is none");
        let told = logprob(&part["logprob"]).ok_or_else(none)?;
        if let Some(place) = logprobs.get_mut(at.min(text.len().saturating_sub(1))) {
            *place += told;
        }
        at += part["bytes"].as_array().map_or_else(|| part["token"].as_str().unwrap_or_default().len(), Vec::len);
    }
    if choice["finish_reason"] != "length" || tokens.is_empty() {
        tokens.push(remote.tokenizer.end());
        logprobs.push(0.0);
    }
    Ok(Reply { tokens, logprobs })
}
