//! Reading and writing row by row, for models whose rows don't depend on one another ([`flow_int8::engine`]).
//!
//! Any rows may be computed together, so unfinished rows make up one batch, whatever their lengths, and where an answer
//! ends the next one begins at once. What sequences begin with in common is computed once and read by all of them from
//! the same pages; answers that wrote the same so far are one row until they part. Written tokens are kept for the next
//! turn.

use crate::generate::answer::PartialAnswer;
use crate::generate::page_cache::PageCache;
use crate::generate::PromptGroup;
use crate::threads::spread;
use flow_int8::engine::head::each_output;
use flow_int8::engine::pages::{advance, Sequence, PAGE};
use flow_int8::engine::AdaptedEngine;
use flow_int8::trie::shared;
use flow_model::{Result, Sampling};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// Rows that are written together by one thread.
const ROWS: usize = 128;
/// Tokens that are read together by one thread.
const TOKENS: usize = 256;

/// Locks the cache that threads share. A thread that panicked left it in a consistent state.
fn lock<'a, 'b>(cache: &'a Mutex<&'b mut PageCache>) -> MutexGuard<'a, &'b mut PageCache> {
    cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The converted logits after each of some sequences, and how many tokens were computed.
pub type ReadOutput<T> = (Vec<T>, usize);

/// Reads `sequences`, ascending, and converts the logits after each, or a critic's value, with `convert`. Cached pages
/// aren't computed again.
///
/// # Errors
/// If a thread fails.
pub fn read<T: Send>(
    running: &AdaptedEngine,
    cache: &mut PageCache,
    sequences: &[&[u32]],
    threads: usize,
    convert: impl Fn(usize, &mut [f32]) -> T + Sync,
) -> Result<ReadOutput<T>> {
    let mut outputs: Vec<Option<T>> = sequences.iter().map(|_| None).collect();
    let mut computed = 0;
    let mut waiting: Vec<usize> = (0..sequences.len()).collect();
    while !waiting.is_empty() {
        let (round, later) = round(cache, sequences, &waiting);
        waiting = later;
        let fresh: Vec<usize> = round.iter().map(|&i| sequences[i].len() - cache.known(&sequences[i][..sequences[i].len() - 1])).collect();
        let parts = parts(&fresh, threads);
        let shared = Mutex::new(&mut *cache);
        let done = spread(
            threads,
            || (),
            &parts,
            |(), part| {
                let mut done = Vec::new();
                let mut computed = 0;
                let mut from = part.start;
                while from < part.end {
                    let mut to = from + 1;
                    while to < part.end && fresh[from..=to].iter().sum::<usize>() <= TOKENS {
                        to += 1;
                    }
                    let own = &round[from..to];
                    let mut begun: Vec<Sequence> = own.iter().map(|&i| lock(&shared).begin(sequences[i].to_vec())).collect();
                    computed += begun.iter().map(|sequence| sequence.tokens.len() - sequence.computed).sum::<usize>();
                    let states = finish(running, &mut begun);
                    each_output(running, &states, |row, logits| done.push((own[row], convert(own[row], logits))));
                    begun.into_iter().for_each(|sequence| lock(&shared).keep(sequence));
                    from = to;
                }
                Ok((done, computed))
            },
        )?;
        for (done, places) in done {
            computed += places;
            done.into_iter().for_each(|(i, output)| outputs[i] = Some(output));
        }
    }
    // Each sequence was in one round, so none is missing.
    Ok((outputs.into_iter().flatten().collect(), computed))
}

/// Which of the sequences `waiting` can be read now, and which wait for their common beginning with one of them.
fn round(cache: &mut PageCache, sequences: &[&[u32]], waiting: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let (mut round, mut later): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut pages = 0;
    for &i in waiting {
        let most = sequences[i].len() - 1;
        let known = cache.known(&sequences[i][..most]);
        let common = round.last().map_or(0, |&last: &usize| shared(sequences[last], sequences[i]).min(most));
        let needed = sequences[i].len().div_ceil(PAGE) - known / PAGE;
        if common > known || !(round.is_empty() || cache.room(pages + needed)) {
            later.push(i);
        } else {
            if round.is_empty() {
                cache.room(needed);
            }
            pages += needed;
            round.push(i);
        }
    }
    (round, later)
}

/// Parts of a list for threads, with about the same sum each.
fn parts(sizes: &[usize], threads: usize) -> Vec<Range<usize>> {
    let each = sizes.iter().sum::<usize>().div_ceil(threads.max(1)).max(1);
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut sum = 0;
    for (i, size) in sizes.iter().enumerate() {
        match parts.last_mut() {
            Some(part) if sum < each => part.end = i + 1,
            _ => {
                parts.push(i..i + 1);
                sum = 0;
            }
        }
        sum += size;
    }
    parts
}

/// Computes what is left of `sequences`, some tokens at a time, and gives the final state of each.
fn finish(running: &AdaptedEngine, sequences: &mut [Sequence]) -> Vec<f32> {
    let width = running.engine.config().width;
    let mut states = vec![0.0; sequences.len() * width];
    loop {
        let mut room = TOKENS;
        let mut counts = Vec::new();
        let mut which = Vec::new();
        for (i, sequence) in sequences.iter().enumerate() {
            let count = (sequence.tokens.len() - sequence.computed).min(room);
            if count > 0 {
                room -= count;
                counts.push(count);
                which.push(i);
            }
        }
        if which.is_empty() {
            return states;
        }
        let mut some: Vec<&mut Sequence> =
            sequences.iter_mut().enumerate().filter(|(i, _)| which.contains(i)).map(|(_, sequence)| sequence).collect();
        let last = advance(running, &mut some, &counts);
        for (state, i) in last.chunks_exact(width).zip(which) {
            states[i * width..(i + 1) * width].copy_from_slice(state);
        }
    }
}

/// Answers that wrote the same so far.
struct DecodingRow<'a> {
    sequence: Sequence,
    answers: Vec<PartialAnswer<'a>>,
}

/// Answers that haven't begun to be written: the prompt with its forced tokens, and the answers that drew the same
/// token after it.
struct QueuedAnswers<'a> {
    tokens: Vec<u32>,
    answers: Vec<PartialAnswer<'a>>,
}

/// Writes the answers to `prompts`, whose first tokens are drawn, to their ends, and says how many tokens were computed
/// for it.
///
/// # Errors
/// If a thread fails.
pub fn write<'a>(
    running: &AdaptedEngine,
    cache: &mut PageCache,
    prompts: &[PromptGroup],
    answers: &mut [PartialAnswer<'a>],
    sampling: &Sampling,
    threads: usize,
) -> Result<usize> {
    let mut waiting: Vec<QueuedAnswers<'a>> = Vec::new();
    for (prompt, requests) in prompts {
        let mut alike: BTreeMap<Vec<u32>, Vec<PartialAnswer<'a>>> = BTreeMap::new();
        for &index in requests.iter().filter(|&&index| !answers[index].done) {
            alike.entry(answers[index].drawn().to_vec()).or_default().push(answers[index].clone());
        }
        waiting.extend(alike.into_iter().map(|(drawn, answers)| QueuedAnswers { tokens: [&prompt[..], &drawn].concat(), answers }));
    }
    let parts = parts(&vec![1; waiting.len()], threads);
    let mut waiting = waiting.into_iter();
    let jobs: Vec<Mutex<Vec<QueuedAnswers<'a>>>> =
        parts.iter().map(|part| Mutex::new(waiting.by_ref().take(part.len()).collect())).collect();
    let shared = Mutex::new(cache);
    let done = spread(
        threads,
        || (),
        &jobs,
        |(), job| {
            let waiting = std::mem::take(&mut *job.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
            Ok(write_part(running, &shared, waiting, sampling))
        },
    )?;
    let mut computed = 0;
    for (done, places) in done {
        computed += places;
        for answer in done {
            let index = answer.index;
            answers[index] = answer;
        }
    }
    Ok(computed)
}

/// Writes the answers of one thread.
fn write_part<'a>(
    running: &AdaptedEngine,
    cache: &Mutex<&mut PageCache>,
    waiting: Vec<QueuedAnswers<'a>>,
    sampling: &Sampling,
) -> (Vec<PartialAnswer<'a>>, usize) {
    let mut waiting = waiting.into_iter().peekable();
    let (mut rows, mut done): (Vec<DecodingRow>, Vec<PartialAnswer>) = (Vec::new(), Vec::new());
    let mut computed = 0;
    loop {
        while rows.len() < ROWS && waiting.peek().is_some_and(|next| fits(&mut lock(cache), &rows, next)) {
            if let Some(QueuedAnswers { tokens, answers }) = waiting.next() {
                rows.push(DecodingRow { sequence: lock(cache).begin(tokens), answers });
            }
        }
        if rows.is_empty() {
            return (done, computed);
        }
        let counts: Vec<usize> = rows.iter().map(|row| row.sequence.tokens.len() - row.sequence.computed).collect();
        computed += counts.iter().sum::<usize>();
        let states = if counts.iter().sum::<usize>() <= ROWS.max(TOKENS) {
            advance(running, &mut rows.iter_mut().map(|row| &mut row.sequence).collect::<Vec<_>>(), &counts)
        } else {
            // Some were forgotten since they were read, and are read again.
            let width = running.engine.config().width;
            let mut states = vec![0.0; rows.len() * width];
            for (row, state) in rows.iter_mut().zip(states.chunks_exact_mut(width)) {
                state.copy_from_slice(&finish(running, std::slice::from_mut(&mut row.sequence)));
            }
            states
        };
        each_output(running, &states, |row, logits| {
            for answer in &mut rows[row].answers {
                answer.read += 1;
                answer.next_of(running.engine.isa, logits, sampling);
            }
        });
        let mut next = Vec::with_capacity(rows.len());
        for row in rows {
            part(row, cache, &mut next, &mut done);
        }
        rows = next;
    }
}

/// Whether there is room for one row more with all that it may write; alone it has room in any case.
fn fits(cache: &mut PageCache, rows: &[DecodingRow], next: &QueuedAnswers) -> bool {
    let more = |answers: &[PartialAnswer]| answers.iter().map(PartialAnswer::more).max().unwrap_or(0);
    let pages = |tokens: usize, answers: &[PartialAnswer]| (more(answers) + tokens % PAGE).div_ceil(PAGE) * answers.len();
    let later: usize = rows.iter().map(|row| pages(row.sequence.tokens.len(), &row.answers).saturating_sub(row.answers.len())).sum();
    let own = (next.tokens.len() - cache.known(&next.tokens)) / PAGE + pages(next.tokens.len(), &next.answers) + 1;
    cache.room(later + own) || rows.is_empty()
}

/// Splits the answers of a row by their last token: finished answers, and rows of answers with equal tokens.
fn part<'a>(row: DecodingRow<'a>, cache: &Mutex<&mut PageCache>, rows: &mut Vec<DecodingRow<'a>>, done: &mut Vec<PartialAnswer<'a>>) {
    let DecodingRow { mut sequence, answers } = row;
    let mut parted: BTreeMap<u32, Vec<PartialAnswer>> = BTreeMap::new();
    for answer in answers {
        if answer.done {
            done.push(answer);
        } else if let Some(&last) = answer.reply.tokens.last() {
            parted.entry(last).or_default().push(answer);
        }
    }
    let mut left = parted.len();
    if left == 0 {
        return lock(cache).keep(sequence);
    }
    for (last, answers) in parted {
        left -= 1;
        if left == 0 {
            sequence.tokens.push(last);
            rows.push(DecodingRow { sequence, answers });
            return;
        }
        let mut own = sequence.fork();
        own.tokens.push(last);
        rows.push(DecodingRow { sequence: own, answers });
    }
}
