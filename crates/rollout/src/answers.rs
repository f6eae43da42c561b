//! The policy's answers to many requests; a request that can't be answered fails alone.

use super::error::RolloutError;
use flow_env::{Cause, Fault};
use flow_model::{GenerationOutput, PolicyError, Reply, Request, RowFault, Sampling, Tally, Unanswered};
use flow_policy::Policy;
use std::collections::BTreeMap;

/// The answers of `model` with the weights of `version` to `requests`; token counts are added to `tokens`. A request
/// that can't be read, or that a server leaves unanswered, fails alone; an error is one of the policy's.
pub fn answers(
    policy: &Policy,
    model: &str,
    version: u64,
    requests: &[&Request],
    sampling: &Sampling,
    tokens: &mut Tally,
) -> Result<Vec<Result<Reply, Fault>>, RolloutError> {
    answers_by(requests, tokens, |_, batch| policy.answer(model, version, batch, sampling.clone()))
}

/// The same with any function that answers some of the requests, given their indices.
pub fn answers_by(
    requests: &[&Request],
    tokens: &mut Tally,
    answer: impl Fn(&[usize], Vec<Request>) -> Result<GenerationOutput, PolicyError>,
) -> Result<Vec<Result<Reply, Fault>>, RolloutError> {
    let mut all: BTreeMap<usize, Result<Reply, Fault>> = BTreeMap::new();
    let mut which: Vec<usize> = (0..requests.len()).collect();
    while !which.is_empty() {
        let batch = which.iter().map(|&i| requests[i].clone()).collect();
        match answer(&which, batch) {
            Err(PolicyError::Row { row, fault }) if row < which.len() => {
                all.insert(which.remove(row), Err(unanswered(&fault)));
            }
            answers => {
                let GenerationOutput { replies, tokens: read } = answers?;
                tokens.add(&read);
                all.extend(which.drain(..).zip(replies.into_iter().map(|reply| reply.map_err(|fault| unanswered(&fault)))));
            }
        }
    }
    Ok(all.into_values().collect())
}

/// The fault of an episode or a reflection whose request isn't answered.
pub fn unanswered(fault: &RowFault) -> Fault {
    let cause = match fault {
        RowFault::Unanswered { cause: Unanswered::Late, .. } => Cause::Timeout,
        RowFault::Unanswered { cause: Unanswered::Refused, .. } => Cause::Error,
        RowFault::Unanswered { cause: Unanswered::Malformed, .. } => Cause::Malformed,
        RowFault::TooLong { prompt, answer, context } => Cause::TooLong { tokens: *prompt, limit: context.saturating_sub(*answer) },
        _ => Cause::Prompt,
    };
    Fault::new(cause, fault.to_string())
}
