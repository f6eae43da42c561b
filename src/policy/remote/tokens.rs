//! Answers in tokens, by `completions` as vLLM has it: the prompt goes there as the tokens that it is, and the answer comes back as those that
//! were sampled, each with its log-probability, so that training uses exactly the tokens that were sampled.
//!
//! Choices are walked down as they are here: `prompt_logprobs` says of each choice behind the prompt how likely its tokens are, and at each
//! fork one of the tokens that may follow is drawn by them, at the temperature that is asked for.

use super::logprob;
use super::server::{Server, ServerError};
use crate::policy::choices::ChoiceConstraint;
use crate::policy::generate::draw;
use crate::policy::{PolicyError, Reply, Request, RowFault, Sampling};
use crate::seed::{mix, Random};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The client of one adapter's `completions`.
pub struct CompletionsClient<'a> {
    /// What the server calls the weights.
    pub adapter: &'a str,
    /// The server.
    pub server: &'a Server,
    /// The tokens that close an answer.
    pub ends: &'a [u32],
    /// How many tokens the model knows.
    pub vocab: usize,
}

/// A prompt, and a choice behind it.
type Pair<'a> = (&'a [u32], &'a [u32]);

impl CompletionsClient<'_> {
    /// What is written freely behind a prompt.
    pub fn write(&self, request: &Request, sampling: &Sampling) -> Result<Reply, ServerError> {
        let body = json!({
            "model": self.adapter,
            "prompt": request.prompt,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            // Below 1 every server reads it as all of them.
            "top_k": if sampling.top_k > 0 { json!(sampling.top_k) } else { json!(-1) },
            // Defaults from the model's `generation_config.json`, switched off.
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            // As large as every server reads it.
            "seed": request.seed >> 33,
            "stop_token_ids": self.ends,
            "logprobs": 1,
            "return_token_ids": true,
            "return_tokens_as_token_ids": true,
        });
        self.server.ask("completions", &body, |response| self.written(response))
    }

    fn written(&self, response: &Value) -> Result<Reply, ServerError> {
        let choice = response["choices"].get(0).ok_or_else(|| ServerError::malformed("a reply without `choices`"))?;
        let record = &choice["logprobs"];
        let id = |token: &Value| token.as_u64().or_else(|| token.as_str()?.strip_prefix("token_id:")?.parse().ok());
        let ids = |tokens: &Value| tokens.as_array()?.iter().map(id).collect::<Option<Vec<u64>>>();
        let Some(ids) = ids(&choice["token_ids"]).or_else(|| ids(&record["tokens"])) else {
            return Err(ServerError::Refused("it doesn't say which tokens it wrote (`return_token_ids`), as vLLM does".into()));
        };
        let known = |&id: &u64| u32::try_from(id).ok().filter(|&token| (token as usize) < self.vocab);
        let Some(tokens) = ids.iter().map(known).collect::<Option<Vec<u32>>>() else {
            return Err(ServerError::malformed("a reply with tokens that the model doesn't have"));
        };
        let logprobs = record["token_logprobs"].as_array().map(|record| record.iter().map(logprob).collect::<Option<Vec<f32>>>());
        let Some(Some(logprobs)) = logprobs.filter(|logprobs| logprobs.as_ref().is_some_and(|l| l.len() == tokens.len())) else {
            return Err(ServerError::malformed("a reply without a log-probability for each of its tokens"));
        };
        let closed = tokens.last().map(|token| self.ends.contains(token));
        if closed.is_none() || choice["finish_reason"] != "length" && closed == Some(false) {
            return Err(ServerError::malformed("a reply that ends without the token that closes it"));
        }
        Ok(Reply { tokens, logprobs })
    }

    /// One of its choices for each request. Equal pairs are sent once.
    ///
    /// # Errors
    /// If the server is gone, or can't say how likely a prompt is.
    pub fn rank(&self, requests: &[&Request], sampling: &Sampling) -> Result<Vec<Result<Reply, RowFault>>, PolicyError> {
        let queries: BTreeSet<Pair> = requests.iter().flat_map(|request| pairs(request)).collect();
        let queries: Vec<Pair> = queries.into_iter().collect();
        let results = self.server.each(&queries, |(prompt, choice)| self.likelihoods(prompt, choice))?;
        let known: BTreeMap<Pair, Result<Vec<f32>, RowFault>> = queries.into_iter().zip(results).collect();
        Ok(requests.iter().map(|request| self.choose(request, &known, sampling)).collect())
    }

    /// The log-probability of each token of `choice` behind `prompt`.
    fn likelihoods(&self, prompt: &[u32], choice: &[u32]) -> Result<Vec<f32>, ServerError> {
        let body = json!({
            "model": self.adapter,
            "prompt": ([prompt, choice].concat()),
            "max_tokens": 1,
            "temperature": 0,
            "prompt_logprobs": 1,
        });
        self.server.ask("completions", &body, |response| {
            let Some(positions) = response["choices"][0]["prompt_logprobs"].as_array() else {
                return Err(ServerError::Refused("it doesn't say how likely a prompt is (`prompt_logprobs`), as vLLM does".into()));
            };
            let positions = positions.get(prompt.len()..prompt.len() + choice.len()).unwrap_or_default();
            let own = positions.iter().zip(choice).map(|(position, token)| logprob(&position[token.to_string()]["logprob"]));
            match own.collect::<Option<Vec<f32>>>() {
                Some(logprobs) if logprobs.len() == choice.len() => Ok(logprobs),
                _ => Err(ServerError::malformed("a reply without a log-probability for each token of its prompt")),
            }
        })
    }

    /// Walks down the choices of a request. A token that nothing else could stand for is certain.
    fn choose(
        &self,
        request: &Request,
        known: &BTreeMap<Pair, Result<Vec<f32>, RowFault>>,
        sampling: &Sampling,
    ) -> Result<Reply, RowFault> {
        let mut constraint = ChoiceConstraint::new(&request.choices, self.ends)?;
        let mut reply = Reply::default();
        // By what was written so far: how likely each token is that may follow.
        let mut after: BTreeMap<Vec<u32>, f32> = BTreeMap::new();
        for choice in &request.choices {
            let Some(logprobs) = known.get(&(request.prompt.as_slice(), choice.as_slice())) else { continue };
            let logprobs = logprobs.clone()?;
            after.extend((0..choice.len()).map(|i| (choice[..=i].to_vec(), logprobs[i])));
        }
        while reply.tokens.last().is_none_or(|token| !self.ends.contains(token)) {
            let (token, logprob) = match constraint.forced() {
                Some(token) => (token, 0.0),
                None => {
                    let allowed = constraint.allowed();
                    let likely = |token: &u32| after.get(&[&reply.tokens[..], &[*token]].concat()).copied().unwrap_or(f32::MIN);
                    let likely: Vec<f32> = allowed.iter().map(likely).collect();
                    let unit = Random::new(mix(request.seed, reply.tokens.len() as u64)).unit();
                    let (drawn, logprob) = draw(&likely, None, sampling, unit);
                    (allowed[drawn as usize], logprob)
                }
            };
            constraint.push(token);
            reply.tokens.push(token);
            reply.logprobs.push(logprob);
        }
        Ok(reply)
    }
}

/// The prompt and choice pairs to score for a request: none where there is nothing to choose.
fn pairs(request: &Request) -> Vec<Pair<'_>> {
    let choices: BTreeSet<&[u32]> = request.choices.iter().map(Vec::as_slice).collect();
    let choices = if choices.len() > 1 { choices } else { BTreeSet::new() };
    choices.into_iter().map(|choice| (request.prompt.as_slice(), choice)).collect()
}
