//! Tokens that could have been written in place of a response token.

use crate::numbers::Tensor;

/// Some tokens of each choice of a pass, and how likely they are.
pub struct Listed {
    /// The tokens, `[choices, listed]`; none: the whole vocabulary, in its order.
    pub tokens: Option<Tensor>,
    /// Their log-probabilities, `[choices, listed]`.
    pub logprobs: Tensor,
    /// The sum of the other tokens' squared probabilities, `[choices]`. Without gradient.
    pub others: Tensor,
    /// What the logits were divided by, `[choices]`.
    pub temperatures: Tensor,
    /// Which of the pass's response tokens each choice is, `[choices]`.
    pub to: Tensor,
}

impl Listed {
    /// The same tensors.
    pub fn share(&self) -> Listed {
        let [logprobs, others, temperatures, to] = [&self.logprobs, &self.others, &self.temperatures, &self.to].map(Tensor::shallow_clone);
        Listed { tokens: self.tokens.as_ref().map(Tensor::shallow_clone), logprobs, others, temperatures, to }
    }

    /// The choices at these places, `[choices]`.
    pub fn select(&self, places: &Tensor) -> Listed {
        let [logprobs, others, temperatures, to] =
            [&self.logprobs, &self.others, &self.temperatures, &self.to].map(|tensor| tensor.index_select(0, places));
        Listed { tokens: self.tokens.as_ref().map(|tokens| tokens.index_select(0, places)), logprobs, others, temperatures, to }
    }
}
