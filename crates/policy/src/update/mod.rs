//! One update: the next weights from rows, the loss of an optimiser step summed over all its rows however they are
//! split into passes.

#[cfg(feature = "torch")]
mod adamw;
pub mod batch;
#[cfg(feature = "torch")]
pub mod chosen;
#[cfg(feature = "torch")]
mod distillation;
mod function;
pub mod gradient;
#[cfg(feature = "torch")]
mod lanes;
pub mod learner;
pub mod listed;
#[cfg(feature = "torch")]
pub mod local;
mod loss;
mod minibatch;
pub mod outputs;
#[cfg(feature = "torch")]
pub mod parallel;
pub mod passes;
mod schedule;
mod surrogate;
mod terms;
#[cfg(feature = "torch")]
mod trace;
pub mod tracer;

use crate::attention::AttentionLayout;
use batch::{TokenWeight, UpdateBatch};
use flow_model::{Example, ModelFault, PolicyError, Result};
use flow_model::{Objective, RatioKind, UpdateSettings};
use flow_model::{RowReport, RowUse, TokenFigures, UpdateReport};
use gradient::PassResult;
use learner::Learner;
use loss::StepCounts;
use minibatch::{draw, Steps};
use passes::{passes, Pass, Passes, TrainingRow};
use std::collections::BTreeMap;

/// Has `learner`, the model called `name`, learn from `examples`. Gives the report, whose version is up to the caller,
/// and whether a step was made: none where no row was left to learn from. `seed` decides which rows make up each
/// minibatch.
///
/// # Errors
/// If a row or a setting makes no sense, or something isn't a number.
pub fn update(
    name: &str,
    learner: &mut dyn Learner,
    examples: &[Example],
    settings: &UpdateSettings,
    seed: u64,
) -> Result<(bool, UpdateReport)> {
    let mut batch = {
        let start = |rows: &[TrainingRow]| learner.logprobs(rows, settings.at(), settings.micro_batch);
        UpdateBatch::new(name, &learner.limits(), &start, examples, settings, seed)?
    };
    let used_rows = batch.used_rows();
    let longest = used_rows.iter().map(|&row| batch.rows[row].len()).max().unwrap_or(1) as f64;
    let Steps { steps, left } = draw(&used_rows, settings, seed);
    left.iter().for_each(|&row| batch.used[row] = RowUse::Remainder);
    let mut report = UpdateReport {
        rows: vec![RowReport::default(); examples.len()],
        tokens_of: vec![TokenFigures::default(); examples.len()],
        ..Default::default()
    };
    for (row, used) in report.rows.iter_mut().zip(&batch.used) {
        row.used = *used;
    }
    if steps.is_empty() {
        return Ok((false, report));
    }
    let mut step_tokens = 0.0;
    for (number, which) in steps.iter().enumerate() {
        let tokens = which.iter().map(|&row| batch.tokens(row)).sum::<usize>();
        let trajectories = trajectories(&batch, which);
        let norm_of = settings.norm.unwrap_or(longest);
        let counts = StepCounts { rows: which.len(), tokens, trajectories: trajectories.len(), norm: norm_of };
        let weight = |row: usize| {
            let (turns, written) = trajectories.get(&batch.examples[row].trajectory).copied().unwrap_or((1, 1));
            loss::weight(settings.aggregation, batch.tokens(row), turns, written, &counts)
        };
        let Passes { passes, distinct } = passes(&batch.rows, which, learner.pass_limits(settings), AttentionLayout::Packed);
        let results = learner.gradient(number as u64, &batch, &passes, &weight)?;
        report.computed += learner.tokens_read(&passes);
        for (pass, result) in passes.iter().zip(&results) {
            collect(&mut report, &batch, pass, result, &weight);
        }
        if number == 0 {
            report.gap = gap(&batch, &passes, &results);
        }
        report.lr = settings.lr * schedule::share(settings, learner.steps() + 1);
        let size = learner.step(settings, report.lr)?;
        if !size.is_finite() {
            return Err(PolicyError::NotFinite { model: name.into(), what: "the gradient".into(), rows: which.clone() });
        }
        report.grad_norm += size;
        learner.measured().into_iter().for_each(|(name, figure)| *report.measured.entry(name).or_default() += figure);
        report.distinct += distinct;
        step_tokens += tokens as f64;
    }
    report.tokens = batch.used_rows().into_iter().map(|row| batch.tokens(row)).sum();
    report.loss /= steps.len() as f64;
    report.grad_norm /= steps.len() as f64;
    for sum in [&mut report.kl, &mut report.entropy, &mut report.clip_fraction] {
        *sum /= step_tokens;
    }
    if !learner.finite() {
        // The gradients were numbers, so no row is to blame.
        return Err(PolicyError::model(name, ModelFault::NoStep { lr: report.lr }));
    }
    Ok((true, report))
}

/// Of each trajectory with rows among `which`: how many these are, and how many of their tokens take part.
fn trajectories(batch: &UpdateBatch, which: &[usize]) -> BTreeMap<u64, (usize, usize)> {
    let mut all = BTreeMap::new();
    for &row in which {
        let (turns, written) = all.entry(batch.examples[row].trajectory).or_insert((0, 0));
        *turns += 1;
        *written += batch.tokens(row);
    }
    all
}

/// See [`UpdateReport::gap`]: from the ratios of the first step, or from the log-probabilities that were computed
/// before it.
fn gap(batch: &UpdateBatch, passes: &[Pass], results: &[PassResult]) -> Option<f64> {
    if batch.settings.objective != Objective::PolicyGradient {
        return None;
    }
    let mut distances: Vec<f64> = Vec::new();
    if let Some(start) = &batch.start {
        let rows = passes.iter().flat_map(|pass| &pass.rows).map(|&row| (row, &start[row], &batch.examples[row].logprobs));
        let tokens = rows.flat_map(|(row, start, acted)| start.iter().zip(acted).zip(&batch.part[row]));
        distances.extend(tokens.filter(|(_, part)| **part).map(|((start, acted), _)| f64::from((start - acted).abs())));
    } else if batch.settings.ratio == RatioKind::Token {
        for (pass, result) in passes.iter().zip(results) {
            let part = pass.rows.iter().flat_map(|&row| &batch.part[row]);
            distances.extend(result.ratio.iter().zip(part).filter(|(_, part)| **part).map(|(ratio, _)| f64::from(ratio.ln().abs())));
        }
    }
    (!distances.is_empty()).then(|| distances.iter().sum::<f64>() / distances.len() as f64)
}

/// Adds what a pass saw to the report, token by token in their order.
fn collect(report: &mut UpdateReport, batch: &UpdateBatch, pass: &Pass, result: &PassResult, weight: &TokenWeight) {
    let mut token = 0;
    for &row in &pass.rows {
        let own = token..token + batch.rows[row].len();
        let sum = |values: &[f32]| {
            let own = values[own.clone()].iter().zip(&batch.part[row]);
            own.filter(|(_, part)| **part).map(|(x, _)| f64::from(*x)).sum::<f64>()
        };
        let (loss, kl, clipped, tokens) =
            (sum(&result.loss) * weight(row), sum(&result.kl), sum(&result.clipped), batch.tokens(row) as f64);
        let own_grads = result.logit_grad[own.clone()].iter().zip(&batch.part[row]).filter(|(_, part)| **part);
        let squares: f64 = own_grads.map(|(x, _)| f64::from(*x).powi(2)).sum();
        report.loss += loss;
        report.kl += kl;
        report.entropy += sum(&result.entropy);
        report.clip_fraction += clipped;
        // With a divergence or an entropy in the loss such a row still has a part in it.
        let masked = batch.settings.kl == 0.0 && batch.settings.entropy == 0.0 && !result.masked.is_empty() && {
            let masked = result.masked[own.clone()].iter().zip(&batch.part[row]);
            !batch.rows[row].teaches(&masked.map(|(masked, part)| *masked == 0.0 && *part).collect::<Vec<bool>>())
        };
        token = own.end;
        if masked {
            report.rows[row] = RowReport { used: RowUse::MaskedLowProbability, ..Default::default() };
            report.tokens_of[row] = TokenFigures::default();
            continue;
        }
        let part = |values: &[f32]| values[own.clone()].to_vec();
        let grads = part(&result.logit_grad).into_iter().zip(&batch.part[row]).map(|(grad, part)| if *part { grad } else { 0.0 });
        report.tokens_of[row] = TokenFigures { ratios: part(&result.ratio), entropies: part(&result.entropy), grads: grads.collect() };
        report.rows[row] = RowReport {
            used: RowUse::Yes,
            ratio: (sum(&result.ratio) / tokens) as f32,
            clip_share: (clipped / tokens) as f32,
            loss_share: loss as f32,
            kl: (kl / tokens) as f32,
            logit_grad: squares.sqrt() as f32,
        };
    }
}
