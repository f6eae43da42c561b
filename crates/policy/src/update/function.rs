//! A surrogate that a function of the user's own computes: its losses as numbers, and its gradient as a term that is 0.

use crate::numbers::{values, Kind, Tensor};
use crate::update::surrogate::SurrogateInput;
use flow_model::{LossTokens, PolicyError, Result, TokenLoss};

/// What a function makes of the tokens of a pass.
pub struct FunctionLoss {
    /// The loss of each token, `[tokens]`, without a gradient.
    pub loss: Tensor,
    /// Whether it holds the token back, `[tokens]`.
    pub clipped: Tensor,
    /// A number that is 0 and whose gradient is that of the weighted sum of the losses.
    pub slope: Tensor,
}

/// The losses by `function`. `weight` is what each token's loss is multiplied by in the loss of the step.
///
/// # Errors
/// [`PolicyError::Function`] with its own error, or the fault of its values.
pub fn loss(function: &dyn TokenLoss, tokens: &SurrogateInput, entropy: &Tensor, weight: &Tensor) -> Result<FunctionLoss> {
    let row: Vec<u32> = values(&tokens.rows.place).into_iter().map(|row| row as u32).collect();
    let [new, old, acted, advantage, entropies, part, weights] =
        [tokens.new, tokens.old, tokens.acted, tokens.advantage, entropy, &tokens.rows.part, weight].map(|tensor| values(&tensor.detach()));
    let count = new.len();
    let asked = LossTokens { new, old, acted, advantage, entropy: entropies, row, part, weight: weights };
    let answer = function.values(&asked).map_err(PolicyError::Function)?;
    let lengths = [answer.loss.len(), answer.by_new.len(), answer.by_entropy.len().max(count), answer.clipped.len().max(count)];
    if lengths.iter().any(|length| *length != count) {
        return Err(PolicyError::Function(format!("its loss has other lengths than the {count} tokens")));
    }
    let there = |numbers: &[f32]| Tensor::from_slice(numbers).to_device(tokens.new.device());
    // Each is 0: a value less itself.
    let slope = |of: &Tensor, by: &[f32]| ((of - of.detach()) * there(by)).sum(None);
    let mut slopes = slope(tokens.new, &answer.by_new);
    if !answer.by_entropy.is_empty() {
        slopes += slope(entropy, &answer.by_entropy);
    }
    let clipped = match answer.clipped.is_empty() {
        true => tokens.new.detach().zeros_like(),
        false => there(&answer.clipped.iter().map(|clipped| f32::from(u8::from(*clipped))).collect::<Vec<_>>()),
    };
    Ok(FunctionLoss { loss: there(&answer.loss), clipped: clipped.to_kind(Kind::Bool), slope: slopes })
}
