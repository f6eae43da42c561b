//! SGLang's own API: `/generate`, which takes tokens and says which were sampled and how likely they were at the
//! sampling temperature.

use super::{logprobs, Call, ServingApi, WrittenAnswer};
use crate::server::ServerError;
use flow_model::{Request, Sampling};
use serde_json::{json, Value};
use std::path::Path;

pub struct Sglang;

impl ServingApi for Sglang {
    fn base(&self, address: &str) -> String {
        address.trim_end_matches('/').trim_end_matches("/v1").into()
    }

    fn replace(&self, folder: &Path) -> Vec<Call> {
        vec![("/update_weights_from_disk", json!({ "model_path": folder, "flush_cache": true }))]
    }

    fn write(&self, adapter: Option<&str>, request: &Request, sampling: &Sampling, ends: &[u32]) -> Call {
        let mut parameters = json!({
            "max_new_tokens": request.longest(sampling),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": if sampling.top_k > 0 { json!(sampling.top_k) } else { json!(-1) },
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "sampling_seed": request.seed >> 33,
            "stop_token_ids": ends,
        });
        if !sampling.stop.is_empty() {
            parameters["stop"] = json!(sampling.stop);
            parameters["no_stop_trim"] = true.into();
        }
        ("generate", json!({ "input_ids": request.prompt, "lora_path": adapter, "sampling_params": parameters, "return_logprob": true }))
    }

    fn written(&self, response: &Value) -> Result<WrittenAnswer, ServerError> {
        let about = &response["meta_info"];
        let Some(record) = about["output_token_logprobs"].as_array() else {
            return Err(ServerError::Refused("it doesn't say which tokens it wrote (`output_token_logprobs`), as SGLang does".into()));
        };
        let Some(tokens) = record.iter().map(|token| token[1].as_u64()).collect::<Option<Vec<u64>>>() else {
            return Err(ServerError::malformed("a reply with invalid tokens"));
        };
        let reason = &about["finish_reason"];
        Ok(WrittenAnswer {
            tokens,
            logprobs: logprobs(record.iter().map(|token| &token[0])),
            cut: reason["type"] == "length",
            stopped: reason["type"] == "stop" && reason["matched"].is_string(),
        })
    }

    fn weigh(&self, adapter: Option<&str>, prompt: &[u32]) -> Call {
        let parameters = json!({ "max_new_tokens": 1, "temperature": 1.0 });
        let logprobs = json!({ "input_ids": prompt, "lora_path": adapter, "sampling_params": parameters, "return_logprob": true, "logprob_start_len": 0 });
        ("generate", logprobs)
    }

    fn weighed(&self, response: &Value, prompt: &[u32], from: usize) -> Result<Vec<f32>, ServerError> {
        let Some(record) = response["meta_info"]["input_token_logprobs"].as_array() else {
            return Err(ServerError::Refused("it doesn't say how likely a prompt is (`input_token_logprobs`), as SGLang does".into()));
        };
        let same = record.len() == prompt.len() && record.iter().zip(prompt).all(|(item, token)| item[1] == *token);
        match logprobs(record.iter().skip(from).map(|item| &item[0])).into_iter().collect::<Option<Vec<f32>>>() {
            Some(logprobs) if same => Ok(logprobs),
            _ => Err(ServerError::malformed("a reply without a log-probability for each token of its prompt")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the form of SGLang's documentation: a log-probability, a token and its text, or nothing.
    #[test]
    fn answers_and_prompts_are_read_as_documented() {
        let finish = json!({ "type": "stop", "matched": 2 });
        let about = json!({ "output_token_logprobs": [[-0.5, 5, null], [-0.25, 2, null]], "finish_reason": finish });
        let reply = Sglang.written(&json!({ "text": "x", "meta_info": about })).ok().unwrap().reply(10, &[2]).ok().unwrap();
        assert_eq!((reply.tokens, reply.logprobs), (vec![5, 2], vec![-0.5, -0.25]));
        let response = json!({ "meta_info": { "input_token_logprobs": [[null, 7, null], [-1.5, 8, null], [-2.0, 9, null]] } });
        assert_eq!(Sglang.weighed(&response, &[7, 8, 9], 1).ok(), Some(vec![-1.5, -2.0]));
        assert!(Sglang.weighed(&response, &[7, 8, 4], 1).is_err(), "another prompt");
    }

    #[test]
    fn what_is_asked_has_neutral_values() {
        let request = Request { prompt: vec![7], seed: 5 << 33, ..Request::default() };
        let (path, body) = Sglang.write(Some("a-1"), &request, &Sampling::default(), &[2]);
        let parameters = &body["sampling_params"];
        assert_eq!((path, &body["lora_path"], &parameters["top_k"]), ("generate", &json!("a-1"), &json!(-1)));
        assert_eq!((&parameters["repetition_penalty"], &parameters["sampling_seed"]), (&json!(1.0), &json!(5)));
    }
}
