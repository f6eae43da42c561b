//! Choices by tokens: a server says of each choice behind the prompt how likely its tokens are, and at each fork one of
//! the tokens that may follow is drawn here by them, at the temperature that is asked for.

use flow_core::seed::{mix, Random};
use flow_model::choices::{written, ChoiceConstraint};
use flow_model::draw::draw;
use flow_model::{Reply, Request, RowFault, Sampling};
use std::collections::{BTreeMap, BTreeSet};

/// A prompt, and a choice behind it.
pub type Pair<'a> = (&'a [u32], &'a [u32]);

/// The prompt and choice pairs to score for a request: none where there is nothing to choose.
pub fn pairs(request: &Request) -> Vec<Pair<'_>> {
    let choices: BTreeSet<&[u32]> = request.choices.iter().map(|choice| written(choice)).collect();
    let choices = if choices.len() > 1 { choices } else { BTreeSet::new() };
    choices.into_iter().map(|choice| (request.prompt.as_slice(), choice)).collect()
}

/// Walks down the choices of a request, to the end of an open one at most. A token that nothing else could stand for is
/// certain.
pub fn choose(
    request: &Request,
    known: &BTreeMap<Pair, Result<Vec<f32>, RowFault>>,
    sampling: &Sampling,
    ends: &[u32],
) -> Result<Reply, RowFault> {
    let mut constraint = ChoiceConstraint::new(&request.choices, ends)?;
    let mut reply = Reply::default();
    // By the tokens written so far: the log-probability of each token that may follow.
    let mut after: BTreeMap<Vec<u32>, f32> = BTreeMap::new();
    for choice in &request.choices {
        let choice = written(choice);
        let Some(logprobs) = known.get(&(request.prompt.as_slice(), choice)) else { continue };
        let logprobs = logprobs.clone()?;
        after.extend((0..choice.len()).map(|i| (choice[..=i].to_vec(), logprobs[i])));
    }
    while !constraint.free() && reply.tokens.last().is_none_or(|token| !ends.contains(token)) {
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
