//! The policy's answers to many requests, where one that nothing answers costs itself alone.

use super::error::RolloutError;
use crate::env::{Cause, Fault};
use crate::policy::{Answers, Policy, PolicyError, Reply, Request, RowFault, Sampling, Tally, Unanswered};
use std::collections::BTreeMap;

/// What `model` with the weights of `version` answers to each of `requests`; what was read joins `tokens`. A request too long to read, or
/// that a server leaves unanswered, has a fault of its own; an error is one of the policy's.
pub fn answers(
    policy: &Policy,
    (model, version): (&str, u64),
    requests: &[&Request],
    sampling: &Sampling,
    tokens: &mut Tally,
) -> Result<Vec<Result<Reply, Fault>>, RolloutError> {
    answers_by(requests, tokens, |_, asked| policy.answer(model, version, asked, sampling.clone()))
}

/// The same by whatever answers some of the requests: it is told which of them these are.
pub fn answers_by(
    requests: &[&Request],
    tokens: &mut Tally,
    answer: impl Fn(&[usize], Vec<Request>) -> Result<Answers, PolicyError>,
) -> Result<Vec<Result<Reply, Fault>>, RolloutError> {
    let mut said: BTreeMap<usize, Result<Reply, Fault>> = BTreeMap::new();
    let mut which: Vec<usize> = (0..requests.len()).collect();
    while !which.is_empty() {
        let asked = which.iter().map(|&i| requests[i].clone()).collect();
        match answer(&which, asked) {
            Err(PolicyError::Row { row, fault: fault @ RowFault::TooLong { .. } }) if row < which.len() => {
                said.insert(which.remove(row), Err(unanswered(&fault)));
            }
            answers => {
                let Answers { replies, tokens: read } = answers?;
                tokens.add(&read);
                said.extend(which.drain(..).zip(replies.into_iter().map(|reply| reply.map_err(|fault| unanswered(&fault)))));
            }
        }
    }
    Ok(said.into_values().collect())
}

/// What it costs an episode, or a reflection, that nothing answers.
fn unanswered(fault: &RowFault) -> Fault {
    let cause = match fault {
        RowFault::Unanswered { cause: Unanswered::Late, .. } => Cause::Timeout,
        RowFault::Unanswered { cause: Unanswered::Refused, .. } => Cause::Error,
        RowFault::Unanswered { cause: Unanswered::Malformed, .. } => Cause::Malformed,
        _ => Cause::Prompt,
    };
    Fault::new(cause, fault.to_string())
}
