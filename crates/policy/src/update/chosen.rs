//! What logits make of response tokens, by libtorch: the figures of the chosen token, and of the tokens that a
//! distillation lists.

use crate::update::listed::Listed;
use crate::update::outputs::{TokenOutputs, Wanted};
use tch::{Kind, Tensor};

/// Of each row of `logits` `[choices, vocabulary]` what its token of `target` is at the row's temperature, among the
/// tokens that `mask` (added to the logits) leaves; and the further figures that are `wanted`.
pub fn chosen(mut logits: Tensor, target: &Tensor, temperatures: &[f32], mask: Option<Tensor>, wanted: Wanted) -> TokenOutputs {
    let bends = wanted.bends();
    if temperatures.iter().any(|&temperature| temperature != 1.0) {
        logits = tempered(&logits, temperatures);
    }
    if let Some(mask) = mask {
        logits += mask;
    }
    let all = logits.log_softmax(-1, None);
    let target = target.unsqueeze(1);
    let logprobs = all.gather(1, &target, false).squeeze_dim(1);
    let entropy_of = || -(all.exp() * &all).sum_dim_intlist(-1, false, None);
    let entropy = if bends { entropy_of() } else { tch::no_grad(entropy_of) };
    let (slope, bend) = tch::no_grad(|| {
        let shares = all.exp();
        let divisors = Tensor::from_slice(temperatures).to_device(logits.device());
        // The others' shares, and not all less the chosen one's: little is lost where that is nearly 1.
        let others = shares.scatter_value(1, &target, 0.0).square().sum_dim_intlist(-1, false, None);
        let bend = bends.then(|| {
            let slopes = -(&shares * (&all + entropy.unsqueeze(1))) / divisors.unsqueeze(1);
            let mean = (&shares * &slopes).sum_dim_intlist(-1, false, None);
            let cross = (slopes.gather(1, &target, false).squeeze_dim(1) - mean) / &divisors;
            (cross, slopes.square().sum_dim_intlist(-1, false, None))
        });
        ((logprobs.expm1().square() + others).sqrt() / divisors, bend)
    });
    let listed = listed(&all, wanted).map(|(tokens, logprobs)| {
        let others = tch::no_grad(|| match &tokens {
            Some(tokens) => all.exp().scatter_value(1, tokens, 0.0).square().sum_dim_intlist(-1, false, None),
            None => logprobs.detach().select(1, 0).zeros_like(),
        });
        let temperatures = Tensor::from_slice(temperatures).to_device(all.device());
        let to = Tensor::arange(all.size()[0], (Kind::Int64, all.device()));
        Listed { tokens, logprobs, others, temperatures, to }
    });
    TokenOutputs { logprobs, entropy, slope, bend, listed }
}

/// The tokens that are `wanted` of each row of `all`, log-probabilities `[choices, vocabulary]`, and theirs: none where
/// it is the whole vocabulary.
fn listed(all: &Tensor, wanted: Wanted) -> Option<(Option<Tensor>, Tensor)> {
    match wanted {
        Wanted::Likeliest(Some(count)) if (count as i64) < all.size()[1] => {
            let (logprobs, tokens) = all.topk(count as i64, -1, true, true);
            Some((Some(tokens), logprobs))
        }
        Wanted::Listed(Some(tokens)) => Some((Some(tokens.shallow_clone()), all.gather(1, tokens, false))),
        Wanted::Likeliest(_) | Wanted::Listed(None) => Some((None, all.shallow_clone())),
        _ => None,
    }
}

/// Each row of `logits` `[choices, vocabulary]` divided by its own temperature.
fn tempered(logits: &Tensor, temperatures: &[f32]) -> Tensor {
    logits / Tensor::from_slice(temperatures).view([-1, 1]).to_device(logits.device())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::values;
    use crate::update::loss;
    use flow_model::NEVER;

    /// Probabilities 1/8, 2/8, 5/8, the second chosen: (1 - 1/4)^2 + (1/8)^2 + (5/8)^2 = 0.96875, whose root is
    /// 0.984251. The others are held to autograd: at two temperatures, with one token not allowed, and where p is
    /// 0.9999.
    #[test]
    fn a_slope_is_the_norm_of_the_gradient_by_the_logits() {
        let rows = [[0.0, 2f32.ln(), 5f32.ln()], [0.3, -1.0, 0.8], [9.2, 0.0, -0.5], [0.1, 0.2, 0.3]].concat();
        let logits = Tensor::from_slice(&rows).view([4, 3]).set_requires_grad(true);
        let mask = Tensor::from_slice(&[0.0; 9].into_iter().chain([0.0, NEVER as f32, 0.0]).collect::<Vec<f32>>()).view([4, 3]);
        let target = Tensor::from_slice(&[1i64, 0, 0, 2]);
        let outputs = chosen(logits.shallow_clone(), &target, &[1.0, 0.7, 1.0, 2.0], Some(mask), Wanted::WithEntropy);
        let by = Tensor::run_backward(&[outputs.logprobs.sum(None)], &[&logits], false, false).remove(0);
        let norms = values(&by.square().sum_dim_intlist(-1, false, None).sqrt());
        let slopes = values(&outputs.slope);
        assert!((slopes[0] - 0.984_251).abs() < 1e-6, "{slopes:?}");
        // Autograd takes a share of nearly 1 off 1, and loses three digits.
        assert!(slopes.iter().zip(&norms).all(|(slope, norm)| (slope / norm - 1.0).abs() < 1e-3), "{slopes:?} {norms:?}");
        assert!(slopes[2] > 2e-4 && slopes[2] < 2.1e-4);
        // The loss -0.5 ln p - 0.3 H of each token, its whole gradient by autograd.
        let outputs = chosen(logits.shallow_clone(), &target, &[1.0, 0.7, 1.0, 2.0], None, Wanted::WithEntropy);
        let loss: Tensor = &outputs.logprobs * -0.5 - &outputs.entropy * 0.3;
        let by = Tensor::run_backward(&[loss.sum(None)], &[&logits], false, false).remove(0);
        let norms = values(&by.square().sum_dim_intlist(-1, false, None).sqrt());
        let found = values(&outputs.logit_grad(&Tensor::from_slice(&[-0.5f32; 4]), Some(&Tensor::from_slice(&[-0.3f32; 4]))));
        assert!(found.iter().zip(&norms).all(|(found, norm)| (found - norm).abs() < 1e-3 * norm + 1e-6), "{found:?} {norms:?}");
    }

    /// Logits (1, 0), drawn at 0.5 and at 2, learnt from with the weights that drew them: every ratio is 1. With 1 in
    /// place of 0.5 the ratios would be 0.7311 / 0.8808 = 0.830 and 0.2689 / 0.1192 = 2.256.
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
