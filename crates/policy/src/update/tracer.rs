//! Weights that compute passes, and the gradients that they take: the lower half of the seam that `learner` describes.

use crate::numbers::{Device, Tensor};
use crate::update::outputs::{TokenOutputs, Wanted};
use crate::update::passes::{Pass, TrainingRow};
use flow_model::Result;

/// Weights that compute passes.
pub trait Tracer {
    /// What the weights make of each response token of the rows of `pass`, at `temperature` or each row at its own.
    ///
    /// # Errors
    /// If it can't be computed.
    fn trace(&self, pass: &Pass, rows: &[TrainingRow], temperature: Option<f32>, wanted: Wanted) -> Result<Box<dyn Trace + '_>>;

    /// Where the outputs lie.
    fn device(&self) -> Device;
}

/// A pass that was computed.
pub trait Trace {
    /// The result: one value a response token.
    fn outputs(&self) -> &TokenOutputs;
    /// Takes the gradient of `loss`, which was made of the outputs, on to the weights.
    ///
    /// # Errors
    /// If it can't be computed.
    fn back(&self, loss: &Tensor) -> Result<Gradients>;
}

/// The gradients of a loss.
pub struct Gradients {
    /// By the weights, `[parameters]`; none where the learner keeps and sums them itself.
    pub weights: Option<Tensor>,
    /// By the log-probabilities or values and, where the loss has them in it, by the entropies; or by those of listed
    /// tokens.
    pub outputs: Vec<Tensor>,
}
