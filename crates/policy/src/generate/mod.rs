//! Answers prompts: a pass over what wasn't read yet, then a token a step with cached keys and values, until nothing is
//! left to choose.
//!
//! What prompts begin with in common is read once, whether they are asked together or one after the other: see
//! [`Store`].

mod answer;
mod decode;
mod drawing;
mod page_cache;
mod penalties;
mod read;
mod rows;
mod sample;
mod stops;
pub mod store;
pub mod weigh;

use crate::memory;
use crate::model::Net;
use crate::threads::spread;
use answer::PartialAnswer;
use decode::write;
use flow_int8::trie::shared;
use flow_model::{GenerationOutput, Request, Result, Sampling, Tally, PAD_TO};
use flow_text::Tokenizer;
use read::{read_on_device, ReadResult};
use std::collections::BTreeMap;
use std::ops::Range;
use stops::Stops;
use store::Store;
use tch::Tensor;

/// Rows that are decoded together on a CPU, so that there is something to share among threads.
const ROWS: usize = 128;
/// On a GPU, as far as its memory goes.
const MANY: usize = 512;
/// The share of a GPU's free memory that the keys and values of one batch take at most, and the activations of one
/// pass, as one over this: a batch is copied when answers part.
const SHARE: u64 = 3;

/// A prompt, with forced tokens before the first choice, and the requests that begin with it.
type PromptGroup = (Vec<u32>, Vec<usize>);

/// Answers `requests` with the weights in `net`, those of `version`: one reply a request, in order. `store` caches
/// tokens read with them, and `tokenizer` reads answers that a text may end.
///
/// # Errors
/// [`PolicyError::Row`] if a request can't be read; [`PolicyError::Torch`] if libtorch can't do it.
pub fn generate(
    net: &Net,
    version: u64,
    store: &mut Store,
    requests: &[Request],
    (sampling, tokenizer): (&Sampling, &Tokenizer),
    threads: usize,
) -> Result<GenerationOutput> {
    let stops = Stops { texts: &sampling.stop, tokenizer };
    let begun = requests.iter().enumerate().map(|(index, request)| PartialAnswer::new(request, index, sampling, stops, net));
    let mut answers = begun.collect::<Result<Vec<_>, _>>()?;
    let mut prompts: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    for (answer, request) in answers.iter().zip(requests).filter(|(answer, _)| !answer.done) {
        prompts.entry([&request.prompt[..], &answer.reply.tokens].concat()).or_default().push(answer.index);
    }
    let pending: Vec<usize> = prompts.values().flatten().copied().collect();
    let prompts: Vec<PromptGroup> = prompts.into_iter().collect();
    let mut tokens = Tally::default();
    let begins: Vec<&[u32]> = prompts.iter().map(|(prompt, _)| prompt.as_slice()).collect();
    // Row by row nothing has to be there at once but what a row reads.
    let limit = if net.engine().is_some() { usize::MAX } else { store.limit };
    for part in parts(&begins, limit) {
        tokens.computed += answer(net, store, &prompts[part], &mut answers, sampling, threads)?;
    }
    for index in pending {
        tokens.read(version, requests[index].prompt.iter().chain(&answers[index].reply.tokens).take(answers[index].read));
    }
    Ok(GenerationOutput { replies: answers.into_iter().map(|answer| Ok(answer.reply)).collect(), tokens })
}

/// Parts of the prompts that have at most `limit` different tokens, or one prompt each.
fn parts(prompts: &[&[u32]], limit: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut size = 0;
    for (i, prompt) in prompts.iter().enumerate() {
        let fresh = prompt.len() - if i == 0 { 0 } else { shared(prompts[i - 1], prompt) };
        match parts.last_mut() {
            Some(part) if size + fresh <= limit => {
                part.end = i + 1;
                size += fresh;
            }
            _ => {
                parts.push(i..i + 1);
                size = prompt.len();
            }
        }
    }
    parts
}

/// Answers the requests of `prompts`, and says how many places were computed.
fn answer<'a>(
    net: &'a Net,
    store: &mut Store,
    prompts: &[PromptGroup],
    answers: &mut [PartialAnswer<'a>],
    sampling: &Sampling,
    threads: usize,
) -> Result<usize> {
    let begins: Vec<&[u32]> = prompts.iter().map(|(prompt, _)| prompt.as_slice()).collect();
    if let Some(running) = net.engine() {
        let first = |i: usize, logits: &mut [f32]| {
            let begun = |&index: &usize| {
                let mut answer = answers[index].clone();
                answer.next_of(running.engine.isa, logits, sampling);
                answer
            };
            prompts[i].1.iter().map(begun).collect::<Vec<PartialAnswer>>()
        };
        let (begun, computed) = rows::read(running, store.page_cache(running), &begins, threads, first)?;
        for answer in begun.into_iter().flatten() {
            let index = answer.index;
            answers[index] = answer;
        }
        return Ok(computed + rows::write(running, store.page_cache(running), prompts, answers, sampling, threads)?);
    }
    let first = |part: Range<usize>, logits: &Tensor| {
        let mut begun: Vec<(usize, PartialAnswer)> = Vec::new();
        for (row, (_, requests)) in prompts[part].iter().enumerate() {
            begun.extend(requests.iter().map(|&index| (row, answers[index].clone())));
        }
        let mut rows: Vec<(usize, &mut PartialAnswer)> = begun.iter_mut().map(|(row, answer)| (*row, answer)).collect();
        drawing::next(logits, &mut rows, sampling);
        begun.into_iter().map(|(_, answer)| answer).collect()
    };
    let ReadResult { outputs, paths, mut computed } = read_on_device(net, store, &begins, threads, first)?;
    for answer in outputs {
        let index = answer.index;
        answers[index] = answer;
    }
    let size = net.bytes_of_number();
    // By the padded length of the prompt, since that is where what is written begins.
    let mut live: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (i, (prompt, requests)) in prompts.iter().enumerate() {
        let left = requests.iter().filter(|&&index| !answers[index].done).map(|&index| (index, i));
        live.entry(prompt.len().next_multiple_of(PAD_TO)).or_default().extend(left);
    }
    let more = |live: &[(usize, usize)]| live.iter().map(|&(index, _)| answers[index].more()).max().unwrap_or(0);
    let free = memory::available().filter(|_| net.device().is_cuda());
    let rows = |places: usize, live: &[(usize, usize)]| match free {
        _ if !net.device().is_cuda() => ROWS,
        Some(free) => ((free / SHARE) as usize / ((places + more(live)) * net.sizes.cached * size)).clamp(1, MANY),
        None => MANY,
    };
    let batches: Vec<(usize, &[(usize, usize)])> =
        live.iter().flat_map(|(&places, live)| live.chunks(rows(places, live)).map(move |batch| (places, batch))).collect();
    let state = || (net.share(false), store.blocks());
    let written = spread(threads, state, &batches, |(net, blocks), &(places, batch)| {
        let more = more(batch);
        let held = batch.len().next_multiple_of(PAD_TO) * (places + more);
        memory::require(batch.len(), places + more, (held * net.sizes.cached * size) as u64)?;
        let mut writing: Vec<PartialAnswer> = batch.iter().map(|&(index, _)| answers[index].clone()).collect();
        let prompts: Vec<(usize, &[usize])> = batch.iter().map(|&(_, prompt)| (prompt, paths[prompt].as_slice())).collect();
        let computed = tch::no_grad(|| write(net, blocks, &prompts, places, &mut writing, sampling));
        Ok((writing, computed))
    })?;
    for (written, places) in written {
        computed += places;
        for answer in written {
            let index = answer.index;
            answers[index] = answer;
        }
    }
    Ok(computed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::seed::Random;
    use flow_model::tiny::Tiny;
    use flow_model::Architecture;
    use flow_model::{NewModel, Reply, END};
    use std::sync::Arc;
    use tch::Kind;

    fn net() -> Net {
        let shape = NewModel { layers: 3, width: 32, heads: 4, kv_heads: 2, context: 400, ..Default::default() };
        let tiny = Tiny::new(&shape, 40).unwrap();
        let flat: Vec<f32> = tiny.layout().random(7).iter().map(|x| 3.0 * x).collect();
        Net::new(Arc::new(tiny), &Tensor::from_slice(&flat), Kind::Float, &[END])
    }

    /// The requests of five turns of twelve episodes, three of each task: rules that all begin with, then everything
    /// that happened so far.
    fn turns() -> Vec<Vec<Request>> {
        let mut random = Random::new(3);
        let mut more = |count: usize| (0..count).map(|_| 2 + random.below(30) as u32).collect::<Vec<_>>();
        let rules = more(37);
        let tasks: Vec<Vec<u32>> = (0..4).map(|_| more(11)).collect();
        let mut prompts: Vec<Vec<u32>> = (0..12).map(|i| [&rules[..], &tasks[i / 3]].concat()).collect();
        let mut turns = Vec::new();
        for turn in 0..5u64 {
            let constrained = vec![vec![5, 6, END], vec![5, 7, 8, END], vec![9, END]];
            let choices = |i: usize| if i.is_multiple_of(2) { constrained.clone() } else { vec![] };
            let request = |(i, prompt): (usize, &Vec<u32>)| Request {
                prompt: prompt.clone(),
                seed: turn * 100 + i as u64,
                choices: choices(i),
                ..Request::default()
            };
            turns.push(prompts.iter().enumerate().map(request).collect());
            prompts.iter_mut().enumerate().for_each(|(i, prompt)| prompt.extend(more(5 + i % 4 * 7)));
        }
        turns
    }

    fn answers(net: &Net, version: u64, store: &mut Store, requests: &[Request], threads: usize) -> GenerationOutput {
        let sampling = Sampling { max_tokens: 6, ..Default::default() };
        generate(net, version, store, requests, (&sampling, &Tokenizer::bytes()), threads).unwrap()
    }

    #[test]
    fn a_request_may_end_its_answer_earlier() {
        let net = net();
        let requests = turns().remove(0);
        let whole = answers(&net, 0, &mut Store::with_capacity(1000), &requests, 1);
        let short: Vec<Request> = requests.iter().map(|request| Request { most: Some(2), ..request.clone() }).collect();
        let cut = answers(&net, 0, &mut Store::with_capacity(1000), &short, 1);
        for ((request, whole), cut) in requests.iter().zip(whole.replies).zip(cut.replies) {
            let (Reply { mut tokens, .. }, cut) = (whole.unwrap(), cut.unwrap());
            tokens.truncate(if request.choices.is_empty() { 2 } else { usize::MAX });
            assert_eq!(cut.tokens, tokens);
        }
        assert!(cut.tokens.computed < whole.tokens.computed, "nothing is written that is cut off");
    }

    /// Whatever is still known and whoever is there: the same bits. And what is known isn't computed again.
    #[test]
    fn what_was_read_before_changes_no_bit() {
        let net = net();
        let (mut known, mut little) = (Store::with_capacity(100_000), Store::with_capacity(60));
        let (mut tokens, mut anew) = (Tally::default(), 0);
        for requests in turns() {
            let expected = answers(&net, 0, &mut Store::with_capacity(100_000), &requests, 1);
            anew += expected.tokens.computed;
            for (i, request) in requests.iter().enumerate() {
                let alone = answers(&net, 0, &mut Store::with_capacity(100_000), std::slice::from_ref(request), 1);
                assert_eq!(alone.replies[0], expected.replies[i], "alone");
            }
            assert_eq!(answers(&net, 0, &mut little, &requests, 2).replies, expected.replies, "where most is forgotten");
            let cached = answers(&net, 0, &mut known, &requests, 3);
            assert_eq!(cached.replies, expected.replies, "where everything is known");
            tokens.add(&cached.tokens);
            assert_eq!(answers(&net, 0, &mut known, &requests[2..5], 1).replies, expected.replies[2..5], "asked again");
        }
        assert!(
            4 * tokens.computed < 3 * anew && tokens.computed >= tokens.distinct(),
            "{} of {anew}, {}",
            tokens.computed,
            tokens.distinct()
        );
    }

    /// Drawn where the logits lie, as on a GPU, answers are those that are drawn here: free ones and constrained ones,
    /// two of them in one row.
    #[test]
    fn answers_are_drawn_alike_wherever_their_logits_lie() {
        let (net, mut random) = (net(), Random::new(5));
        let requests = turns().remove(0);
        for penalty in [1.0, 1.3] {
            drawn_alike(&net, &requests, &mut random, penalty);
        }
    }

    fn drawn_alike(net: &Net, requests: &[Request], random: &mut Random, repetition_penalty: f64) {
        let penalties = Sampling { repetition_penalty, presence_penalty: repetition_penalty - 1.0, ..Default::default() };
        let sampling = Sampling { max_tokens: 6, temperature: 0.8, top_p: 0.95, ..penalties };
        let tokenizer = Tokenizer::bytes();
        let stops = Stops { texts: &[], tokenizer: &tokenizer };
        let begun = |(i, request)| PartialAnswer::new(request, i, &sampling, stops, net).unwrap();
        let mut here: Vec<PartialAnswer> = requests.iter().enumerate().map(begun).collect();
        let mut there = here.clone();
        for _ in 0..4 {
            let logits: Vec<f32> = (0..11 * 40).map(|_| 3.0 * random.unit() as f32).collect();
            let logits = Tensor::from_slice(&logits).view([11, 40]);
            for (answers, next) in [(&mut here, drawing::next as fn(&_, &mut [_], &_)), (&mut there, drawing::next_on_device)] {
                let live = answers.iter_mut().enumerate().filter(|(_, answer)| !answer.done);
                next(&logits, &mut live.map(|(i, answer)| (i.min(10), answer)).collect::<Vec<_>>(), &sampling);
            }
        }
        for (here, there) in here.iter().zip(&there) {
            assert_eq!((&here.reply.tokens, here.done), (&there.reply.tokens, there.done));
            assert!(here.reply.logprobs.iter().zip(&there.reply.logprobs).all(|(a, b)| (a - b).abs() < 1e-5));
        }
        assert!(here.iter().any(|answer| answer.done) && here.iter().any(|answer| answer.reply.tokens.len() == 4));
    }

    #[test]
    fn a_part_has_room_for_its_tokens() {
        let prompts = [&[1, 2, 3][..], &[1, 2, 4], &[1, 2, 4, 5], &[6]];
        assert_eq!(parts(&prompts, 5), [0..3, 3..4]);
        assert_eq!(parts(&prompts, 4), [0..2, 2..3, 3..4], "1 2 3 4, then 1 2 4 5, then 6");
        assert_eq!(parts(&prompts, 1), [0..1, 1..2, 2..3, 3..4]);
    }
}
