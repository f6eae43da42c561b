//! Draws the next token of many answers where their logits lie, so that of each row of a vocabulary two numbers come
//! back from a GPU.
//!
//! The same distribution and the same uniform numbers as [`draw`]: the token is the first one up to which the weights,
//! summed in the order of the vocabulary, come to more than the uniform number's share. Sums are in f64, weights in
//! f32, so at the edge between two tokens another one may be drawn than on a CPU, and a log-probability differs by
//! rounding.

use crate::generate::answer::PartialAnswer;
use crate::generate::penalties::TokenCounts;
use crate::tensors::{indices, values};
use flow_model::draw::draw;
use flow_model::Sampling;
use std::collections::BTreeMap;
use tch::{Kind, Tensor};

/// Tokens of a block. The weights are summed by blocks, and a draw first finds its block.
const BLOCK: i64 = 1024;
/// Rows that are drawn at a time: their weights are there a few times over.
const ROWS: i64 = 256;

/// Writes the next token of each of `answers`, which come with their row of `logits` `[rows, vocabulary]`.
pub fn next(logits: &Tensor, answers: &mut [(usize, &mut PartialAnswer)], sampling: &Sampling) {
    if logits.device().is_cuda() {
        return next_on_device(logits, answers, sampling);
    }
    let (vocab, logits) = (logits.size()[1] as usize, values(logits));
    for (row, answer) in answers {
        answer.next(&logits[*row * vocab..(*row + 1) * vocab], sampling);
    }
}

/// As [`next`], drawn where the logits lie.
pub fn next_on_device(logits: &Tensor, answers: &mut [(usize, &mut PartialAnswer)], sampling: &Sampling) {
    let (vocab, device) = (logits.size()[1], logits.device());
    // Among the few tokens that choices allow it is drawn here, and only their logits come over.
    let allowed: Vec<Option<Vec<u32>>> = answers.iter().map(|(_, answer)| answer.allowed()).collect();
    let wanted = |(i, allowed): (usize, &Option<Vec<u32>>)| {
        let start = answers[i].0 as i64 * vocab;
        allowed.iter().flatten().map(|&token| start + i64::from(token)).collect::<Vec<_>>()
    };
    let few: Vec<i64> = allowed.iter().enumerate().flat_map(wanted).collect();
    let few = if few.is_empty() { vec![] } else { values(&logits.view([-1]).index_select(0, &indices(&few, device))) };
    let free: Vec<usize> = (0..answers.len()).filter(|&i| allowed[i].is_none()).collect();
    let mut drawn = Vec::new();
    for free in free.chunks(ROWS as usize) {
        let rows: Vec<i64> = free.iter().map(|&i| answers[i].0 as i64).collect();
        let units: Vec<f64> = free.iter().map(|&i| answers[i].1.unit()).collect();
        let counts: Vec<Option<&TokenCounts>> = free.iter().map(|&i| answers[i].1.counts.as_ref()).collect();
        let logits = logits.index_select(0, &indices(&rows, device));
        drawn.extend(draw_rows(&logits, penalised(&logits, &counts, sampling).as_ref(), &units, sampling));
    }
    let (mut few, mut drawn) = (few.as_slice(), drawn.into_iter());
    for ((_, answer), allowed) in answers.iter_mut().zip(&allowed) {
        let next = match allowed {
            None => drawn.next(),
            Some(allowed) => {
                let (own, rest) = few.split_at(allowed.len());
                few = rest;
                let (i, logprob) = draw(own, None, sampling, answer.unit());
                Some((allowed[i as usize], logprob))
            }
        };
        if let Some((token, logprob)) = next {
            answer.take(token, logprob);
        }
    }
}

/// The logits `[rows, vocabulary]` after penalties on tokens of each row's answer; none where nothing is penalised.
fn penalised(logits: &Tensor, counts: &[Option<&TokenCounts>], sampling: &Sampling) -> Option<Tensor> {
    if !sampling.penalises() {
        return None;
    }
    let vocab = logits.size()[1];
    let tokens = |(row, counts): (usize, &Option<&TokenCounts>)| {
        counts.iter().flat_map(|counts| counts.tokens()).map(|token| row as i64 * vocab + i64::from(token)).collect::<Vec<_>>()
    };
    let places: Vec<i64> = counts.iter().enumerate().flat_map(tokens).collect();
    let places = indices(&places, logits.device());
    let flat = logits.reshape([-1]);
    let mut own = values(&flat.index_select(0, &places)).into_iter();
    let mut changed = Vec::new();
    for counts in counts.iter().flatten() {
        let logits: Vec<f32> = own.by_ref().take(counts.tokens().count()).collect();
        let by_token: BTreeMap<u32, f32> = counts.tokens().zip(logits).collect();
        changed.extend(counts.penalised(|token| by_token[&token], sampling).map(|(_, logit)| logit));
    }
    let changed = Tensor::from_slice(&changed).to_device(logits.device()).to_kind(logits.kind());
    Some(flat.index_copy(0, &places, &changed).view_as(logits))
}

/// What tokens weigh in a draw: the scaled logits, their largest a row, and exp of the difference, also in blocks of
/// equal length with their sums.
struct Weights {
    scaled: Tensor,
    most: Tensor,
    weights: Tensor,
    blocks: Tensor,
    sums: Tensor,
}

impl Weights {
    fn new(logits: &Tensor, sampling: &Sampling) -> Weights {
        let scaled = if sampling.divisor() == 1.0 { logits.shallow_clone() } else { logits / sampling.divisor() };
        let most = scaled.amax([1], true);
        let weights = (&scaled - &most).exp();
        let blocks = blocks(&weights);
        let sums = sums(&blocks);
        Weights { scaled, most, weights, blocks, sums }
    }

    /// The tokens that are drawn with these uniform numbers, `[rows]`.
    fn draw(&self, units: &[f64], sampling: &Sampling) -> Tensor {
        let (count, vocab, device) = (self.scaled.size()[0], self.scaled.size()[1], self.scaled.device());
        if sampling.temperature <= 0.0 {
            let place = Tensor::arange(vocab, (Kind::Int64, device));
            return place.where_scalarother(&self.scaled.eq_tensor(&self.most), vocab).amin([1], false);
        }
        let (blocks, sums) = if sampling.truncates() {
            let blocks = blocks(&truncated(&self.scaled, &self.weights, sampling));
            let sums = sums(&blocks);
            (blocks, sums)
        } else {
            (self.blocks.shallow_clone(), self.sums.shallow_clone())
        };
        let target = Tensor::from_slice(units).to_device(device).unsqueeze(1) * sums.sum_dim_intlist(1, true, Kind::Double);
        let block = first_above(&sums, &target);
        // The tokens before the block; none before the first.
        let before = sums.cumsum(1, Kind::Double).gather(1, &block, false) - sums.gather(1, &block, false);
        let within = blocks.gather(1, &block.unsqueeze(2).expand([count, 1, BLOCK], false), false).squeeze_dim(1).to_kind(Kind::Double);
        (block * BLOCK + first_above(&within, &(target - before))).squeeze_dim(1)
    }
}

/// Weights `[rows, vocabulary]` in blocks of equal length; what is beyond the vocabulary weighs nothing.
fn blocks(weights: &Tensor) -> Tensor {
    let (count, vocab) = (weights.size()[0], weights.size()[1]);
    weights.constant_pad_nd([0, (BLOCK - vocab % BLOCK) % BLOCK]).view([count, -1, BLOCK])
}

fn sums(blocks: &Tensor) -> Tensor {
    blocks.sum_dim_intlist(2, false, Kind::Double)
}

/// For each row of `logits` `[rows, vocabulary]` the token drawn with its uniform number, of the logits `changed` where
/// there are such, and its log-probability among all tokens, in nats: see [`draw`].
fn draw_rows(logits: &Tensor, changed: Option<&Tensor>, units: &[f64], sampling: &Sampling) -> Vec<(u32, f32)> {
    let own = Weights::new(logits, sampling);
    let tokens = match changed {
        None => own.draw(units, sampling),
        Some(changed) => Weights::new(changed, sampling).draw(units, sampling),
    };
    let chosen = (own.scaled - own.most).gather(1, &tokens.unsqueeze(1), false).squeeze_dim(1).to_kind(Kind::Double);
    let logprobs = chosen - own.sums.sum_dim_intlist(1, false, Kind::Double).log();
    let both = Tensor::stack(&[tokens.to_kind(Kind::Double), logprobs], 1).to_device(tch::Device::Cpu).contiguous();
    let mut numbers = vec![0f64; 2 * units.len()];
    both.copy_data(&mut numbers, 2 * units.len());
    numbers.chunks(2).map(|pair| (pair[0] as u32, pair[1] as f32)).collect()
}

/// In each row of `weights` `[rows, n]` the first place up to which they come to more than `target` `[rows, 1]`:
/// `[rows, 1]`. Where rounding leaves none, the last one that weighs anything.
fn first_above(weights: &Tensor, target: &Tensor) -> Tensor {
    let place = Tensor::arange(weights.size()[1], (Kind::Int64, weights.device()));
    let last = place.where_scalarother(&weights.gt(0.0), 0).amax([1], true);
    weights.cumsum(1, Kind::Double).le_tensor(target).sum_dim_intlist(1, true, Kind::Int64).minimum(&last)
}

/// The weights `[rows, vocabulary]` of the tokens to draw from, zero for tokens that are cut off: of tokens with at
/// least `min_p` of the largest weight, which is 1, the `top_k` likeliest, and of these the smallest set that has
/// `top_p` of their probability, the lower token first among equals.
fn truncated(scaled: &Tensor, weights: &Tensor, sampling: &Sampling) -> Tensor {
    let vocab = scaled.size()[1];
    let most = if sampling.top_k == 0 { vocab } else { vocab.min(sampling.top_k as i64) };
    let mut kept = weights.ge(sampling.min_p);
    if most < vocab {
        let least = scaled.topk(most, 1, true, true).0.narrow(1, most - 1, 1);
        let (above, equal) = (scaled.gt_tensor(&least), scaled.eq_tensor(&least));
        let missing = most - above.sum_dim_intlist(1, true, Kind::Int64);
        kept = kept.logical_and(&above.logical_or(&equal.logical_and(&equal.cumsum(1, Kind::Int64).le_tensor(&missing))));
    }
    if sampling.top_p < 1.0 {
        let order = scaled.where_scalarother(&kept, f64::NEG_INFINITY).argsort_stable(true, 1, true);
        let sorted = (weights * kept.to_kind(Kind::Float)).gather(1, &order, false).to_kind(Kind::Double);
        let total = sorted.sum_dim_intlist(1, true, Kind::Double);
        let within = (sorted.cumsum(1, Kind::Double) - sorted).lt_tensor(&(total * sampling.top_p));
        kept = kept.logical_and(&within.zeros_like().scatter(1, &order, &within));
    }
    weights * kept.to_kind(Kind::Float)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::seed::Random;

    fn sampling(temperature: f64, top_k: usize, top_p: f64) -> Sampling {
        Sampling { temperature, top_k, top_p, ..Default::default() }
    }

    /// Probabilities 1/8, 2/8, 5/8, as in the tests of [`draw`]: the edges lie at 1/8 and 3/8.
    #[test]
    fn inverse_of_the_distribution() {
        let units = [0.0, 0.12, 0.13, 0.37, 0.38, 0.999];
        let logits = Tensor::from_slice(&[0.0, 2f32.ln(), 5f32.ln()]).repeat([units.len() as i64, 1]);
        let drawn = draw_rows(&logits, None, &units, &sampling(1.0, 0, 1.0));
        assert_eq!(drawn.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
        assert!((drawn[2].1 - 0.25f32.ln()).abs() < 1e-6);
        // Of the two likeliest the tokens have 2/7 and 5/7; what is recorded is the probability among all.
        let drawn = draw_rows(&logits.narrow(0, 0, 2), None, &[0.28, 0.29], &sampling(1.0, 2, 1.0));
        assert!(drawn[0].0 == 1 && drawn[1].0 == 2 && (drawn[0].1 - 0.25f32.ln()).abs() < 1e-6);
    }

    /// Many rows at once draw what each draws alone: over several blocks, with equal logits, and however it is cut off.
    #[test]
    fn rows_are_drawn_like_any() {
        let mut random = Random::new(4);
        let (count, vocab) = (40, 3000);
        let numbers: Vec<f32> = (0..count * vocab).map(|_| (24.0 * random.unit() as f32).round() / 4.0).collect();
        let units: Vec<f64> = (0..count).map(|_| random.unit()).collect();
        let logits = Tensor::from_slice(&numbers).view([count as i64, vocab as i64]);
        for sampling in [
            sampling(1.0, 0, 1.0),
            sampling(0.7, 0, 0.9),
            sampling(0.0, 0, 1.0),
            sampling(1.3, 40, 1.0),
            sampling(1.3, 40, 0.5),
            sampling(1.0, 9000, 1.0),
            Sampling { min_p: 0.3, ..sampling(1.0, 0, 1.0) },
            Sampling { min_p: 0.3, ..sampling(1.3, 40, 0.8) },
        ] {
            for (row, (token, logprob)) in draw_rows(&logits, None, &units, &sampling).into_iter().enumerate() {
                let (expected, expected_logprob) = draw(&numbers[row * vocab..(row + 1) * vocab], None, &sampling, units[row]);
                assert!(token == expected && (logprob - expected_logprob).abs() < 1e-5, "{sampling:?}, row {row}: {token}, not {expected}");
            }
        }
    }

    /// What can't be drawn isn't, even where the uniform number is nearly 1.
    #[test]
    fn what_weighs_nothing_is_never_drawn() {
        let mut logits = vec![f32::NEG_INFINITY; 5000];
        (logits[7], logits[2100]) = (1.0, 1.0);
        let logits = Tensor::from_slice(&logits).repeat([3, 1]);
        let drawn = draw_rows(&logits, None, &[0.0, 0.5, 1.0], &sampling(1.0, 0, 1.0));
        assert_eq!(drawn.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [7, 2100, 2100]);
        assert!(drawn.iter().all(|(_, logprob)| (logprob - 0.5f32.ln()).abs() < 1e-6));
    }
}
