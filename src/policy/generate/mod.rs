//! Answers prompts: a pass over what wasn't read yet, then a token a step with cached keys and values, until nothing is left to choose.
//!
//! What prompts begin with in common is read once, whether they are asked together or one after the other: see [`Store`].

mod answer;
mod drawing;
mod page_cache;
mod rows;
mod sample;
pub mod store;
pub mod weigh;

pub use sample::draw;

use super::model::cache::Cache;
use super::model::config::DecoderConfig;
use super::model::reading::{Cut, TrieTensors};
use super::model::{Net, NEVER};
use super::room;
use super::tensors::{indices, values};
use super::threads::spread;
use super::trie::{runs, shared, Trie};
use super::{GenerationOutput, PolicyError, Request, Sampling, Tally, PAD, PAD_TO};
use answer::PartialAnswer;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use store::Store;
use tch::{Kind, Tensor};

/// Prompts of one pass on a CPU: few enough that the activations stay in the cache of a core.
const PROMPTS: usize = 64;
/// Rows that are decoded together on a CPU, so that there is something to share among threads.
const ROWS: usize = 128;
/// Both on a GPU, as far as its memory goes.
const MANY: usize = 512;
/// The share of a GPU's free memory that the keys and values of one batch take at most, and the activations of one pass, as one over this: a batch is
/// copied when answers part.
const SHARE: u64 = 3;

/// A prompt, with what is forced before the first choice, and the requests that begin with it.
type PromptGroup = (Vec<u32>, Vec<usize>);

/// The result of a pass over some sequences.
struct PassOutput<T> {
    /// The converted output after each of them.
    outputs: Vec<T>,
    /// The slots of what was computed, and for each block their keys and values.
    slots: Vec<usize>,
    rows: Vec<Tensor>,
    /// Places that were computed.
    computed: usize,
}

/// The result of reading some sequences.
struct ReadResult<T> {
    /// The converted output after each of them.
    outputs: Vec<T>,
    /// The slots of each one's tokens.
    paths: Vec<Vec<usize>>,
    /// Places that were computed.
    computed: usize,
}

/// Answers `requests` with the weights in `net`, those of `version`: one reply a request, in order. `store` caches what was read with them.
///
/// # Errors
/// [`PolicyError::Row`] if a request can't be read; [`PolicyError::Torch`] for what libtorch can't do.
pub fn generate(
    net: &Net,
    version: u64,
    store: &mut Store,
    requests: &[Request],
    sampling: &Sampling,
    threads: usize,
) -> Result<GenerationOutput, PolicyError> {
    let begun = requests.iter().enumerate().map(|(index, request)| PartialAnswer::new(request, index, sampling, net));
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
    let limit = if net.running().is_some() { usize::MAX } else { store.limit() };
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
) -> Result<usize, PolicyError> {
    let begins: Vec<&[u32]> = prompts.iter().map(|(prompt, _)| prompt.as_slice()).collect();
    if let Some(running) = net.running() {
        let first = |i: usize, logits: &mut [f32]| {
            let begun = |&index: &usize| {
                let mut answer = answers[index].clone();
                answer.next_of(running.engine.isa(), logits, sampling);
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
    let ReadResult { outputs, paths, mut computed } = read_there(net, store, &begins, threads, first)?;
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
    let free = room::available().filter(|_| net.device().is_cuda());
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
        room::fits(batch.len(), places + more, (held * net.sizes.cached * size) as u64)?;
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

/// Reads what is new in `sequences`, ascending, and converts the output after each, logits or a value, with `convert`.
fn read<T: Send>(
    net: &Net,
    store: &mut Store,
    sequences: &[&[u32]],
    threads: usize,
    convert: impl Fn(usize, &[f32]) -> T + Sync,
) -> Result<ReadResult<T>, PolicyError> {
    if let Some(running) = net.running() {
        let (outputs, computed) = rows::read(running, store.page_cache(running), sequences, threads, |i, logits| convert(i, logits))?;
        return Ok(ReadResult { outputs, paths: vec![], computed });
    }
    read_there(net, store, sequences, threads, |part, outputs| {
        let (width, outputs) = (outputs.size()[1] as usize, values(outputs));
        part.zip(outputs.chunks(width)).map(|(i, output)| convert(i, output)).collect()
    })
}

/// As [`read`], by libtorch: `convert` gets the outputs after some of the sequences, `[sequences or more, outputs]`, where they lie.
fn read_there<T: Send>(
    net: &Net,
    store: &mut Store,
    sequences: &[&[u32]],
    threads: usize,
    convert: impl Fn(Range<usize>, &Tensor) -> Vec<T> + Sync,
) -> Result<ReadResult<T>, PolicyError> {
    let paths = store.admit(sequences.iter().copied());
    let ready = store.ready();
    let begins = |i: usize| shared(sequences[i - 1], sequences[i]);
    let passes = runs(sequences.len(), |start| together(net, &sequences[start..]), begins);
    let state = || (net.share(false), store.blocks());
    let done = spread(threads, state, &passes, |(net, blocks), part| {
        let convert = |outputs: &Tensor| convert(part.clone(), outputs);
        Ok(tch::no_grad(|| pass(net, blocks, &ready, &sequences[part.clone()], &paths[part.clone()], convert)))
    })?;
    let (mut outputs, mut computed) = (Vec::with_capacity(sequences.len()), 0);
    for pass in done {
        computed += pass.computed;
        store.keep(&pass.slots, &pass.rows);
        outputs.extend(pass.outputs);
    }
    Ok(ReadResult { outputs, paths, computed })
}

/// How many of `sequences`, in order, one pass reads: on a GPU as many as its memory has room for.
fn together(net: &Net, sequences: &[&[u32]]) -> usize {
    if !net.device().is_cuda() {
        return PROMPTS;
    }
    let DecoderConfig { width, heads, kv_heads, head, hidden, .. } = net.architecture().sized();
    // What one block makes of a token, and all keys and values; of a sequence its logits.
    let token = (6 * width + 2 * (heads + 2 * kv_heads) * head + 4 * hidden + net.sizes.cached) * net.bytes_of_number();
    let sequence = 3 * 4 * net.sizes.vocab;
    let mut left = room::available().map_or(u64::MAX, |free| free / SHARE);
    let mut taken = 0;
    for (i, tokens) in sequences.iter().enumerate().take(MANY) {
        let fresh = tokens.len() - if i == 0 { 0 } else { shared(sequences[i - 1], tokens) };
        let needs = (fresh * token + sequence) as u64;
        if needs > left {
            break;
        }
        (left, taken) = (left - needs, i + 1);
    }
    taken.max(1)
}

/// Reads what is new in `sequences`, whose tokens lie in the slots `paths`. `ready` says of each slot whether its keys and values are there.
fn pass<T>(
    net: &Net,
    blocks: &[Tensor],
    ready: &[bool],
    sequences: &[&[u32]],
    paths: &[Vec<usize>],
    convert: impl Fn(&Tensor) -> Vec<T>,
) -> PassOutput<T> {
    let mut trie = Trie::default();
    let (mut slots, mut ends) = (Vec::new(), Vec::new());
    for (sequence, path) in sequences.iter().zip(paths) {
        ends.extend(trie.add(sequence).last());
        slots.extend(&path[path.len() - (trie.len() - slots.len())..]);
    }
    // Only keys and values are kept, so the last token of a sequence is computed again for its final state.
    let mut known: Vec<bool> = slots.iter().map(|&slot| ready[slot]).collect();
    ends.iter().for_each(|&end: &usize| known[end] = false);
    let slots_where = |is_known: bool| slots.iter().zip(&known).filter(move |(_, known)| **known == is_known).map(|(&slot, _)| slot);
    let past = indices(&slots_where(true).map(|slot| slot as i64).collect::<Vec<_>>(), net.device());
    let past: Vec<Tensor> = blocks.iter().map(|block| block.index_select(0, &past)).collect();
    let (states, rows) = net.read(&TrieTensors::new(&trie, &known, &ends, Cut::Alone, net.device()), &past);
    let slots: Vec<usize> = slots_where(false).collect();
    let outputs = convert(&net.outputs(&states));
    PassOutput { outputs, computed: slots.len().next_multiple_of(PAD_TO), slots, rows }
}

/// Which row of a batch each answer reads on in: answers that wrote the same after the same prompt share one until they part.
struct DecodeRows {
    /// The row of each answer that isn't done.
    row_of: Vec<usize>,
    /// An answer of each row.
    first: Vec<usize>,
}

impl DecodeRows {
    /// The rows of those answers that aren't done, which were in the rows `row_of` and have written a token since; and which of these each new
    /// row comes from.
    fn new(row_of: &[usize], answers: &[PartialAnswer]) -> (DecodeRows, Vec<usize>) {
        let mut known: BTreeMap<(usize, Option<u32>), usize> = BTreeMap::new();
        let (mut rows, mut from) = (DecodeRows { row_of: row_of.to_vec(), first: vec![] }, vec![]);
        for (i, answer) in answers.iter().enumerate().filter(|(_, answer)| !answer.done) {
            rows.row_of[i] = *known.entry((row_of[i], answer.reply.tokens.last().copied())).or_insert_with(|| {
                rows.first.push(i);
                from.push(row_of[i]);
                rows.first.len() - 1
            });
        }
        (rows, from)
    }

    /// How many there are with padding.
    fn size(&self) -> usize {
        self.first.len().next_multiple_of(PAD_TO)
    }
}

/// Writes on until every answer is done, and says how many places were computed for it. `prompts` says for each answer which prompt it
/// belongs to, and the slots of its tokens; all prompts are padded to `places`.
fn write(
    net: &Net,
    blocks: &[Tensor],
    prompts: &[(usize, &[usize])],
    places: usize,
    answers: &mut [PartialAnswer],
    sampling: &Sampling,
) -> usize {
    let room = answers.iter().map(PartialAnswer::more).max().unwrap_or(0);
    let device = net.device();
    let tensor = |values: &[i64]| indices(values, device);
    let fill = |mut values: Vec<i64>| {
        values.resize(values.len().next_multiple_of(PAD_TO), 0);
        tensor(&values)
    };
    let (mut rows, _) = DecodeRows::new(&prompts.iter().map(|(prompt, _)| *prompt).collect::<Vec<_>>(), answers);
    let mut at = vec![0i64; rows.size() * places];
    for (row, &i) in rows.first.iter().enumerate() {
        prompts[i].1.iter().enumerate().for_each(|(place, &slot)| at[row * places + place] = slot as i64);
    }
    let mut cache: Cache = net.cache(blocks, &tensor(&at).view([rows.size() as i64, -1]), room as i64);
    let (prefix, all) = (places as i64, (places + room) as i64);
    // Hides the padding between a prompt and what is written after it.
    let mask_of = |rows: &DecodeRows, answers: &[PartialAnswer]| {
        let lengths = fill(rows.first.iter().map(|&i| answers[i].prompt as i64).collect()).view([-1, 1]);
        let slot = Tensor::arange(all, (Kind::Int64, device));
        let hidden = slot.ge_tensor(&lengths).logical_and(&slot.lt(prefix));
        (hidden.to_kind(Kind::Float) * NEVER).view([-1, 1, 1, all])
    };
    let mut mask = mask_of(&rows, answers);
    let mut computed = 0;
    for step in 0.. {
        let last = |i: usize| answers[i].reply.tokens.last().copied().unwrap_or(PAD) as i64;
        let place = |i: usize| (answers[i].prompt + step) as i64;
        // A row that is done stays where it is until the batch shrinks; it reads padding at place 0.
        let pick = |value: &dyn Fn(usize) -> i64| {
            fill(rows.first.iter().map(|&i| if answers[i].done { 0 } else { value(i) }).collect()).view([-1, 1])
        };
        let logits = net.outputs(&net.extend(&pick(&last), &pick(&place), &mut cache, prefix + step as i64, &mask));
        computed += rows.size();
        let live = answers.iter_mut().zip(&rows.row_of).filter(|(answer, _)| !answer.done);
        let mut live: Vec<(usize, &mut PartialAnswer)> = live.map(|(answer, &row)| (row, answer)).collect();
        live.iter_mut().for_each(|(_, answer)| answer.read += 1);
        drawing::next(&logits, &mut live, sampling);
        let (next, from) = DecodeRows::new(&rows.row_of, answers);
        if next.first.is_empty() {
            break;
        }
        let parted = from.iter().collect::<BTreeSet<_>>().len() < from.len();
        if parted || 2 * next.size() <= rows.size() {
            cache = cache.select(&fill(from.iter().map(|&row| row as i64).collect()));
            rows = next;
            mask = mask_of(&rows, answers);
        } else {
            // Nobody has parted, so every row goes on where it is, with an answer of it that isn't done.
            next.first.iter().zip(&from).for_each(|(&i, &row)| rows.first[row] = i);
        }
    }
    computed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::tiny::Tiny;
    use crate::policy::model::Architecture;
    use crate::policy::{NewModel, END};
    use crate::seed::Random;
    use std::sync::Arc;

    fn net() -> Net {
        let shape = NewModel { layers: 3, width: 32, heads: 4, kv_heads: 2, context: 400, ..Default::default() };
        let tiny = Tiny::new(&shape, 40).unwrap();
        let flat: Vec<f32> = tiny.layout().random(7).iter().map(|x| 3.0 * x).collect();
        Net::new(Arc::new(tiny), &Tensor::from_slice(&flat), Kind::Float, &[END])
    }

    /// The requests of five turns of twelve episodes, three of each task: rules that all begin with, then everything that happened so far.
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
            let request =
                |(i, prompt): (usize, &Vec<u32>)| Request { prompt: prompt.clone(), seed: turn * 100 + i as u64, choices: choices(i) };
            turns.push(prompts.iter().enumerate().map(request).collect());
            prompts.iter_mut().enumerate().for_each(|(i, prompt)| prompt.extend(more(5 + i % 4 * 7)));
        }
        turns
    }

    fn answers(net: &Net, version: u64, store: &mut Store, requests: &[Request], threads: usize) -> GenerationOutput {
        generate(net, version, store, requests, &Sampling { max_tokens: 6, ..Default::default() }, threads).unwrap()
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

    /// Drawn where the logits lie, as on a GPU, answers are those that are drawn here: free ones and constrained ones, two of them in one row.
    #[test]
    fn answers_are_drawn_alike_wherever_their_logits_lie() {
        let (net, mut random) = (net(), Random::new(5));
        let requests = turns().remove(0);
        let sampling = Sampling { max_tokens: 6, temperature: 0.8, top_p: 0.95, ..Default::default() };
        let begun = |(i, request)| PartialAnswer::new(request, i, &sampling, &net).unwrap();
        let mut here: Vec<PartialAnswer> = requests.iter().enumerate().map(begun).collect();
        let mut there = here.clone();
        for _ in 0..4 {
            let logits: Vec<f32> = (0..11 * 40).map(|_| 3.0 * random.unit() as f32).collect();
            let logits = Tensor::from_slice(&logits).view([11, 40]);
            let rows = |answers: &mut Vec<PartialAnswer>, next: &dyn Fn(&mut [(usize, &mut PartialAnswer)])| {
                let live = answers.iter_mut().enumerate().filter(|(_, answer)| !answer.done);
                next(&mut live.map(|(i, answer)| (i.min(10), answer)).collect::<Vec<_>>());
            };
            rows(&mut here, &|rows| drawing::next(&logits, rows, &sampling));
            rows(&mut there, &|rows| drawing::next_there(&logits, rows, &sampling));
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
