//! The gradient of one optimiser step, summed over its passes in a fixed order.

use super::batch::Batch;
use super::parallel::{number, Parallel, Sent};
use super::passes::Pass;
use super::settings::Objective;
use super::terms::{Terms, Tokens};
use crate::policy::model::Net;
use crate::policy::pause::pause;
use crate::policy::tensors::values;
use crate::policy::PolicyError;
use tch::{Device, Kind, Tensor};

/// Gradients of passes are summed into this many sums, pass i into sum i modulo this, and these in their order: the same additions
/// on any number of threads and of processes up to this. On a GPU, where one thread does it all, memory counts for more and there is
/// one sum, which one process computes.
const LANES: usize = 8;

/// What one pass saw, one value a response token; see [`Terms`].
pub struct Seen {
    /// The token's loss, without its weight.
    pub loss: Vec<f32>,
    /// Its divergence.
    pub kl: Vec<f32>,
    /// The entropy of what it was drawn from.
    pub entropy: Vec<f32>,
    /// 1 where the clipped branch decided, else 0.
    pub clipped: Vec<f32>,
    /// Its ratio.
    pub ratio: Vec<f32>,
    /// What isn't a number, if something isn't, and in which rows.
    wrong: Option<(&'static str, Vec<usize>)>,
}

/// What the passes of one sum found: the sum `[parameters]`, if something was learnt, and what each of them saw.
struct Lane {
    sum: Option<Tensor>,
    seen: Vec<(usize, Seen)>,
}

impl Sent for Lane {
    fn write(&self, to: &mut Vec<u8>) {
        // Millions of numbers, so they go as they lie in memory; an empty sum is none, since every model has parameters.
        let sum = self.sum.as_ref().map(|sum| sum.to_device(Device::Cpu).contiguous());
        let count = sum.as_ref().map_or(0, Tensor::numel);
        to.extend((count as u64).to_le_bytes());
        let start = to.len();
        to.resize(start + 4 * count, 0);
        if let Some(sum) = sum {
            sum.copy_data_u8(&mut to[start..], count);
        }
        to.extend((self.seen.len() as u64).to_le_bytes());
        for (pass, seen) in &self.seen {
            to.extend((*pass as u64).to_le_bytes());
            [&seen.loss, &seen.kl, &seen.entropy, &seen.clipped, &seen.ratio].into_iter().for_each(|values| values.write(to));
        }
    }
    fn read(from: &mut &[u8]) -> Option<Lane> {
        let count = number(from)?;
        let (sum, rest) = from.split_at_checked(count.checked_mul(4)?)?;
        *from = rest;
        let sum = (count > 0).then(|| Tensor::from_data_size(sum, &[count as i64], Kind::Float));
        let mut seen = Vec::new();
        for _ in 0..number(from)? {
            let pass = number(from)?;
            let mut next = || Vec::<f32>::read(from);
            let (loss, kl, entropy, clipped, ratio) = (next()?, next()?, next()?, next()?, next()?);
            // A pass that found something wrong is sent as an error.
            seen.push((pass, Seen { loss, kl, entropy, clipped, ratio, wrong: None }));
        }
        Some(Lane { sum, seen })
    }
}

/// The weight of each token of a row in the loss of a step.
pub type Weight<'a> = dyn Fn(usize) -> f64 + Sync + 'a;

/// What the gradient of one step is computed with.
pub struct Step<'a> {
    /// The name of the model that learns.
    pub name: &'a str,
    /// It with the weights before the step.
    pub net: &'a Net,
    /// What a KL term measures the divergence from.
    pub reference: Option<&'a Net>,
    /// The update's rows.
    pub batch: &'a Batch<'a>,
    /// The weight of each token of a row in the loss of the step.
    pub weight: &'a Weight<'a>,
    /// Who shares the work.
    pub parallel: Parallel<'a>,
}

/// The gradient `[parameters]` of the loss of one step over `passes`, and what each of them saw.
///
/// # Errors
/// [`PolicyError::NotFinite`] with the rows of the first pass that found something that isn't a number.
pub fn gradients(step: &Step, passes: &[Pass]) -> Result<(Tensor, Vec<Seen>), PolicyError> {
    let net = step.net;
    let count = if net.device().is_cuda() { 1 } else { LANES };
    let lanes: Vec<Vec<usize>> = (0..count.min(passes.len())).map(|lane| (lane..passes.len()).step_by(count).collect()).collect();
    let nets = || (net.share(true), step.reference.map(|reference| reference.share(false)));
    let done = step.parallel.spread(nets, lanes.len(), |(net, reference), lane| {
        let mut sum: Option<Tensor> = None;
        let mut seen = Vec::new();
        for &i in &lanes[lane] {
            pause();
            let (gradient, one) = pass(net, reference.as_ref(), step.batch, &passes[i], step.weight);
            if let Some((what, rows)) = one.wrong {
                return Err(PolicyError::NotFinite { model: step.name.into(), what: what.into(), rows });
            }
            if let Some(gradient) = gradient {
                sum = Some(match sum {
                    None => gradient,
                    Some(mut sum) => sum.g_add_(&gradient),
                });
            }
            seen.push((i, one));
        }
        Ok(Lane { sum, seen })
    })?;
    let mut total = net.flat().zeros_like();
    let mut seen = Vec::new();
    for lane in done {
        if let Some(sum) = lane.sum {
            total += sum.to_device(total.device());
        }
        seen.extend(lane.seen);
    }
    seen.sort_by_key(|(i, _)| *i);
    Ok((total, seen.into_iter().map(|(_, one)| one).collect()))
}

/// Forward and backward of one pass.
fn pass(net: &Net, reference: Option<&Net>, batch: &Batch, pass: &Pass, weight: &Weight) -> (Option<Tensor>, Seen) {
    let tokens = Tokens { batch, pass, net };
    let Terms { loss, kl, entropy, clipped, ratio, found } = tokens.terms(reference);
    let weights = tokens.each(&|row| weight(row) as f32) * tokens.part();
    let gradient = pass.learns().then(|| {
        let total = (&loss * &weights).sum(None);
        let gradients = Tensor::run_backward(&[total], net.leaves(), false, false);
        Tensor::cat(&gradients.iter().map(|g| g.reshape([-1])).collect::<Vec<_>>(), 0)
    });
    let seen = tch::no_grad(|| {
        let (found, loss) = (values(&found), values(&loss));
        let what = if batch.settings.objective == Objective::Value { "a value" } else { "a log-probability" };
        let wrong = culprits(batch, pass, &found).map(|rows| (what, rows));
        let wrong = wrong.or_else(|| culprits(batch, pass, &loss).map(|rows| ("the loss", rows)));
        let lost = gradient.as_ref().is_some_and(|gradient| !gradient.sum(None).double_value(&[]).is_finite());
        let wrong = wrong.or_else(|| lost.then(|| ("the gradient", sorted(pass.rows.iter().map(|&(row, _)| row)))));
        let clipped = values(&clipped.to_kind(Kind::Float));
        Seen { loss, kl: values(&kl), entropy: values(&entropy), clipped, ratio: values(&ratio), wrong }
    });
    (gradient, seen)
}

/// The rows with a token whose value isn't a number, if there are any.
fn culprits(batch: &Batch, pass: &Pass, values: &[f32]) -> Option<Vec<usize>> {
    let mut rest = values;
    let mut bad = Vec::new();
    for &(row, _) in &pass.rows {
        let (own, others) = rest.split_at(batch.rows[row].len());
        if own.iter().any(|x| !x.is_finite()) {
            bad.push(row);
        }
        rest = others;
    }
    (!bad.is_empty()).then(|| sorted(bad.into_iter()))
}

fn sorted(rows: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut rows: Vec<usize> = rows.collect();
    rows.sort_unstable();
    rows
}
