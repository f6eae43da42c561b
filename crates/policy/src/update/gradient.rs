//! Forward and backward of one pass: the loss of its tokens, and its gradient.

use crate::numbers::{indices, no_grad, values, Kind, Tensor};
use crate::update::batch::{TokenWeight, UpdateBatch};
use crate::update::outputs::{TokenOutputs, Wanted};
use crate::update::passes::{Pass, TrainingRow};
use crate::update::terms::{PassTokens, Terms};
use crate::update::tracer::{Gradients, Tracer};
use flow_model::Objective;
use flow_model::{PolicyError, Result};

/// What one pass computed, one value per response token; see [`Terms`].
pub struct PassResult {
    /// The token's loss, without its weight.
    pub loss: Vec<f32>,
    /// Its divergence.
    pub kl: Vec<f32>,
    /// The entropy of the distribution it was drawn from.
    pub entropy: Vec<f32>,
    /// 1 where the clipped branch decided, else 0.
    pub clipped: Vec<f32>,
    /// Its ratio.
    pub ratio: Vec<f32>,
    /// The norm of the gradient of the step's loss by the logits that it was drawn from; by the value, of a critic.
    pub logit_grad: Vec<f32>,
    /// 1 where the weights of the step mask its policy term, else 0; empty where nothing masks by them.
    pub masked: Vec<f32>,
}

/// Forward and backward of one pass: the gradient by the weights, unless the learner keeps it, and the result.
///
/// # Errors
/// [`PolicyError::NotFinite`] with the rows that have something that isn't a number, and what the learner says.
pub fn pass(
    name: &str,
    tracer: &dyn Tracer,
    reference: Option<&dyn Tracer>,
    batch: &UpdateBatch,
    pass: &Pass,
    weight: &TokenWeight,
) -> Result<(Option<Tensor>, PassResult)> {
    let distills = batch.settings.objective == Objective::Distill;
    // First, so that only one of the two is in memory at a time.
    let base = match reference {
        Some(teacher) if distills => taught(teacher, batch, pass)?,
        Some(reference) => Some(reference.trace(pass, &batch.rows, batch.settings.at(), Wanted::Figures)?.outputs().share()),
        None => None,
    };
    let wanted = match base.as_ref().and_then(|base| base.listed.as_ref()) {
        Some(listed) => Wanted::Listed(listed.tokens.as_ref()),
        None if batch.settings.entropy == 0.0 && !batch.settings.function.as_ref().is_some_and(|of| of.0.reads_entropy()) => {
            Wanted::Gradient
        }
        None => Wanted::WithEntropy,
    };
    let trace = tracer.trace(pass, &batch.rows, batch.settings.at(), wanted)?;
    let tokens = PassTokens { batch, pass, outputs: trace.outputs(), weight, device: tracer.device() };
    let Terms { loss, kl, clipped, ratio, masked, outputs, slope } = tokens.terms(base)?;
    // What takes no part is put aside before it is weighted: infinity times 0 isn't 0.
    let loss = loss.masked_fill(&tokens.part().eq(0.0), 0.0);
    let mut total = (&loss * tokens.weights()).sum(None);
    if let Some(slope) = &slope {
        total += slope;
    }
    let not_finite = |what: &'static str, rows| Err(PolicyError::NotFinite { model: name.into(), what: what.into(), rows });
    let logprobs = values(&outputs.logprobs);
    if let Some(rows) = culprits(batch, pass, &logprobs) {
        return not_finite(if batch.settings.objective == Objective::Value { "a value" } else { "a log-probability" }, rows);
    }
    let losses = values(&loss);
    if let Some(rows) = culprits(batch, pass, &losses) {
        return not_finite("the loss", rows);
    }
    let gradients = if pass.learns() { Some(trace.back(&total)?) } else { None };
    let lost = |gradient: &Tensor| !gradient.sum(None).double_value(&[]).is_finite();
    if gradients.as_ref().and_then(|gradients| gradients.weights.as_ref()).is_some_and(lost) {
        return not_finite("the gradient", sorted(pass.rows.iter().copied()));
    }
    let result = no_grad(|| {
        let by = gradients.as_ref().map(|gradients| &gradients.outputs);
        let logit_grad = by.map_or_else(|| vec![0.0; loss.numel()], |by| values(&outputs.logit_grad(&by[0], by.get(1))));
        let entropy = values(&outputs.entropy);
        let clipped = values(&clipped.to_kind(Kind::Float));
        let masked = masked.map_or(vec![], |masked| values(&masked.to_kind(Kind::Float)));
        PassResult { loss: losses, kl: values(&kl), entropy, clipped, ratio: values(&ratio), logit_grad, masked }
    });
    Ok((gradients.and_then(|Gradients { weights, .. }| weights), result))
}

/// What a teacher would have written at the choices of `pass`; nothing where none was made.
fn taught(teacher: &dyn Tracer, batch: &UpdateBatch, pass: &Pass) -> Result<Option<TokenOutputs>> {
    if !pass.learns() {
        return Ok(None);
    }
    let wanted = Wanted::Likeliest(batch.settings.top_k);
    let read = |pass: &Pass, rows: &[TrainingRow]| -> Result<TokenOutputs> {
        Ok(teacher.trace(pass, rows, batch.settings.at(), wanted)?.outputs().share())
    };
    let Some(rows) = &batch.taught else { return read(pass, &batch.rows).map(Some) };
    // Behind other prompts the rows lie in another order.
    let (own, places) = pass.reread(rows);
    let outputs = read(&own, rows)?;
    let places = indices(&places, teacher.device());
    let listed = outputs.listed.map(|listed| listed.select(&places));
    Ok(Some(TokenOutputs { listed, ..outputs }))
}

/// The rows with a token whose value isn't a number, if there are any.
fn culprits(batch: &UpdateBatch, pass: &Pass, values: &[f32]) -> Option<Vec<usize>> {
    let mut rest = values;
    let mut bad = Vec::new();
    for &row in &pass.rows {
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
