//! The gradient of one optimiser step of a model of this process, summed over its passes in a fixed order.

use crate::memory;
use crate::model::Net;
use crate::pause::pause;
use crate::update::batch::{TokenWeight, UpdateBatch};
use crate::update::gradient::{pass, PassResult};
use crate::update::parallel::{number, Parallel, WireFormat};
use crate::update::passes::Pass;
use crate::update::tracer::Tracer;
use flow_model::config::DecoderConfig;
use flow_model::Result;
use tch::{Device, Kind, Tensor};

/// Gradients of passes are summed into this many sums, pass i into sum i modulo this, and these in their order: the
/// same additions on any number of threads and of processes up to this. On a GPU, where one thread does it all, memory
/// counts for more and there is one sum, which one process computes.
const LANES: usize = 8;

/// The passes of one partial sum: the gradient `[parameters]`, if there is one, and the result of each pass.
struct Lane {
    sum: Option<Tensor>,
    results: Vec<(usize, PassResult)>,
}

impl WireFormat for Lane {
    fn write(&self, to: &mut Vec<u8>) {
        // Millions of numbers, so they go as they lie in memory; an empty message means no sum, since every model has
        // parameters.
        let sum = self.sum.as_ref().map(|sum| sum.to_device(Device::Cpu).contiguous());
        let count = sum.as_ref().map_or(0, Tensor::numel);
        to.extend((count as u64).to_le_bytes());
        let start = to.len();
        to.resize(start + 4 * count, 0);
        if let Some(sum) = sum {
            sum.copy_data_u8(&mut to[start..], count);
        }
        to.extend((self.results.len() as u64).to_le_bytes());
        for (pass, result) in &self.results {
            to.extend((*pass as u64).to_le_bytes());
            [&result.loss, &result.kl, &result.entropy, &result.clipped, &result.ratio, &result.logit_grad, &result.masked]
                .into_iter()
                .for_each(|values| values.write(to));
        }
    }
    fn read(from: &mut &[u8]) -> Option<Lane> {
        let count = number(from)?;
        let (sum, rest) = from.split_at_checked(count.checked_mul(4)?)?;
        *from = rest;
        let sum = (count > 0).then(|| Tensor::from_data_size(sum, &[count as i64], Kind::Float));
        let mut results = Vec::new();
        for _ in 0..number(from)? {
            let pass = number(from)?;
            let mut next = || Vec::<f32>::read(from);
            let (loss, kl, entropy, clipped, ratio, logit_grad, masked) = (next()?, next()?, next()?, next()?, next()?, next()?, next()?);
            results.push((pass, PassResult { loss, kl, entropy, clipped, ratio, logit_grad, masked }));
        }
        Some(Lane { sum, results })
    }
}

/// What the gradient of one step is computed with.
pub struct GradientStep<'a> {
    /// The name of the model that learns.
    pub name: &'a str,
    /// It with the weights before the step.
    pub net: &'a Net,
    /// What a KL term measures the divergence from.
    pub reference: Option<&'a Net>,
    /// The update's rows.
    pub batch: &'a UpdateBatch<'a>,
    /// The weight of each token of a row in the loss of the step.
    pub weight: &'a TokenWeight<'a>,
    /// Who shares the work.
    pub parallel: Parallel<'a>,
}

/// The gradient `[parameters]` of the loss of one step over `passes`, and the result of each.
///
/// # Errors
/// [`PolicyError::NotFinite`] with the rows of the first pass that found something that isn't a number.
pub fn gradients(step: &GradientStep, passes: &[Pass]) -> Result<(Tensor, Vec<PassResult>)> {
    let net = step.net;
    let count = if net.device().is_cuda() { 1 } else { LANES };
    let lanes: Vec<Vec<usize>> = (0..count.min(passes.len())).map(|lane| (lane..passes.len()).step_by(count).collect()).collect();
    let nets = || (net.share(true), step.reference.map(|reference| reference.share(false)));
    let done = step.parallel.spread(nets, lanes.len(), |(net, reference), lane| {
        let mut sum: Option<Tensor> = None;
        let mut results = Vec::new();
        for &i in &lanes[lane] {
            pause();
            memory::require(passes[i].rows.len(), passes[i].longest(), needs(&passes[i], net, step.batch.settings.listed()))?;
            if let (Some(teacher), Some(rows)) = (reference, &step.batch.taught) {
                let (own, _) = passes[i].reread(rows);
                memory::require(own.rows.len(), own.longest(), reading_needs(&own, teacher))?;
            }
            let reference = reference.as_ref().map(|reference| reference as &dyn Tracer);
            let (gradient, result) = pass(step.name, net, reference, step.batch, &passes[i], step.weight)?;
            if let Some(gradient) = gradient {
                sum = Some(match sum {
                    None => gradient,
                    Some(mut sum) => sum.g_add_(&gradient),
                });
            }
            results.push((i, result));
        }
        Ok(Lane { sum, results })
    })?;
    let mut total = net.flat().zeros_like();
    let mut results = Vec::new();
    for lane in done {
        if let Some(sum) = lane.sum {
            total += sum.to_device(total.device());
        }
        results.extend(lane.results);
    }
    results.sort_by_key(|(i, _)| *i);
    Ok((total, results.into_iter().map(|(_, result)| result).collect()))
}

/// Numbers that a block makes of a token.
fn within(sizes: &DecoderConfig) -> usize {
    6 * sizes.width + 2 * (sizes.heads + 2 * sizes.kv_heads) * sizes.head + 4 * sizes.hidden
}

/// Bytes that its way back needs at least: of each token what its blocks made of it, and of each choice what a loss
/// that compares `listed` tokens makes of them.
fn needs(pass: &Pass, net: &Net, listed: usize) -> u64 {
    let sizes @ DecoderConfig { layers, width, .. } = net.architecture().sized();
    let within = within(&sizes);
    // Row by row two states a block are kept, and one block at a time is gone through.
    let numbers = if net.engine().is_some() { 2 * layers * width + 2 * within } else { layers * within };
    // Logits of all that was chosen, what their softmax makes of them, and its way back; row by row they are there
    // a few at a time.
    let logits = if net.engine().is_some() { 0 } else { 3 * pass.output_nodes.len() * net.sizes.vocab };
    // Log-probabilities of policy and teacher, their gradient, and a few things between.
    let compared = 8 * pass.from.len() * listed.min(net.sizes.vocab);
    net.bytes_of_number() as u64 * pass.computed() as u64 * numbers as u64 + 4 * (logits + compared) as u64
}

/// Bytes that reading it needs at least, without a way back: of each token what one block makes of it and, by
/// libtorch, keys and values of all blocks and the logits of all that was chosen.
fn reading_needs(pass: &Pass, net: &Net) -> u64 {
    let sizes @ DecoderConfig { layers, kv_heads, head, .. } = net.architecture().sized();
    let (cached, logits) = match net.engine() {
        Some(_) => (0, 0),
        None => (2 * layers * kv_heads * head, pass.output_nodes.len() * net.sizes.vocab),
    };
    (net.bytes_of_number() * pass.computed() * (within(&sizes) + cached) + 4 * logits) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::AttentionLayout;
    use crate::moments::Moments;
    use crate::update::learner::Learner;
    use crate::update::local::LocalLearner;
    use crate::update::passes::{passes, PassLimits, TrainingRow};
    use flow_core::seed::Random;
    use flow_model::tiny::Tiny;
    use flow_model::{Architecture, Objective, PolicyError};
    use flow_model::{Divergence, UpdateSettings};
    use flow_model::{Example, Head, NewModel, END};
    use std::sync::Arc;

    const VOCAB: usize = 20;

    fn net(head: Head, seed: u64) -> Net {
        let shape = NewModel { layers: 3, width: 32, heads: 4, kv_heads: 2, context: 200, head, ..Default::default() };
        let tiny = Tiny::new(&shape, VOCAB).unwrap();
        let mut random = Random::new(seed);
        // Not freshly initialised, with a head near 0, but as if trained.
        let flat: Vec<f32> = tiny.layout().random(seed).iter().map(|x| x + 0.1 * (random.unit() as f32 - 0.5)).collect();
        Net::new(Arc::new(tiny), &Tensor::from_slice(&flat), Kind::Float, &[END])
    }

    /// Rows whose prompts go on from one another, end within one another and branch at every place: a prompt is an
    /// earlier one cut off somewhere, and some tokens more. Some answer freely, some hold to choices that begin alike.
    fn rows(count: usize, seed: u64) -> Vec<Example> {
        let mut random = Random::new(seed);
        let mut rows: Vec<Example> = Vec::new();
        for i in 0..count {
            let mut prompt = if i == 0 { vec![] } else { rows[random.below(i)].prompt.clone() };
            prompt.truncate(random.below(prompt.len() + 1));
            prompt.extend((0..1 + random.below(50)).map(|_| 2 + random.below(3) as u32));
            prompt.truncate(180);
            let choices = vec![vec![9, 10, END], vec![9, 10, 11, 12, END], vec![9, 10, 11, 13, END], vec![5, END]];
            let (choices, response) = match i % 3 {
                0 => (vec![], (0..1 + random.below(6)).map(|_| 2 + random.below(3) as u32).collect()),
                1 => (choices.clone(), choices[random.below(4)].clone()),
                _ => (vec![vec![9, 10, END]], vec![9, 10, END]),
            };
            let logprobs = response.iter().map(|_| -random.unit() as f32).collect();
            let advantage = random.unit() as f32 - 0.5;
            // A third of the rows have numbers of their own for each token.
            let mut each = |n: usize| (0..n).map(|_| random.unit() as f32 - 0.5).collect::<Vec<f32>>();
            let advantages = each(if i % 3 == 0 { response.len() } else { 0 });
            let (values, targets) = (each(response.len()), each(response.len()));
            let temperature = [None, Some(0.7)][i % 2];
            rows.push(Example {
                prompt,
                // Behind a longer prompt, or one that goes on from none of the others.
                teacher_prompt: if i % 4 == 1 { (0..1 + random.below(30)).map(|_| 2 + random.below(3) as u32).collect() } else { vec![] },
                response,
                logprobs,
                choices,
                advantage,
                advantages,
                values,
                targets,
                temperature,
                trajectory: i as u64,
            });
        }
        rows
    }

    /// The gradient over passes of `size` sequences, what was seen of the rows, and the places that were computed.
    fn gradient(examples: &[Example], settings: &UpdateSettings, size: usize, cut: AttentionLayout) -> (Tensor, Vec<f32>, usize) {
        gradient_of(examples, settings, size, cut).unwrap()
    }

    fn gradient_of(
        examples: &[Example],
        settings: &UpdateSettings,
        size: usize,
        cut: AttentionLayout,
    ) -> Result<(Tensor, Vec<f32>, usize)> {
        let head = if settings.objective == Objective::Value { Head::Value } else { Head::Language };
        let (net, reference) = (net(head, 1), net(head, 2));
        let parallel = Parallel { threads: 1, peers: None, start: 0 };
        let learner = LocalLearner::new("actor", net.share(false), Moments::new(net.flat()), None, 0, parallel);
        let start = |rows: &[TrainingRow]| learner.logprobs(rows, settings.at(), settings.micro_batch);
        let batch = UpdateBatch::new("actor", &learner.limits(), &start, examples, settings, 0).unwrap();
        let which = batch.used_rows();
        let weight = |row: usize| 1.0 / (1 + row) as f64;
        let passes = passes(&batch.rows, &which, PassLimits { sequences: size, tokens: None }, cut).passes;
        let reference = Some(&reference).filter(|_| settings.compares());
        let step = GradientStep { name: "actor", net: &net, reference, batch: &batch, weight: &weight, parallel };
        let (gradient, results) = gradients(&step, &passes)?;
        let mut losses = vec![0.0; examples.len()];
        for (pass, result) in passes.iter().zip(&results) {
            let mut losses_left = result.loss.iter();
            pass.rows.iter().for_each(|&row| losses[row] = losses_left.by_ref().take(batch.rows[row].len()).sum());
        }
        Ok((gradient, losses, passes.iter().map(Pass::computed).sum()))
    }

    /// A teacher that reads 180 tokens before an answer, where the policy reads 3.
    #[test]
    fn a_teachers_longer_prompt_is_refused_where_it_does_not_fit() {
        let tokens = |count: usize| (0..count).map(|i| 2 + (i % 3) as u32).collect::<Vec<u32>>();
        let row = |teacher_prompt: usize| {
            vec![Example { prompt: tokens(3), teacher_prompt: tokens(teacher_prompt), response: tokens(2), ..Example::default() }]
        };
        let settings = UpdateSettings { objective: Objective::Distill, ..Default::default() };
        let fits = |free: u64, teacher_prompt: usize| {
            crate::memory::taken(Some(free), 0);
            let found = gradient_of(&row(teacher_prompt), &settings, 1, AttentionLayout::PerSequence).err();
            crate::memory::taken(None, 0);
            found
        };
        // 192 places of (6 * 32 + 2 * (4 + 4) * 8 + 4 * hidden) numbers and of 3 blocks' keys and values, four bytes
        // each, and 2 times 20 logits.
        let hidden = net(Head::Language, 1).architecture().sized().hidden as u64;
        let needs = 4 * 192 * (192 + 128 + 4 * hidden + 3 * 32) + 4 * 2 * 20;
        assert!(
            matches!(fits(needs, 180), Some(PolicyError::Memory { tokens: 181, needs: found, .. }) if found == needs),
            "a twentieth is left"
        );
        assert!(fits(needs + needs / 10, 180).is_none() && fits(needs, 5).is_none());
    }

    /// What sequences share is computed once, and the gradient is the one of rows that share nothing.
    #[test]
    fn a_trie_has_the_gradient_of_its_rows() {
        let settings = [
            UpdateSettings { kl: 0.3, ..Default::default() },
            UpdateSettings { objective: Objective::Sft, ..Default::default() },
            UpdateSettings { objective: Objective::Value, ..Default::default() },
            UpdateSettings { objective: Objective::Distill, top_k: Some(5), divergence: Divergence::Jsd, ..Default::default() },
        ];
        for (seed, settings) in settings.iter().enumerate() {
            let rows = rows(90, seed as u64);
            let (alone, losses, apart) = gradient(&rows, settings, 1, AttentionLayout::Packed);
            for cut in [AttentionLayout::Packed, AttentionLayout::PerSequence] {
                for size in [64, 7] {
                    let (shared, shared_losses, together) = gradient(&rows, settings, size, cut);
                    let difference = (&shared - &alone).norm().double_value(&[]) / alone.norm().double_value(&[]);
                    assert!(difference < 1e-5, "{:?}, {cut:?}, {size} sequences a pass: {difference:.1e}", settings.objective);
                    assert!(losses.iter().zip(&shared_losses).all(|(a, b)| (a - b).abs() < 1e-4), "{losses:?} {shared_losses:?}");
                    assert!(3 * together < 2 * apart, "{together} places in place of {apart}");
                }
            }
        }
    }
}
