//! What a net makes of response tokens: log-probabilities, entropies, how steep they are, and what else could have been
//! written.

use super::listed::Listed;
use crate::numbers::Tensor;

/// What is wanted of a pass.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    /// Figures alone.
    Figures,
    /// Gradients by the log-probabilities.
    Gradient,
    /// And by the entropies.
    WithEntropy,
    /// Figures, and of each choice the likeliest tokens, so many or the whole vocabulary: what a teacher is asked.
    Likeliest(Option<usize>),
    /// Gradients by the log-probabilities of these tokens of each choice, `[choices, listed]` or the whole vocabulary,
    /// and by no others.
    Listed(Option<&'a Tensor>),
}

impl Wanted<'_> {
    /// Whether gradients are wanted.
    pub fn learns(&self) -> bool {
        !matches!(self, Wanted::Figures | Wanted::Likeliest(_))
    }

    /// Whether gradients by the entropies are.
    pub fn bends(&self) -> bool {
        matches!(self, Wanted::WithEntropy)
    }
}

/// What a net makes of response tokens, each `[tokens]`.
pub struct TokenOutputs {
    /// Their log-probabilities, or a critic's values: gradients can be taken of them.
    pub logprobs: Tensor,
    /// The entropy of the distribution of each, in nats; without gradient unless `bend` is there.
    pub entropy: Tensor,
    /// The norm of the gradient of its log-probability by the logits that it was drawn from: sqrt((1 - p)^2 + the sum
    /// of the others' squared probabilities) / temperature; of a value, 1. Without gradient.
    pub slope: Tensor,
    /// Where the loss has an entropy in it: how its gradient g by those logits, g_j = -p_j (ln p_j + H) / temperature,
    /// lies beside that of the log-probability: the product of the two, and the square of g's norm. Without gradient.
    pub bend: Option<(Tensor, Tensor)>,
    /// Tokens that could have been written, where they are asked for. Then gradients are taken of their
    /// log-probabilities alone.
    pub listed: Option<Listed>,
}

impl TokenOutputs {
    /// Of a critic.
    pub fn of_values(values: Tensor) -> TokenOutputs {
        let (entropy, slope) = (values.zeros_like().detach(), values.ones_like().detach());
        TokenOutputs { entropy, slope, logprobs: values, bend: None, listed: None }
    }

    /// Of figures that were computed elsewhere than by libtorch: leaves, whose gradients can be taken where the pass
    /// `learns`.
    pub fn from_figures(
        logprobs: &[f32],
        entropy: &[f32],
        slope: &[f32],
        bend: Option<(Vec<f32>, Vec<f32>)>,
        learns: bool,
    ) -> TokenOutputs {
        TokenOutputs {
            logprobs: Tensor::from_slice(logprobs).set_requires_grad(learns),
            entropy: Tensor::from_slice(entropy).set_requires_grad(bend.is_some()),
            slope: Tensor::from_slice(slope),
            bend: bend.map(|(cross, square)| (Tensor::from_slice(&cross), Tensor::from_slice(&square))),
            listed: None,
        }
    }

    /// The gradients of `loss` by its differentiable inputs.
    pub fn gradients(&self, loss: &Tensor) -> Vec<Tensor> {
        Tensor::run_backward(&[loss], &self.differentiable(), false, false)
    }

    /// What gradients can be taken of.
    pub fn differentiable(&self) -> Vec<&Tensor> {
        match &self.listed {
            Some(listed) => vec![&listed.logprobs],
            None => std::iter::once(&self.logprobs).chain(self.bend.is_some().then_some(&self.entropy)).collect(),
        }
    }

    /// The same tensors.
    pub fn share(&self) -> TokenOutputs {
        let [logprobs, entropy, slope] = [&self.logprobs, &self.entropy, &self.slope].map(Tensor::shallow_clone);
        let bend = self.bend.as_ref().map(|(cross, square)| (cross.shallow_clone(), square.shallow_clone()));
        TokenOutputs { logprobs, entropy, slope, bend, listed: self.listed.as_ref().map(Listed::share) }
    }

    /// The norm of the gradient of a loss by the logits of each token, `[tokens]`, given its gradients by the
    /// log-probabilities and by the entropies.
    pub fn logit_grad(&self, by: &Tensor, by_entropy: Option<&Tensor>) -> Tensor {
        // Without libtorch nothing lists tokens.
        #[cfg(feature = "torch")]
        if let Some(listed) = &self.listed {
            return self.slope.zeros_like().index_copy(0, &listed.to, &super::distillation::logit_grad(listed, by));
        }
        match (&self.bend, by_entropy) {
            (Some((cross, square)), Some(entropy)) => {
                let sum = (by * &self.slope).square() + by * entropy * cross * 2.0 + entropy.square() * square;
                sum.clamp_min(0.0).sqrt()
            }
            _ => by.abs() * &self.slope,
        }
    }
}
