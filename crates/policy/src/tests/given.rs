//! Weights and a learner that give the numbers of a case: losses are held against worked numbers without a model.

use crate::limits::RowLimits;
use crate::tensors::values;
use crate::update::batch::{TokenWeight, UpdateBatch};
use crate::update::chosen::chosen;
use crate::update::gradient::{self, PassResult};
use crate::update::learner::Learner;
use crate::update::outputs::TokenOutputs;
use crate::update::outputs::Wanted;
use crate::update::passes::{Pass, TrainingRow};
use crate::update::tracer::{Gradients, Trace, Tracer};
use flow_model::{Result, Sizes, UpdateSettings, END};
use std::cell::RefCell;
use tch::{Device, Tensor};

/// Weights that give each row's tokens these log-probabilities and entropies; and the gradient by the former.
pub struct Numbers {
    logprobs: Vec<Vec<f32>>,
    entropies: Vec<Vec<f32>>,
    /// The gradient by the log-probabilities, of each row.
    pub gradients: RefCell<Vec<Vec<f32>>>,
}

impl Numbers {
    /// Each row's log-probabilities, and its tokens' entropies; 0 where none are given.
    pub fn new(logprobs: Vec<Vec<f32>>, entropies: Option<Vec<Vec<f32>>>) -> Numbers {
        let zeros: Vec<Vec<f32>> = logprobs.iter().map(|row| vec![0.0; row.len()]).collect();
        Numbers { logprobs, entropies: entropies.unwrap_or_else(|| zeros.clone()), gradients: RefCell::new(zeros) }
    }
}

impl Tracer for Numbers {
    fn trace(&self, pass: &Pass, _: &[TrainingRow], _: Option<f32>, wanted: Wanted) -> Result<Box<dyn Trace + '_>> {
        let of = |rows: &[Vec<f32>]| pass.rows.iter().flat_map(|row| rows[*row].clone()).collect::<Vec<f32>>();
        let zeros = vec![0.0; of(&self.logprobs).len()];
        let bend = wanted.bends().then(|| (zeros.clone(), zeros.clone()));
        let outputs = TokenOutputs::from_figures(&of(&self.logprobs), &of(&self.entropies), &zeros, bend, wanted.learns());
        Ok(Box::new(Computed { outputs, rows: pass.rows.clone(), gradients: &self.gradients }))
    }

    fn device(&self) -> Device {
        Device::Cpu
    }
}

struct Computed<'a> {
    outputs: TokenOutputs,
    rows: Vec<usize>,
    gradients: &'a RefCell<Vec<Vec<f32>>>,
}

impl Trace for Computed<'_> {
    fn outputs(&self) -> &TokenOutputs {
        &self.outputs
    }

    fn back(&self, loss: &Tensor) -> Result<Gradients> {
        let outputs = self.outputs.gradients(loss);
        let mut left = values(&outputs[0]).into_iter();
        let mut gradients = self.gradients.borrow_mut();
        for row in &self.rows {
            let tokens = gradients[*row].len();
            gradients[*row] = left.by_ref().take(tokens).collect();
        }
        Ok(Gradients { weights: None, outputs })
    }
}

/// Weights that give one token this distribution; and the gradient by its logits.
pub struct Distribution {
    /// Probabilities.
    pub shares: Vec<f32>,
    /// The gradient by their logarithms.
    pub gradient: RefCell<Vec<f32>>,
}

impl Tracer for Distribution {
    fn trace(&self, _: &Pass, _: &[TrainingRow], _: Option<f32>, wanted: Wanted) -> Result<Box<dyn Trace + '_>> {
        let logits = Tensor::from_slice(&self.shares).log().unsqueeze(0).set_requires_grad(wanted.learns());
        let outputs = chosen(logits.shallow_clone(), &Tensor::from_slice(&[0i64]), &[1.0], None, wanted);
        Ok(Box::new(Drawn { outputs, logits, gradient: &self.gradient }))
    }

    fn device(&self) -> Device {
        Device::Cpu
    }
}

struct Drawn<'a> {
    outputs: TokenOutputs,
    logits: Tensor,
    gradient: &'a RefCell<Vec<f32>>,
}

impl Trace for Drawn<'_> {
    fn outputs(&self) -> &TokenOutputs {
        &self.outputs
    }

    fn back(&self, loss: &Tensor) -> Result<Gradients> {
        let listed = &self.outputs.listed.as_ref().unwrap().logprobs;
        let mut by = Tensor::run_backward(&[loss], &[&self.logits, listed], false, false);
        *self.gradient.borrow_mut() = values(&by[0]);
        Ok(Gradients { weights: None, outputs: vec![by.remove(1)] })
    }
}

/// A learner with such weights. It makes no step.
pub struct Given<'a> {
    /// The log-probabilities that the update starts from.
    pub start: Vec<Vec<f32>>,
    /// The tokens that KL-Cov or Clip-Cov selected; empty: none is given.
    pub covary: Vec<Vec<bool>>,
    /// The weights that train.
    pub policy: &'a dyn Tracer,
    /// The reference or the teacher.
    pub reference: Option<&'a dyn Tracer>,
    /// Of each row whether each of its tokens took part, and whether it was clipped.
    pub clipped: Vec<(Vec<bool>, Vec<f32>)>,
}

impl Learner for Given<'_> {
    fn limits(&self) -> RowLimits {
        RowLimits { sizes: Sizes { vocab: 64, rows: 64, context: 64, width: 8, value: false, cached: 0 }, ends: vec![END].into() }
    }

    fn steps(&self) -> u64 {
        0
    }

    fn logprobs(&self, _: &[TrainingRow], _: Option<f32>, _: usize) -> Result<Vec<Vec<f32>>> {
        Ok(self.start.clone())
    }

    fn gradient(&mut self, _: u64, batch: &UpdateBatch, passes: &[Pass], weight: &TokenWeight) -> Result<Vec<PassResult>> {
        let mut again = UpdateBatch::new("actor", &self.limits(), &|_| Ok(self.start.clone()), batch.examples, batch.settings, 0)?;
        if !self.covary.is_empty() {
            again.covary = self.covary.clone();
        }
        let mut results = Vec::new();
        for pass in passes {
            let (_, result) = gradient::pass("actor", self.policy, self.reference, &again, pass, weight)?;
            let mut left = result.clipped.iter().copied();
            for row in &pass.rows {
                self.clipped[*row] = (again.part[*row].clone(), left.by_ref().take(again.part[*row].len()).collect());
            }
            results.push(result);
        }
        Ok(results)
    }

    fn tokens_read(&self, _: &[Pass]) -> usize {
        0
    }

    fn step(&mut self, _: &UpdateSettings, _: f64) -> Result<f64> {
        Ok(0.0)
    }

    fn finite(&self) -> bool {
        true
    }
}
