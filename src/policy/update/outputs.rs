//! What a net makes of response tokens: log-probabilities, entropies, and how steep they are.

use tch::Tensor;

/// What a net makes of response tokens, each `[tokens]`.
pub struct TokenOutputs {
    /// Their log-probabilities, or a critic's values: gradients can be taken of them.
    pub logprobs: Tensor,
    /// The entropy of what each was drawn from, in nats; without gradient.
    pub entropy: Tensor,
    /// The norm of the gradient of its log-probability by the logits that it was drawn from: sqrt((1 - p)^2 + the sum of the others' squared
    /// probabilities) / temperature; of a value, 1. Without gradient.
    pub slope: Tensor,
}

impl TokenOutputs {
    /// Of a critic.
    pub fn of_values(values: Tensor) -> TokenOutputs {
        TokenOutputs { entropy: values.zeros_like().detach(), slope: values.ones_like().detach(), logprobs: values }
    }

    /// The same tensors.
    pub fn share(&self) -> TokenOutputs {
        let [logprobs, entropy, slope] = [&self.logprobs, &self.entropy, &self.slope].map(Tensor::shallow_clone);
        TokenOutputs { logprobs, entropy, slope }
    }
}

/// Of each row of `logits` `[choices, vocabulary]` what its token of `target` is at the row's temperature, among those that `mask`, which is
/// added, leaves.
pub fn chosen(mut logits: Tensor, target: &Tensor, temperatures: &[f32], mask: Option<Tensor>) -> TokenOutputs {
    if temperatures.iter().any(|&temperature| temperature != 1.0) {
        logits = tempered(&logits, temperatures);
    }
    if let Some(mask) = mask {
        logits += mask;
    }
    let all = logits.log_softmax(-1, None);
    let target = target.unsqueeze(1);
    let logprobs = all.gather(1, &target, false).squeeze_dim(1);
    let (entropy, slope) = tch::no_grad(|| {
        let shares = all.exp();
        let entropy = -(&shares * &all).sum_dim_intlist(-1, false, None);
        // The others' shares, and not all less the chosen one's: little is lost where that is nearly 1.
        let others = shares.scatter_value(1, &target, 0.0).square().sum_dim_intlist(-1, false, None);
        (entropy, (logprobs.expm1().square() + others).sqrt() / Tensor::from_slice(temperatures).to_device(logits.device()))
    });
    TokenOutputs { logprobs, entropy, slope }
}

/// Each row of `logits` `[choices, vocabulary]` divided by its own temperature.
fn tempered(logits: &Tensor, temperatures: &[f32]) -> Tensor {
    logits / Tensor::from_slice(temperatures).view([-1, 1]).to_device(logits.device())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::NEVER;
    use crate::policy::tensors::values;
    use crate::policy::update::loss;
    use tch::Kind;

    /// Probabilities 1/8, 2/8, 5/8, the second chosen: (1 - 1/4)^2 + (1/8)^2 + (5/8)^2 = 0.96875, whose root is 0.984251. The others are held to
    /// autograd: at two temperatures, with one token not allowed, and where p is 0.9999.
    #[test]
    fn a_slope_is_the_norm_of_the_gradient_by_the_logits() {
        let rows = [[0.0, 2f32.ln(), 5f32.ln()], [0.3, -1.0, 0.8], [9.2, 0.0, -0.5], [0.1, 0.2, 0.3]].concat();
        let logits = Tensor::from_slice(&rows).view([4, 3]).set_requires_grad(true);
        let mask = Tensor::from_slice(&[0.0; 9].into_iter().chain([0.0, NEVER as f32, 0.0]).collect::<Vec<f32>>()).view([4, 3]);
        let target = Tensor::from_slice(&[1i64, 0, 0, 2]);
        let outputs = chosen(logits.shallow_clone(), &target, &[1.0, 0.7, 1.0, 2.0], Some(mask));
        let by = Tensor::run_backward(&[outputs.logprobs.sum(None)], &[&logits], false, false).remove(0);
        let norms = values(&by.square().sum_dim_intlist(-1, false, None).sqrt());
        let slopes = values(&outputs.slope);
        assert!((slopes[0] - 0.984_251).abs() < 1e-6, "{slopes:?}");
        // Autograd takes a share of nearly 1 off 1, and loses three digits.
        assert!(slopes.iter().zip(&norms).all(|(slope, norm)| (slope / norm - 1.0).abs() < 1e-3), "{slopes:?} {norms:?}");
        assert!(slopes[2] > 2e-4 && slopes[2] < 2.1e-4);
    }

    /// Logits (1, 0), drawn at 0.5 and at 2, learnt from with the weights that drew them: every ratio is 1. With 1 in place of 0.5 the ratios
    /// would be 0.7311 / 0.8808 = 0.830 and 0.2689 / 0.1192 = 2.256.
    #[test]
    fn each_row_is_read_at_the_temperature_that_it_was_drawn_at() {
        let logits = Tensor::from_slice(&[1f32, 0.0, 1.0, 0.0]).view([2, 2]);
        let drawn = Tensor::from_slice(&[2f32, 0.0, 0.5, 0.0]).view([2, 2]).log_softmax(-1, Kind::Float);
        let ratios = |temperatures: &[f32]| {
            let new = tempered(&logits, temperatures).log_softmax(-1, Kind::Float);
            values(&loss::ratio(&new, &drawn).view([-1]))
        };
        assert!(ratios(&[0.5, 2.0]).iter().all(|ratio| (ratio - 1.0).abs() < 1e-6));
        let wrong = ratios(&[1.0, 2.0]);
        assert!((wrong[0] - 0.830).abs() < 1e-3 && (wrong[1] - 2.256).abs() < 1e-3, "{wrong:?}");
    }
}
