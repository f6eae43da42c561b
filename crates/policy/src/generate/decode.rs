//! Writes answers a token a step, with cached keys and values.

use crate::generate::answer::PartialAnswer;
use crate::generate::drawing;
use crate::model::cache::Cache;
use crate::model::Net;
use crate::tensors::indices;
use flow_model::NEVER;
use flow_model::{Sampling, PAD, PAD_TO};
use std::collections::{BTreeMap, BTreeSet};
use tch::{Kind, Tensor};

/// Which row of a batch each answer reads on in: answers that wrote the same after the same prompt share one until they
/// part.
struct DecodeRows {
    /// The row of each answer that isn't done.
    row_of: Vec<usize>,
    /// An answer of each row.
    first: Vec<usize>,
}

impl DecodeRows {
    /// The rows of those answers that aren't done, which were in the rows `row_of` and have written a token since; and
    /// which of these each new row comes from.
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

/// Writes on until every answer is done, and says how many places were computed for it. `prompts` says for each answer
/// which prompt it belongs to, and the slots of its tokens; all prompts are padded to `places`.
pub fn write(
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
            // No row has split, so each goes on in its place, with an answer of it that isn't done.
            next.first.iter().zip(&from).for_each(|(&i, &row)| rows.first[row] = i);
        }
    }
    computed
}
