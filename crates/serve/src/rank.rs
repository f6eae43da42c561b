//! Choices by their likelihood, by `completions` with `echo`: the server reads the prompt's text with a choice behind
//! it, writes a token (some write without an end when asked for none), and says how likely each token of all that was.
//!
//! A choice's score is the sum over its tokens, those of a line break that closes it with them: else the beginning of
//! another choice would always be likelier than that. A choice is drawn with the probability exp(score / temperature)
//! over the sum of all.

use super::logprob;
use super::remote::{Remote, RunningModel};
use super::server::ServerError;
use flow_core::seed::{mix, Random};
use flow_model::draw::draw;
use flow_model::{ModelFault, Reply, Request, Result, RowFault, Sampling};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

/// Closes a choice.
const CLOSED: &str = "\n";

/// One reply a request, each one of its choices. Equal prompts and choices are sent once.
pub fn answer(remote: &Remote, requests: &[&Request], sampling: &Sampling) -> Result<Vec<Result<Reply, RowFault>>> {
    let tokenizer = remote.tokenizer();
    let queries: Vec<(String, Vec<&Vec<u32>>)> = requests
        .iter()
        .map(|request| {
            let choices: BTreeSet<&Vec<u32>> = request.choices.iter().collect();
            (tokenizer.decode(&request.prompt), choices.into_iter().collect())
        })
        .collect();
    // Where there is nothing to choose, nothing is sent.
    let pairs = queries.iter().filter(|(_, choices)| choices.len() > 1);
    let pairs: BTreeSet<(String, String)> =
        pairs.flat_map(|(prompt, choices)| choices.iter().map(|choice| (prompt.clone(), tokenizer.decode(choice)))).collect();
    let pairs: Vec<(String, String)> = pairs.into_iter().collect();
    let scores = remote.each(pairs.clone(), |running, (prompt, choice): &(String, String)| score(running, prompt, choice))?;
    let scores: BTreeMap<(String, String), Result<f64, RowFault>> = pairs.into_iter().zip(scores).collect();
    let reply = |(request, (prompt, choices)): (&&Request, &(String, Vec<&Vec<u32>>))| {
        let score = |choice: &&Vec<u32>| scores.get(&(prompt.clone(), tokenizer.decode(choice))).cloned().unwrap_or(Ok(0.0));
        let scores = choices.iter().map(|choice| score(choice).map(|score| score as f32)).collect::<Result<Vec<f32>, RowFault>>()?;
        let (drawn, logprob) = draw(&scores, None, sampling, Random::new(mix(request.seed, 0)).unit());
        let tokens = choices[drawn as usize].clone();
        let mut logprobs = vec![0.0; tokens.len()];
        if let Some(first) = logprobs.first_mut() {
            *first = logprob;
        }
        Ok(Reply { tokens, logprobs })
    };
    Ok(requests.iter().zip(&queries).map(reply).collect())
}

/// Before choices are ranked for the first time: whether the server can.
pub fn can_rank(running: &RunningModel) -> Result<()> {
    if running.ranks.load(Relaxed) {
        return Ok(());
    }
    match score(running, "1 2 3", " 4") {
        Ok(_) => {
            running.ranks.store(true, Relaxed);
            Ok(())
        }
        Err(ServerError::Refused(what) | ServerError::Gone(what)) => Err(running.server.fault(ModelFault::Server { what })),
        Err(ServerError::Row(fault)) => Err(running.server.fault(ModelFault::CantRank { what: fault.to_string() })),
    }
}

/// The log-probability of `choice`, closed, behind `prompt`.
pub fn score(running: &RunningModel, prompt: &str, choice: &str) -> Result<f64, ServerError> {
    let body = json!({
        "model": running.served,
        "prompt": format!("{prompt}{choice}{CLOSED}"),
        "max_tokens": 1,
        "temperature": 0,
        "echo": true,
        "logprobs": 1,
    });
    running.server.ask("completions", &body, |response| read(response, &format!("{choice}{CLOSED}")))
}

/// The sum over the tokens that `closed` is made of: the last ones of the prompt that is echoed.
fn read(response: &Value, closed: &str) -> Result<f64, ServerError> {
    let echo = &response["choices"][0]["logprobs"];
    let (Some(tokens), Some(logprobs)) = (echo["tokens"].as_array(), echo["token_logprobs"].as_array()) else {
        return Err(ServerError::malformed("a reply without `choices[0].logprobs` for the text that it was to echo"));
    };
    let tokens: Vec<&str> = tokens.iter().map(|token| token.as_str().unwrap_or_default()).collect();
    // Behind the prompt stands the token that was written, or nothing.
    let spells = |end: &usize| tokens[..*end].concat().ends_with(closed);
    let ends = response["usage"]["prompt_tokens"].as_u64().map(|end| end as usize).filter(|end| *end <= tokens.len());
    let ends = ends.into_iter().chain([tokens.len().saturating_sub(1), tokens.len()]);
    let Some(end) = ends.into_iter().find(spells) else {
        return Err(ServerError::malformed("a reply whose echo is not what it was to read"));
    };
    let (mut begin, mut left) = (end, closed.len());
    while left > 0 && begin > 0 {
        begin -= 1;
        left = left.saturating_sub(tokens[begin].len());
    }
    let scores =
        logprobs.get(begin..end).unwrap_or_default().iter().map(|value| logprob(value).map(f64::from)).collect::<Option<Vec<f64>>>();
    match scores {
        Some(scores) if scores.len() == end - begin => Ok(scores.iter().sum()),
        _ => Err(ServerError::malformed("a reply without a log-probability for each token of its echo")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(tokens: &[&str], logprobs: Value, prompt_tokens: Option<u64>) -> Value {
        json!({ "choices": [{ "logprobs": { "tokens": tokens, "token_logprobs": logprobs } }], "usage": { "prompt_tokens": prompt_tokens } })
    }

    #[test]
    fn a_score_is_the_sum_over_what_was_asked_and_nothing_else() {
        // A token of the prompt that reaches into the choice counts; the one that was written doesn't.
        let tokens = ["<s>", "Row 1", ": (", "1, 2", ")\n", " and"];
        let logprobs = json!([null, -4.0, -1.0, -0.5, -0.25, -8.0]);
        for prompt_tokens in [Some(5), None] {
            let response = response(&tokens, logprobs.clone(), prompt_tokens);
            assert_eq!(read(&response, "(1, 2)\n").unwrap(), -1.75);
            assert_eq!(read(&response, "1, 2)\n").unwrap(), -0.75);
        }
        let quiet = response(&tokens[..5], json!([null, -4.0, -1.0, -0.5, -0.25]), None);
        assert_eq!(read(&quiet, "2)\n").unwrap(), -0.75, "where nothing was written");
        let unknown = response(&tokens, json!([null, -4.0, -1.0, null, -0.25, -8.0]), None);
        for (response, closed) in [(&unknown, "1, 2)\n"), (&quiet, "up\n"), (&json!({ "choices": [] }), "up\n"), (&json!([]), "up\n")] {
            assert!(read(response, closed).is_err(), "{response}");
        }
    }
}
