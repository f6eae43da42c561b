//! Choices weighed instead of drawn: how likely each of a prompt's choices is, and what a critic expects of each.
//!
//! A prompt is read once, and each choice is a branch behind it; what choices begin with in common is one branch until
//! they part. So a list of many costs what its own tokens cost, and the model's head is computed only where choices
//! diverge: the other tokens are certain.

use crate::generate::parts;
use crate::generate::read::{read, ReadResult};
use crate::generate::store::Store;
use crate::model::Net;
use flow_model::choices::ChoiceConstraint;
use flow_model::sequence::check;
use flow_model::{ChoiceScores, PolicyError, Request, Result, RowFault, Tally};
use std::collections::BTreeMap;
use std::ops::Range;

/// Where choices of one request part.
struct Fork {
    request: usize,
    /// Which of its choices, ascending, begin alike up to here.
    choices: Range<usize>,
    /// How many tokens they begin with.
    depth: usize,
}

/// The log-probability of each choice, in nats: at each of its tokens among the tokens that the choices allow there, at
/// `temperature`.
///
/// # Errors
/// [`PolicyError::Row`] if a request can't be read, or has an invalid choice.
pub fn likelihoods(
    net: &Net,
    version: u64,
    store: &mut Store,
    requests: &[Request],
    temperature: f64,
    threads: usize,
) -> Result<ChoiceScores> {
    checked(net, requests)?;
    let sorted: Vec<Vec<&[u32]>> = requests.iter().map(ascending).collect();
    // The first fork of each, and those behind it: so that no prompt is computed twice at the same time.
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for (request, choices) in sorted.iter().enumerate() {
        for (i, fork) in forks(request, choices).into_iter().enumerate() {
            if i == 0 {
                first.push(fork)
            } else {
                later.push(fork)
            }
        }
    }
    let mut sums: Vec<Vec<f64>> = sorted.iter().map(|choices| vec![0.0; choices.len()]).collect();
    let mut tokens = Tally::default();
    for forks in [first, later] {
        let place = |fork: &Fork| [&requests[fork.request].prompt[..], &sorted[fork.request][fork.choices.start][..fork.depth]].concat();
        let groups = |fork: &Fork| groups(&sorted[fork.request], fork);
        let distributions = outputs(net, version, store, &forks, place, threads, &mut tokens, |fork, logits| {
            let groups = groups(fork);
            let scaled: Vec<f64> = groups.iter().map(|(token, _)| f64::from(logits[*token as usize]) / temperature).collect();
            let most = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mass = scaled.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
            scaled.into_iter().map(|x| x - most - mass).collect::<Vec<f64>>()
        })?;
        for (fork, logprobs) in forks.iter().zip(distributions) {
            for ((_, range), logprob) in groups(fork).into_iter().zip(logprobs) {
                sums[fork.request][range].iter_mut().for_each(|sum| *sum += logprob);
            }
        }
    }
    Ok(ChoiceScores { choices: in_their_order(requests, &sorted, &sums), tokens })
}

/// What a critic expects of each choice: its value before the choice's last token, which closes it.
///
/// # Errors
/// [`PolicyError::Row`] if a request can't be read.
pub fn choice_values(net: &Net, version: u64, store: &mut Store, requests: &[Request], threads: usize) -> Result<ChoiceScores> {
    checked(net, requests)?;
    let sorted: Vec<Vec<&[u32]>> = requests.iter().map(ascending).collect();
    let all: Vec<(usize, usize)> = sorted.iter().enumerate().flat_map(|(i, choices)| (0..choices.len()).map(move |c| (i, c))).collect();
    let place = |&(request, choice): &(usize, usize)| {
        let choice = sorted[request][choice];
        [&requests[request].prompt[..], &choice[..choice.len() - 1]].concat()
    };
    let mut tokens = Tally::default();
    // Its reading is counted apart from that of a policy of the same version.
    let version = !version;
    // Prompts first, as above.
    let prompts: Vec<usize> = (0..requests.len()).collect();
    outputs(net, version, store, &prompts, |&i| requests[i].prompt.clone(), threads, &mut tokens, |_, _| ())?;
    let values = outputs(net, version, store, &all, place, threads, &mut tokens, |_, value| f64::from(value[0]))?;
    let mut by_choice: Vec<Vec<f64>> = sorted.iter().map(|choices| vec![0.0; choices.len()]).collect();
    all.into_iter().zip(values).for_each(|((request, choice), value)| by_choice[request][choice] = value);
    Ok(ChoiceScores { choices: in_their_order(requests, &sorted, &by_choice), tokens })
}

/// What `convert` makes of the output after the sequence `place(query)` of each of `queries`; equal sequences are read
/// once.
#[allow(clippy::too_many_arguments)]
fn outputs<A: Sync, T: Send + Clone>(
    net: &Net,
    version: u64,
    store: &mut Store,
    queries: &[A],
    place: impl Fn(&A) -> Vec<u32>,
    threads: usize,
    tokens: &mut Tally,
    convert: impl Fn(&A, &[f32]) -> T + Sync,
) -> Result<Vec<T>> {
    let mut places: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    queries.iter().enumerate().for_each(|(i, query)| places.entry(place(query)).or_default().push(i));
    places.keys().for_each(|sequence| tokens.read(version, sequence));
    let sequences: Vec<&[u32]> = places.keys().map(Vec::as_slice).collect();
    let members: Vec<&Vec<usize>> = places.values().collect();
    let mut results: Vec<Option<T>> = vec![None; queries.len()];
    let limit = if net.engine().is_some() { usize::MAX } else { store.limit };
    for part in parts(&sequences, limit) {
        let each =
            |i: usize, output: &[f32]| members[part.start + i].iter().map(|&a| (a, convert(&queries[a], output))).collect::<Vec<_>>();
        let ReadResult { outputs, computed, .. } = read(net, store, &sequences[part.clone()], threads, each)?;
        tokens.computed += computed;
        outputs.into_iter().flatten().for_each(|(a, value)| results[a] = Some(value));
    }
    // Every query is in one part, so none is missing.
    Ok(results.into_iter().flatten().collect())
}

/// Refuses what the model can't read, and choices that aren't closed.
fn checked(net: &Net, requests: &[Request]) -> Result<()> {
    for (row, request) in requests.iter().enumerate() {
        let fault = |fault: RowFault| PolicyError::Row { row, fault };
        let longest = request.choices.iter().map(Vec::len).max().unwrap_or(0);
        check(&request.prompt, &request.choices, longest, &net.sizes).map_err(fault)?;
        ChoiceConstraint::new(&request.choices, &net.ends).map_err(fault)?;
    }
    Ok(())
}

/// Its choices in order, each once.
fn ascending(request: &Request) -> Vec<&[u32]> {
    let mut choices: Vec<&[u32]> = request.choices.iter().map(Vec::as_slice).collect();
    choices.sort_unstable();
    choices.dedup();
    choices
}

/// The numbers of the choices as the requests have them.
fn in_their_order(requests: &[Request], sorted: &[Vec<&[u32]>], numbers: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let restore = |(request, (sorted, numbers)): (&Request, (&Vec<&[u32]>, &Vec<f64>))| {
        request.choices.iter().filter_map(|choice| Some(numbers[sorted.binary_search(&choice.as_slice()).ok()?])).collect()
    };
    requests.iter().zip(sorted.iter().zip(numbers)).map(restore).collect()
}

/// Where these choices, ascending, part: the fork that all others lie behind first.
fn forks(request: usize, choices: &[&[u32]]) -> Vec<Fork> {
    let mut forks = Vec::new();
    let mut open = vec![(0..choices.len(), 0)];
    while let Some((range, mut depth)) = open.pop() {
        if range.len() < 2 {
            continue;
        }
        // No choice is the beginning of another one, since each is closed.
        while choices[range.start].get(depth) == choices[range.end - 1].get(depth) {
            depth += 1;
        }
        let fork = Fork { request, choices: range, depth };
        open.extend(groups(choices, &fork).into_iter().map(|(_, range)| (range, depth + 1)));
        forks.push(fork);
    }
    forks
}

/// The tokens that may follow at a fork, ascending, and the choices that go on with each.
fn groups(choices: &[&[u32]], fork: &Fork) -> Vec<(u32, Range<usize>)> {
    let mut groups: Vec<(u32, Range<usize>)> = Vec::new();
    for i in fork.choices.clone() {
        match (groups.last_mut(), choices[i].get(fork.depth)) {
            (Some((token, range)), Some(next)) if token == next => range.end = i + 1,
            (_, Some(next)) => groups.push((*next, i..i + 1)),
            (_, None) => {}
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_model::END;

    #[test]
    fn choices_part_where_they_differ() {
        let choices: [&[u32]; 5] = [&[5, 2, 3, END], &[5, 2, 4, END], &[5, 2, 4, 4, END], &[5, 7, END], &[5, 9, END]];
        let mut sorted = choices.to_vec();
        sorted.sort_unstable();
        let parting = forks(0, &sorted);
        let shown: Vec<(Range<usize>, usize)> = parting.iter().map(|fork| (fork.choices.clone(), fork.depth)).collect();
        // After 5; then after 5 2; then after 5 2 4, where END is a token like any other.
        assert_eq!(shown, [(0..5, 1), (0..3, 2), (1..3, 3)]);
        assert_eq!(groups(&sorted, &parting[0]), [(2, 0..3), (7, 3..4), (9, 4..5)]);
        assert_eq!(groups(&sorted, &parting[2]).iter().map(|(token, _)| *token).collect::<Vec<_>>(), [END, 4]);
        assert!(forks(0, &sorted[..1]).is_empty(), "nothing is left to choose");
    }
}
