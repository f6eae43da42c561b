//! The learner in this process: libtorch or the engine computes, on all threads and in all processes of the run, and
//! the weights and AdamW's moments are vectors here.

use crate::limits::RowLimits;
use crate::model::Net;
use crate::moments::Moments;
use crate::tensors::values;
use crate::update::adamw::{decays, norm, step};
use crate::update::batch::{TokenWeight, UpdateBatch};
use crate::update::gradient::PassResult;
use crate::update::lanes::{gradients, GradientStep};
use crate::update::learner::Learner;
use crate::update::outputs::Wanted;
use crate::update::parallel::Parallel;
use crate::update::passes::{read_rows, Pass, TrainingRow};
use crate::update::tracer::Tracer;
use flow_core::seed::mix;
use flow_model::Result;
use flow_model::UpdateSettings;
use tch::Tensor;

/// A model that learns here.
pub struct LocalLearner<'a> {
    name: &'a str,
    net: Net,
    reference: Option<Net>,
    seed: u64,
    parallel: Parallel<'a>,
    flat: Tensor,
    moments: Moments,
    gradient: Option<Tensor>,
}

impl<'a> LocalLearner<'a> {
    /// The model called `name`: `net` with its newest weights, and its optimiser's `moments`. A KL term measures the
    /// divergence from `reference`. `seed` decides what an adapter's dropout leaves out.
    pub fn new(name: &'a str, net: Net, moments: Moments, reference: Option<Net>, seed: u64, parallel: Parallel<'a>) -> LocalLearner<'a> {
        let flat = net.flat().shallow_clone();
        LocalLearner { name, net, reference, seed, parallel, flat, moments, gradient: None }
    }

    /// What it has come to: weights `[parameters]` and moments.
    pub fn outcome(self) -> (Tensor, Moments) {
        (self.flat, self.moments)
    }
}

impl Learner for LocalLearner<'_> {
    fn limits(&self) -> RowLimits {
        self.net.limits()
    }

    fn steps(&self) -> u64 {
        self.moments.steps
    }

    fn logprobs(&self, rows: &[TrainingRow], temperature: Option<f32>, size: usize) -> Result<Vec<Vec<f32>>> {
        logprobs(&self.net, rows, temperature, size, &self.parallel)
    }

    fn gradient(&mut self, number: u64, batch: &UpdateBatch, passes: &[Pass], weight: &TokenWeight) -> Result<Vec<PassResult>> {
        let net = self.net.with(&self.flat, false).seeded(mix(self.seed, number));
        let step = GradientStep { name: self.name, net: &net, reference: self.reference.as_ref(), batch, weight, parallel: self.parallel };
        let (gradient, results) = gradients(&step, passes)?;
        self.gradient = Some(gradient);
        Ok(results)
    }

    fn tokens_read(&self, passes: &[Pass]) -> usize {
        passes.iter().map(Pass::computed).sum()
    }

    fn step(&mut self, settings: &UpdateSettings, lr: f64) -> Result<f64> {
        let Some(gradient) = self.gradient.take() else { return Ok(0.0) };
        let size = norm(&gradient);
        if size.is_finite() {
            let scale = if settings.max_grad_norm > 0.0 { (settings.max_grad_norm / (size + 1e-6)).min(1.0) } else { 1.0 };
            let _guard = tch::no_grad_guard();
            let decayed = decays(self.net.layout(), settings);
            (self.flat, self.moments) = step(&self.flat, &self.moments, &(gradient * scale), settings, lr, &decayed);
        }
        Ok(size)
    }

    fn finite(&self) -> bool {
        norm(&self.flat).is_finite()
    }
}

/// What `net` makes of each response token of `rows`: its log-probability, at `temperature` or each row at its own, or
/// a critic's value. At equal weights and temperatures the same as recorded by generation up to rounding.
pub fn logprobs(net: &Net, rows: &[TrainingRow], temperature: Option<f32>, size: usize, parallel: &Parallel) -> Result<Vec<Vec<f32>>> {
    read_rows(rows, size, |passes| {
        parallel.spread(
            || net.share(false),
            passes.len(),
            |net, pass| Ok(values(&net.trace(&passes[pass], rows, temperature, Wanted::Figures)?.outputs().logprobs)),
        )
    })
}
