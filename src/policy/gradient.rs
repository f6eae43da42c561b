//! The gradient of one optimiser step, summed over its passes in a fixed order.

use super::hands::{number, Sent};
use super::model::Net;
use super::passes::{values, Pass};
use super::task::Task;
use super::terms::{Terms, Tokens};
use super::thread::aside;
use super::update::Before;
use super::{Objective, PolicyError};
use tch::{Device, Kind, Tensor};

/// Gradients of passes are summed into this many sums, pass i into sum i modulo this, and these in their order: the same additions
/// on any number of threads and of processes up to this. On a GPU, where one thread does it all, memory counts for more and there is
/// one sum, which one process computes.
const LANES: usize = 8;

/// What one pass saw, a value a response token.
pub struct Seen {
    pub loss: Vec<f32>,
    pub kl: Vec<f32>,
    pub entropy: Vec<f32>,
    pub clipped: Vec<f32>,
    pub ratio: Vec<f32>,
    /// What isn't a number, if something isn't, and in which rows.
    wrong: Option<(&'static str, Vec<usize>)>,
}

/// What the passes of one sum found: the sum, if something was learnt, and what each of them saw.
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
            // A pass that found something wrong is told as an error.
            seen.push((pass, Seen { loss, kl, entropy, clipped, ratio, wrong: None }));
        }
        Some(Lane { sum, seen })
    }
}

/// The weight of each token of a row in the loss of a step.
pub type Weight<'a> = dyn Fn(usize) -> f64 + Sync + 'a;

/// The gradient of the loss of one step, flat, and what the passes saw.
pub fn gradients(net: &Net, before: &Before, task: &Task, passes: &[Pass], weight: &Weight) -> Result<(Tensor, Vec<Seen>), PolicyError> {
    let count = if net.device().is_cuda() { 1 } else { LANES };
    let lanes: Vec<Vec<usize>> = (0..count.min(passes.len())).map(|lane| (lane..passes.len()).step_by(count).collect()).collect();
    let nets = || (net.share(true), before.reference.as_ref().map(|reference| reference.share(false)));
    let done = before.hands.spread(nets, lanes.len(), |(net, reference), lane| {
        let mut sum: Option<Tensor> = None;
        let mut seen = Vec::new();
        for &i in &lanes[lane] {
            aside();
            let (gradient, one) = pass(net, reference.as_ref(), task, &passes[i], weight);
            if let Some((what, rows)) = one.wrong {
                return Err(PolicyError::NotFinite { model: before.name.into(), what: what.into(), rows });
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
    let mut total = before.flat.zeros_like();
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
fn pass(net: &Net, reference: Option<&Net>, task: &Task, pass: &Pass, weight: &Weight) -> (Option<Tensor>, Seen) {
    let tokens = Tokens { task, pass, net };
    let Terms { loss, kl, entropy, clipped, ratio, found } = tokens.terms(reference);
    let weights = tokens.each(&|row| weight(row) as f32) * tokens.part();
    let gradient = pass.learns().then(|| {
        let total = (&loss * &weights).sum(None);
        let gradients = Tensor::run_backward(&[total], &net.leaves(), false, false);
        Tensor::cat(&gradients.iter().map(|g| g.reshape([-1])).collect::<Vec<_>>(), 0)
    });
    let seen = tch::no_grad(|| {
        let (found, loss) = (values(&found), values(&loss));
        let what = if task.settings.objective == Objective::Value { "a value" } else { "a log-probability" };
        let wrong = culprits(task, pass, &found).map(|rows| (what, rows));
        let wrong = wrong.or_else(|| culprits(task, pass, &loss).map(|rows| ("the loss", rows)));
        let lost = gradient.as_ref().is_some_and(|gradient| !gradient.sum(None).double_value(&[]).is_finite());
        let wrong = wrong.or_else(|| lost.then(|| ("the gradient", sorted(pass.rows.iter().map(|&(row, _)| row)))));
        let clipped = values(&clipped.to_kind(Kind::Float));
        Seen { loss, kl: values(&kl), entropy: values(&entropy), clipped, ratio: values(&ratio), wrong }
    });
    (gradient, seen)
}

/// The rows with a token whose value isn't a number, if there are any.
fn culprits(task: &Task, pass: &Pass, values: &[f32]) -> Option<Vec<usize>> {
    let mut rest = values;
    let mut bad = Vec::new();
    for &(row, _) in &pass.rows {
        let (own, others) = rest.split_at(task.rows[row].len());
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
