//! One update: the next weights from rows, the loss of an optimiser step summed over all its rows however they are split into passes.

use super::adamw::{norm, step, Moments};
use super::gradient::{gradients, Seen, Weight};
use super::hands::Hands;
use super::loss;
use super::minibatch::{draw, Steps};
use super::model::Net;
use super::passes::{passes, Pass};
use super::task::Task;
use super::{Example, PolicyError, RowReport, UpdateReport, UpdateSettings, Use};
use tch::Tensor;

/// What an update starts from.
pub struct Before<'a> {
    pub name: &'a str,
    pub net: &'a Net,
    pub flat: &'a Tensor,
    pub moments: &'a Moments,
    pub reference: Option<Net>,
    pub seed: u64,
    pub hands: Hands<'a>,
}

/// New weights and moments, `None` when no row was left to learn from, and the report (its version is the caller's).
/// On an error nothing was changed.
pub fn update(
    before: &Before,
    examples: &[Example],
    settings: &UpdateSettings,
) -> Result<(Option<(Tensor, Moments)>, UpdateReport), PolicyError> {
    let mut task = Task::new(before.name, before.net, examples, settings, &before.hands)?;
    let kept = task.kept();
    let longest = kept.iter().map(|&row| task.rows[row].len()).max().unwrap_or(1) as f64;
    let Steps { steps, left } = draw(&kept, settings, before.seed);
    left.iter().for_each(|&row| task.used[row] = Use::Remainder);
    let mut report = UpdateReport { rows: vec![RowReport::default(); examples.len()], ..Default::default() };
    for (row, used) in report.rows.iter_mut().zip(&task.used) {
        row.used = *used;
    }
    if steps.is_empty() {
        return Ok((None, report));
    }
    let shape = &before.net.shape;
    let (mut flat, mut moments) = (before.flat.shallow_clone(), before.moments.share());
    let mut seen_tokens = 0.0;
    for which in &steps {
        let tokens = which.iter().map(|&row| task.tokens(row)).sum::<usize>();
        let weight =
            |row: usize| loss::weight(settings.aggregation, task.tokens(row), which.len(), tokens, settings.norm.unwrap_or(longest));
        let passes = passes(&task.rows, which, settings.micro_batch);
        let net = Net::new(shape, &flat, before.net.rope(), false);
        let (gradient, seen) = gradients(&net, before, &task, &passes, &weight)?;
        let size = norm(&gradient);
        if !size.is_finite() {
            return Err(PolicyError::NotFinite { model: before.name.into(), what: "the gradient".into(), rows: which.clone() });
        }
        for (pass, seen) in passes.iter().zip(&seen) {
            collect(&mut report, &task, pass, seen, &weight);
        }
        let scale = if settings.max_grad_norm > 0.0 { (settings.max_grad_norm / (size + 1e-6)).min(1.0) } else { 1.0 };
        let _guard = tch::no_grad_guard();
        (flat, moments) = step(&flat, &moments, &(gradient * scale), settings, shape.decayed());
        report.grad_norm += size;
        seen_tokens += tokens as f64;
    }
    report.tokens = task.kept().into_iter().map(|row| task.tokens(row)).sum();
    report.loss /= steps.len() as f64;
    report.grad_norm /= steps.len() as f64;
    for sum in [&mut report.kl, &mut report.entropy, &mut report.clip_fraction] {
        *sum /= seen_tokens;
    }
    if !norm(&flat).is_finite() {
        return Err(PolicyError::NotFinite { model: before.name.into(), what: "the weights".into(), rows: task.kept() });
    }
    Ok((Some((flat, moments)), report))
}

/// Adds what a pass saw to the report, in the order of its tokens.
fn collect(report: &mut UpdateReport, task: &Task, pass: &Pass, seen: &Seen, weight: &Weight) {
    let mut token = 0;
    for &(row, _) in &pass.rows {
        let own = token..token + task.rows[row].len();
        let sum = |values: &[f32]| {
            let own = values[own.clone()].iter().zip(&task.part[row]);
            own.filter(|(_, part)| **part).map(|(x, _)| f64::from(*x)).sum::<f64>()
        };
        let (loss, kl, clipped, tokens) = (sum(&seen.loss) * weight(row), sum(&seen.kl), sum(&seen.clipped), task.tokens(row) as f64);
        report.loss += loss;
        report.kl += kl;
        report.entropy += sum(&seen.entropy);
        report.clip_fraction += clipped;
        report.rows[row] = RowReport {
            used: Use::Yes,
            ratio: (sum(&seen.ratio) / tokens) as f32,
            clip_share: (clipped / tokens) as f32,
            loss_share: loss as f32,
            kl: (kl / tokens) as f32,
        };
        token = own.end;
    }
}
