//! The seam between the update and its backends: libtorch, the engine, trainers. A learner gives for the tokens of rows
//! a log-probability and an entropy each ([`Tracer::trace`](super::tracer::Tracer::trace)), takes the gradient of a loss by these numbers
//! ([`Trace::back`](super::tracer::Trace::back)) and makes an optimiser step of it ([`Learner::step`]). It knows no loss and no rows of a log:
//! these stand in [`crate::update`], once.
//!
//! Distillation compares distributions. A teacher's pass lists the likeliest tokens of each choice with their
//! log-probabilities, and the policy's pass gives its own of the same tokens: nothing else crosses the seam, and
//! nothing is logged.
//!
//! libtorch and the engine compute here ([`crate::update`]'s `trace` and `local`); a trainer computes in processes of
//! its own ([`crate::trainer`]). Another one implements these three traits: [`Learner`], and those of `tracer`.

use crate::limits::RowLimits;
use crate::update::batch::{TokenWeight, UpdateBatch};
use crate::update::gradient::PassResult;
use crate::update::passes::{Pass, PassLimits, TrainingRow};
use flow_model::{Result, UpdateSettings};
use std::collections::BTreeMap;

/// A model during an update.
pub trait Learner {
    /// What its rows must fit.
    fn limits(&self) -> RowLimits;
    /// Optimiser steps that it has made.
    fn steps(&self) -> u64;
    /// The log-probability of each response token under the weights as they are, at `temperature` or each row at its
    /// own; `size` rows a pass.
    ///
    /// # Errors
    /// If it can't be computed.
    fn logprobs(&self, rows: &[TrainingRow], temperature: Option<f32>, size: usize) -> Result<Vec<Vec<f32>>>;
    /// Computes the gradient of the loss of step `number` of the update over `passes`, and gives the result of each.
    ///
    /// # Errors
    /// [`PolicyError::NotFinite`] with the rows of the first pass that found something that isn't a number.
    fn gradient(&mut self, number: u64, batch: &UpdateBatch, passes: &[Pass], weight: &TokenWeight) -> Result<Vec<PassResult>>;
    /// The positions that the passes of that gradient went over.
    fn tokens_read(&self, passes: &[Pass]) -> usize;
    /// Clips that gradient and makes a step at the learning rate `lr`; gives the gradient's norm before. One that isn't
    /// finite makes no step.
    ///
    /// # Errors
    /// If it can't be computed.
    fn step(&mut self, settings: &UpdateSettings, lr: f64) -> Result<f64>;
    /// Whether all weights are numbers.
    fn finite(&self) -> bool;
    /// The most that one of its passes holds.
    fn pass_limits(&self, settings: &UpdateSettings) -> PassLimits {
        PassLimits::from_settings(settings)
    }
    /// What it measured itself of the last step, by metric.
    fn measured(&mut self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }
}
