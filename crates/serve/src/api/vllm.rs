//! vLLM's API: `completions`, where prompts are tokens and answers come back as the tokens that were sampled, and
//! adapters that are loaded at run time.

use super::{logprobs, Call, ServingApi, WrittenAnswer};
use crate::logprob;
use crate::server::ServerError;
use flow_model::{Request, Sampling};
use serde_json::{json, Value};
use std::path::Path;

pub struct Vllm;

impl ServingApi for Vllm {
    fn base(&self, address: &str) -> String {
        let address = address.trim_end_matches('/');
        let bare = !address.trim_start_matches("http://").contains('/');
        if bare {
            format!("{address}/v1")
        } else {
            address.into()
        }
    }

    /// With VLLM_SERVER_DEV_MODE=1. Cached prompts belong to the old weights.
    fn replace(&self, folder: &Path) -> Vec<Call> {
        let reload = json!({ "method": "reload_weights", "kwargs": { "weights_path": folder, "is_checkpoint_format": true } });
        vec![("/collective_rpc", reload), ("/reset_prefix_cache", json!({}))]
    }

    fn write(&self, adapter: Option<&str>, request: &Request, sampling: &Sampling, ends: &[u32]) -> Call {
        let mut body = json!({
            "model": adapter,
            "prompt": request.prompt,
            "max_tokens": request.longest(sampling),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            // Below 1 every server reads it as all of them.
            "top_k": if sampling.top_k > 0 { json!(sampling.top_k) } else { json!(-1) },
            "min_p": sampling.min_p,
            // Also where they are neutral, since the model's `generation_config.json` would set them.
            "repetition_penalty": sampling.repetition_penalty,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            // As large as every server reads it.
            "seed": request.seed >> 33,
            "stop_token_ids": ends,
            "logprobs": 1,
            "return_token_ids": true,
            "return_tokens_as_token_ids": true,
        });
        if !sampling.stop.is_empty() {
            body["stop"] = json!(sampling.stop);
            body["include_stop_str_in_output"] = true.into();
        }
        ("completions", body)
    }

    fn written(&self, response: &Value) -> Result<WrittenAnswer, ServerError> {
        let choice = response["choices"].get(0).ok_or_else(|| ServerError::malformed("a reply without `choices`"))?;
        let record = &choice["logprobs"];
        let id = |token: &Value| token.as_u64().or_else(|| token.as_str()?.strip_prefix("token_id:")?.parse().ok());
        let ids = |tokens: &Value| tokens.as_array()?.iter().map(id).collect::<Option<Vec<u64>>>();
        let Some(tokens) = ids(&choice["token_ids"]).or_else(|| ids(&record["tokens"])) else {
            return Err(ServerError::Refused("it doesn't say which tokens it wrote (`return_token_ids`), as vLLM does".into()));
        };
        let logprobs = logprobs(record["token_logprobs"].as_array().into_iter().flatten());
        let stopped = choice["stop_reason"].is_string();
        Ok(WrittenAnswer { tokens, logprobs, cut: choice["finish_reason"] == "length", stopped })
    }

    fn weigh(&self, adapter: Option<&str>, prompt: &[u32]) -> Call {
        ("completions", json!({ "model": adapter, "prompt": prompt, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 1 }))
    }

    fn weighed(&self, response: &Value, prompt: &[u32], from: usize) -> Result<Vec<f32>, ServerError> {
        let Some(positions) = response["choices"][0]["prompt_logprobs"].as_array() else {
            return Err(ServerError::Refused("it doesn't say how likely a prompt is (`prompt_logprobs`), as vLLM does".into()));
        };
        let own = positions.iter().zip(prompt).skip(from).map(|(position, token)| logprob(&position[token.to_string()]["logprob"]));
        match own.collect::<Option<Vec<f32>>>() {
            Some(logprobs) if logprobs.len() + from == prompt.len() => Ok(logprobs),
            _ => Err(ServerError::malformed("a reply without a log-probability for each token of its prompt")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_leave_the_path_out() {
        assert_eq!(Vllm.base("http://10.0.0.1:8000"), "http://10.0.0.1:8000/v1");
        assert_eq!(Vllm.base("http://10.0.0.1:8000/v1/"), "http://10.0.0.1:8000/v1");
        assert_eq!(Vllm.base("http://proxy/a/v1"), "http://proxy/a/v1");
    }

    /// Two tokens, the second of which completes the text that ends the answer: it is whole without a closing token.
    #[test]
    fn an_answer_that_a_text_ended_is_whole() {
        let answer = |reason: Value, finish: &str| {
            let record = json!({ "tokens": ["token_id:5", "token_id:6"], "token_logprobs": [-0.5, -1.0] });
            let choice = json!({ "finish_reason": finish, "stop_reason": reason, "token_ids": [5, 6], "logprobs": record });
            Vllm.written(&json!({ "choices": [choice] })).ok()?.reply(10, &[2]).ok()
        };
        assert_eq!(answer(json!("</a>"), "stop").map(|reply| (reply.tokens, reply.logprobs)), Some((vec![5, 6], vec![-0.5, -1.0])));
        assert!(answer(Value::Null, "length").is_some());
        assert!(answer(Value::Null, "stop").is_none(), "nothing has ended it");
        assert!(Vllm
            .written(&json!({ "choices": [{ "token_ids": [50], "logprobs": { "token_logprobs": [-1.0] } }] }))
            .is_ok_and(|answer| answer.reply(10, &[2]).is_err()));
    }
}
