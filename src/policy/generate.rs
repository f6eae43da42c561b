//! Answers prompts: one pass over the prompts, then a token a step with cached keys and values, until nothing is left to choose.

use super::choices::Walk;
use super::model::{Cache, Net, NEVER};
use super::sample::draw;
use super::spread::spread;
use super::{PolicyError, Reply, Request, Sampling, END, PAD, PAD_TO};
use crate::seed::{mix, Random};
use std::collections::BTreeMap;
use tch::{Kind, Tensor};

/// Prompts of one pass on a CPU: few enough that the activations stay in the cache of a core.
const PROMPTS: usize = 64;
/// Prompts of one pass on a GPU, and the most rows that are decoded together anywhere.
const ROWS: usize = 512;

/// A row that is being answered.
struct Row<'a> {
    index: usize,
    seed: u64,
    /// `None`: decoding is free.
    walk: Option<Walk<'a>>,
    /// Length of the prompt, with what was forced before the first choice.
    prompt: usize,
    /// How much of the reply was forced before the first choice: those tokens are read with the prompt.
    forced: usize,
    reply: Reply,
    limit: usize,
    done: bool,
}

impl Row<'_> {
    fn write(&mut self, token: u32, logprob: f32) {
        self.reply.tokens.push(token);
        self.reply.logprobs.push(logprob);
    }

    /// Writes the next token, drawn from `logits`, and whatever is certain after it.
    fn next(&mut self, logits: &[f32], sampling: &Sampling) {
        let unit = Random::new(mix(self.seed, self.reply.tokens.len() as u64)).unit();
        let forced = self.walk.as_ref().and_then(Walk::forced);
        let allowed = self.walk.as_ref().map(Walk::allowed);
        let (token, logprob) = forced.map_or_else(|| draw(logits, allowed.as_deref(), sampling, unit), |token| (token, 0.0));
        self.write(token, logprob);
        match &mut self.walk {
            None => self.done = token == END || self.reply.tokens.len() >= self.limit,
            Some(walk) => {
                walk.push(token);
                if let Some(rest) = walk.settled() {
                    for &token in rest {
                        self.write(token, 0.0);
                    }
                    self.done = true;
                }
            }
        }
    }

    fn more(&self) -> usize {
        if self.done {
            0
        } else {
            self.limit - self.reply.tokens.len()
        }
    }
}

/// Prompts of one padded length, each with the rows that it belongs to.
struct Batch<'a> {
    places: usize,
    prompts: Vec<(Vec<u32>, Vec<&'a Request>, Vec<usize>)>,
}

/// Answers `requests`, one reply a request, in order.
pub fn generate(net: &Net, requests: &[Request], sampling: &Sampling, threads: usize) -> Result<Vec<Reply>, PolicyError> {
    let mut replies = vec![Reply::default(); requests.len()];
    let mut prompts: BTreeMap<(usize, Vec<u32>), Vec<usize>> = BTreeMap::new();
    for (index, request) in requests.iter().enumerate() {
        let row = begin(request, index, sampling, &net.shape)?;
        if row.done {
            replies[index] = row.reply;
            continue;
        }
        let mut prompt = request.prompt.clone();
        prompt.extend(&row.reply.tokens);
        prompts.entry((prompt.len().next_multiple_of(PAD_TO), prompt)).or_default().push(index);
    }
    let batches = batches(prompts, requests, if net.device().is_cuda() { ROWS } else { PROMPTS });
    let done = spread(threads, || net.share(false), &batches, |net, batch| tch::no_grad(|| answer(net, batch, sampling)))?;
    for (index, reply) in done.into_iter().flatten() {
        replies[index] = reply;
    }
    Ok(replies)
}

/// The row of a request, checked, with what is certain before anything is read.
fn begin<'a>(request: &'a Request, index: usize, sampling: &Sampling, shape: &super::shape::Shape) -> Result<Row<'a>, PolicyError> {
    let wrong = |what: String| PolicyError::Row { row: index, what };
    let longest = request.choices.iter().map(Vec::len).max();
    let limit = longest.unwrap_or(sampling.max_tokens);
    check(&request.prompt, &request.choices, limit, shape).map_err(wrong)?;
    let walk = if request.choices.is_empty() { None } else { Some(Walk::new(&request.choices).map_err(wrong)?) };
    let mut row = Row { index, seed: request.seed, walk, prompt: 0, forced: 0, reply: Reply::default(), limit, done: limit == 0 };
    while let Some(token) = row.walk.as_ref().and_then(Walk::forced) {
        row.write(token, 0.0);
        if let Some(walk) = &mut row.walk {
            walk.push(token);
        }
        row.done |= token == END;
        if row.done {
            break;
        }
    }
    row.forced = row.reply.tokens.len();
    row.prompt = request.prompt.len() + row.forced;
    Ok(row)
}

/// Whether a prompt with an answer of `more` tokens can be read at all.
pub fn check(prompt: &[u32], choices: &[Vec<u32>], more: usize, shape: &super::shape::Shape) -> Result<(), String> {
    if prompt.is_empty() {
        return Err("the prompt is empty".into());
    }
    if prompt.len() + more > shape.context {
        return Err(format!("a prompt of {} tokens and an answer of {more} don't fit the context of {}", prompt.len(), shape.context));
    }
    match prompt.iter().chain(choices.iter().flatten()).find(|&&token| token as usize >= shape.vocab) {
        Some(token) => Err(format!("there is no token {token} in a vocabulary of {}", shape.vocab)),
        None => Ok(()),
    }
}

/// Batches of equal padded length, in the order of the prompts; a prompt with very many rows is read more than once.
fn batches<'a>(prompts: BTreeMap<(usize, Vec<u32>), Vec<usize>>, requests: &'a [Request], size: usize) -> Vec<Batch<'a>> {
    let mut batches: Vec<Batch<'a>> = Vec::new();
    let mut rows = 0;
    for ((places, prompt), indices) in prompts {
        for part in indices.chunks(ROWS) {
            let full = |batch: &Batch| batch.places != places || batch.prompts.len() == size || rows + part.len() > ROWS;
            if batches.last().is_none_or(full) {
                batches.push(Batch { places, prompts: Vec::new() });
                rows = 0;
            }
            rows += part.len();
            if let Some(batch) = batches.last_mut() {
                batch.prompts.push((prompt.clone(), part.iter().map(|&i| &requests[i]).collect(), part.to_vec()));
            }
        }
    }
    batches
}

/// The tokens of `prompts`, each padded to `places`, with padding for what is missing to `rows` rows.
pub fn padded<'a>(prompts: impl Iterator<Item = &'a [u32]>, rows: usize, places: usize) -> Vec<i64> {
    let mut ids = vec![PAD as i64; rows * places];
    for (row, prompt) in prompts.enumerate() {
        for (place, &token) in prompt.iter().enumerate() {
            ids[row * places + place] = token as i64;
        }
    }
    ids
}

/// The logits of the final states, row after row.
fn rows_of(states: &Tensor, net: &Net) -> Vec<f32> {
    let logits = net.logits(&states.view([-1, net.shape.width as i64])).to_device(tch::Device::Cpu).contiguous();
    let mut values = vec![0.0; logits.numel()];
    logits.copy_data(&mut values, logits.numel());
    values
}

/// Answers the rows of one batch.
fn answer(net: &Net, batch: &Batch, sampling: &Sampling) -> Result<Vec<(usize, Reply)>, PolicyError> {
    let vocab = net.shape.vocab;
    let count = batch.prompts.len().next_multiple_of(PAD_TO);
    let ids = padded(batch.prompts.iter().map(|p| p.0.as_slice()), count, batch.places);
    let mut at = vec![0i64; count];
    let mut rows = Vec::new();
    let mut from = Vec::new();
    for (i, (prompt, requests, indices)) in batch.prompts.iter().enumerate() {
        at[i] = prompt.len() as i64 - 1;
        for (request, &index) in requests.iter().zip(indices) {
            rows.push(begin(request, index, sampling, &net.shape)?);
            from.push(i);
        }
    }
    let tensor = |values: &[i64], columns: i64| Tensor::from_slice(values).view([-1, columns]).to_device(net.device());
    let again = rows.iter().any(|row| row.walk.as_ref().map_or(row.limit > 1, Walk::chooses_again));
    let (states, cache) = net.forward(&tensor(&ids, batch.places as i64), &tensor(&at, 1), again);
    let logits = rows_of(&states, net);
    for (row, &i) in rows.iter_mut().zip(&from) {
        row.next(&logits[i * vocab..(i + 1) * vocab], sampling);
    }
    if let Some(cache) = cache {
        decode(net, &mut rows, &from, &cache, sampling);
    }
    Ok(rows.into_iter().map(|row| (row.index, row.reply)).collect())
}

/// Writes on until every row is done. `from` says which of the prompts in `cache` a row belongs to.
fn decode(net: &Net, rows: &mut [Row], from: &[usize], cache: &Cache, sampling: &Sampling) {
    let room = rows.iter().map(Row::more).max().unwrap_or(0) as i64;
    let device = net.device();
    let tensor = |values: &[i64]| Tensor::from_slice(values).to_device(device);
    let mut live: Vec<usize> = (0..rows.len()).filter(|&i| !rows[i].done).collect();
    if live.is_empty() {
        return;
    }
    let fill = |values: Vec<i64>| {
        let mut values = values;
        values.resize(values.len().next_multiple_of(PAD_TO), 0);
        values
    };
    let mut size = live.len().next_multiple_of(PAD_TO);
    let mut cache = cache.select(&tensor(&fill(live.iter().map(|&i| from[i] as i64).collect())), room);
    let (prefix, places) = (cache.prefix, cache.prefix + room);
    let mask_of = |live: &[usize], rows: &[Row]| {
        let lengths = tensor(&fill(live.iter().map(|&i| rows[i].prompt as i64).collect())).view([-1, 1]);
        let place = Tensor::arange(places, (Kind::Int64, device));
        let hidden = place.ge_tensor(&lengths).logical_and(&place.lt(prefix));
        (hidden.to_kind(Kind::Float) * NEVER).view([-1, 1, 1, places])
    };
    let mut mask = mask_of(&live, rows);
    for step in 0.. {
        let last = |i: usize| rows[i].reply.tokens.last().copied().unwrap_or(PAD) as i64;
        let place = |i: usize| (rows[i].prompt + step) as i64;
        // A row that is done stays in place until the batch shrinks; it reads padding at place 0.
        let pick = |value: &dyn Fn(usize) -> i64| fill(live.iter().map(|&i| if rows[i].done { 0 } else { value(i) }).collect());
        let ids = tensor(&pick(&last)).view([-1, 1]);
        let at = tensor(&pick(&place)).view([-1, 1]);
        let logits = rows_of(&net.step(&ids, &at, &mut cache, step as i64, &mask), net);
        let vocab = net.shape.vocab;
        for (slot, &i) in live.iter().enumerate() {
            if !rows[i].done {
                rows[i].next(&logits[slot * vocab..(slot + 1) * vocab], sampling);
            }
        }
        let left: Vec<usize> = (0..live.len()).filter(|&slot| !rows[live[slot]].done).collect();
        if left.is_empty() {
            return;
        }
        if left.len().next_multiple_of(PAD_TO) * 2 <= size {
            cache = cache.select(&tensor(&fill(left.iter().map(|&slot| slot as i64).collect())), 0);
            live = left.iter().map(|&slot| live[slot]).collect();
            size = live.len().next_multiple_of(PAD_TO);
            mask = mask_of(&live, rows);
        }
    }
}
