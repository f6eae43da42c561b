//! One update: the next weights from rows, the loss of an optimiser step summed over all its rows however they are split into passes.

use super::adamw::{norm, step, Moments};
use super::loss;
use super::model::Net;
use super::passes::{passes, values, Pass, Row};
use super::spread::spread;
use super::{Example, Objective, PolicyError, RowReport, UpdateReport, UpdateSettings};
use crate::seed::{mix, Random};
use tch::Tensor;

/// Gradients of passes are summed into this many sums, pass i into sum i modulo this, and these in their order: the same additions
/// on any number of threads. On a GPU, where one thread does it all, memory counts for more and there is one sum.
const LANES: usize = 8;

/// What an update starts from.
pub struct Before<'a> {
    pub name: &'a str,
    pub net: &'a Net,
    pub flat: &'a Tensor,
    pub moments: &'a Moments,
    pub reference: Option<Net>,
    pub seed: u64,
    pub threads: usize,
}

/// What one pass saw, a value a response token.
struct Seen {
    loss: Vec<f32>,
    kl: Vec<f32>,
    entropy: Vec<f32>,
    clipped: Vec<f32>,
    ratio: Vec<f32>,
    sound: bool,
}

/// The rows of an update with what every pass needs of them.
struct Task<'a> {
    examples: &'a [Example],
    rows: Vec<Row<'a>>,
    settings: &'a UpdateSettings,
}

/// New weights, new moments and the report (its version is the caller's). On an error nothing was changed.
pub fn update(before: &Before, examples: &[Example], settings: &UpdateSettings) -> Result<(Tensor, Moments, UpdateReport), PolicyError> {
    check(examples, settings)?;
    let shape = &before.net.shape;
    let rows = examples.iter().enumerate().map(|(i, e)| Row::new(i, e, shape)).collect::<Result<Vec<_>, _>>()?;
    let task = Task { examples, rows, settings };
    let longest = task.rows.iter().map(Row::len).max().unwrap_or(1) as f64;
    let (mut flat, mut moments) = (before.flat.shallow_clone(), before.moments.share());
    let mut report = UpdateReport { rows: vec![RowReport::default(); examples.len()], ..Default::default() };
    let (mut steps, mut seen_tokens) = (0.0, 0.0);
    for epoch in 0..settings.epochs {
        for which in minibatches(examples.len(), settings.minibatch, mix(before.seed, epoch as u64)) {
            let tokens = which.iter().map(|&i| task.rows[i].len()).sum::<usize>();
            let weight = |row: usize| {
                loss::weight(settings.aggregation, task.rows[row].len(), which.len(), tokens, settings.norm.unwrap_or(longest))
            };
            let passes = passes(&task.rows, &which, settings.micro_batch);
            let net = Net::new(shape, &flat, before.net.rope(), false);
            let (gradient, seen) = gradients(&net, before, &task, &passes, &weight)?;
            let size = norm(&gradient);
            if !size.is_finite() {
                return Err(PolicyError::NotFinite { model: before.name.into(), what: "the gradient", rows: which });
            }
            for (pass, seen) in passes.iter().zip(&seen) {
                collect(&mut report, &task, pass, seen, &weight);
            }
            let scale = if settings.max_grad_norm > 0.0 { (settings.max_grad_norm / (size + 1e-6)).min(1.0) } else { 1.0 };
            let _guard = tch::no_grad_guard();
            (flat, moments) = step(&flat, &moments, &(gradient * scale), settings, shape.decayed());
            report.grad_norm += size;
            steps += 1.0;
            seen_tokens += tokens as f64;
        }
    }
    report.tokens = task.rows.iter().map(Row::len).sum();
    report.loss /= steps;
    report.grad_norm /= steps;
    for sum in [&mut report.kl, &mut report.entropy, &mut report.clip_fraction] {
        *sum /= seen_tokens;
    }
    if !norm(&flat).is_finite() {
        return Err(PolicyError::NotFinite { model: before.name.into(), what: "the weights", rows: (0..examples.len()).collect() });
    }
    Ok((flat, moments, report))
}

/// Refuses what no update can be made from.
fn check(examples: &[Example], settings: &UpdateSettings) -> Result<(), PolicyError> {
    if examples.is_empty() {
        return Err(PolicyError::Settings("an update needs at least one row".into()));
    }
    if settings.epochs == 0 || settings.micro_batch == 0 || settings.temperature <= 0.0 {
        return Err(PolicyError::Settings("epochs, micro_batch and temperature of an update must be above 0".into()));
    }
    let acted = settings.objective == Objective::PolicyGradient;
    for (row, example) in examples.iter().enumerate() {
        if acted && (example.logprobs.len() != example.response.len() || example.logprobs.iter().any(|x| !x.is_finite())) {
            let what = format!("{} tokens need as many log-probabilities, and numbers", example.response.len());
            return Err(PolicyError::Row { row, what });
        }
    }
    Ok(())
}

/// The rows of each optimiser step: all of them, or a draw without replacement.
fn minibatches(rows: usize, size: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..rows).collect();
    if size == 0 || size >= rows {
        return vec![order];
    }
    Random::new(seed).shuffle(&mut order);
    order.chunks(size).map(<[usize]>::to_vec).collect()
}

/// The gradient of the loss of one step, flat, and what the passes saw.
fn gradients(
    net: &Net,
    before: &Before,
    task: &Task,
    passes: &[Pass],
    weight: &(dyn Fn(usize) -> f64 + Sync),
) -> Result<(Tensor, Vec<Seen>), PolicyError> {
    let count = if net.device().is_cuda() { 1 } else { LANES };
    let lanes: Vec<Vec<usize>> = (0..count.min(passes.len())).map(|lane| (lane..passes.len()).step_by(count).collect()).collect();
    let nets = || (net.share(true), before.reference.as_ref().map(|reference| reference.share(false)));
    let done = spread(before.threads, nets, &lanes, |(net, reference), lane| {
        let mut sum: Option<Tensor> = None;
        let mut seen = Vec::new();
        for &i in lane {
            let (gradient, one) = pass(net, reference.as_ref(), task, &passes[i], weight);
            let bad = |x: &[f32]| x.iter().any(|x| !x.is_finite());
            if !one.sound || bad(&one.loss) {
                let rows = culprits(task, &passes[i], &one);
                let what = if bad(&one.loss) { "the loss" } else { "the gradient" };
                return Err(PolicyError::NotFinite { model: before.name.into(), what, rows });
            }
            if let Some(gradient) = gradient {
                sum = Some(match sum {
                    None => gradient,
                    Some(mut sum) => sum.g_add_(&gradient),
                });
            }
            seen.push((i, one));
        }
        Ok((sum, seen))
    })?;
    let mut total = before.flat.zeros_like();
    let mut seen = Vec::new();
    for (sum, part) in done {
        if let Some(sum) = sum {
            total += sum;
        }
        seen.extend(part);
    }
    seen.sort_by_key(|(i, _)| *i);
    Ok((total, seen.into_iter().map(|(_, one)| one).collect()))
}

/// Forward and backward of one pass.
fn pass(net: &Net, reference: Option<&Net>, task: &Task, pass: &Pass, weight: &dyn Fn(usize) -> f64) -> (Option<Tensor>, Seen) {
    let settings = task.settings;
    let (new, entropy) = pass.logprobs(net, &task.rows, settings.temperature);
    let tokens = || pass.rows.iter().flat_map(|&(row, _)| std::iter::repeat_n(row, task.rows[row].len()));
    let tensor = |values: Vec<f32>| Tensor::from_slice(&values).to_device(net.device());
    let weights = tensor(tokens().map(|row| weight(row) as f32).collect());
    let old = match settings.objective {
        Objective::Sft => new.detach(),
        Objective::PolicyGradient => tensor(pass.rows.iter().flat_map(|&(row, _)| task.examples[row].logprobs.iter().copied()).collect()),
    };
    let ratio = loss::ratio(&new, &old);
    let (mut loss, clipped) = match settings.objective {
        Objective::Sft => (-&new, new.zeros_like()),
        Objective::PolicyGradient => {
            let advantage = tensor(tokens().map(|row| task.examples[row].advantage).collect());
            loss::policy(&ratio, &advantage, settings.clip, settings.clip_high.unwrap_or(settings.clip), settings.dual_clip)
        }
    };
    let kl = match reference {
        Some(reference) => {
            let base = tch::no_grad(|| pass.logprobs(reference, &task.rows, settings.temperature).0);
            let kl = loss::divergence(&new, &base, settings.kl_kind);
            loss = loss.g_add(&(&kl * settings.kl));
            kl
        }
        None => tch::no_grad(|| loss::divergence(&new, &old, super::KlKind::K3)),
    };
    let gradient = pass.learns().then(|| {
        let total = (&loss * &weights).sum(None);
        let gradients = Tensor::run_backward(&[total], &net.leaves(), false, false);
        Tensor::cat(&gradients.iter().map(|g| g.reshape([-1])).collect::<Vec<_>>(), 0)
    });
    let sound = gradient.as_ref().is_none_or(|gradient| gradient.sum(None).double_value(&[]).is_finite());
    let seen = tch::no_grad(|| Seen {
        loss: values(&loss),
        kl: values(&kl),
        entropy: values(&entropy),
        clipped: values(&clipped.to_kind(tch::Kind::Float)),
        ratio: values(&ratio),
        sound,
    });
    (gradient, seen)
}

/// The rows whose loss isn't a number, or all of the pass when only the gradient isn't.
fn culprits(task: &Task, pass: &Pass, seen: &Seen) -> Vec<usize> {
    let mut rest = seen.loss.as_slice();
    let mut rows = Vec::new();
    for &(row, _) in &pass.rows {
        let (own, others) = rest.split_at(task.rows[row].len());
        if own.iter().any(|x| !x.is_finite()) {
            rows.push(row);
        }
        rest = others;
    }
    if rows.is_empty() {
        rows = pass.rows.iter().map(|&(row, _)| row).collect();
    }
    rows.sort_unstable();
    rows
}

/// Adds what a pass saw to the report, in the order of its tokens.
fn collect(report: &mut UpdateReport, task: &Task, pass: &Pass, seen: &Seen, weight: &dyn Fn(usize) -> f64) {
    let mut token = 0;
    for &(row, _) in &pass.rows {
        let own = token..token + task.rows[row].len();
        let sum = |values: &[f32]| values[own.clone()].iter().map(|&x| x as f64).sum::<f64>();
        report.loss += sum(&seen.loss) * weight(row);
        report.kl += sum(&seen.kl);
        report.entropy += sum(&seen.entropy);
        report.clip_fraction += sum(&seen.clipped);
        report.rows[row].ratio = (sum(&seen.ratio) / own.len() as f64) as f32;
        token = own.end;
    }
}
