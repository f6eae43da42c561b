//! The loss of tokens by a function of the user's own: what it gets, and what it gives.

use std::fmt;
use std::sync::Arc;

/// The tokens of a pass, a value each, in the order of their rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossTokens {
    /// The log-probabilities under the weights that learn.
    pub new: Vec<f32>,
    /// The log-probabilities that a ratio divides by.
    pub old: Vec<f32>,
    /// Those recorded by the policy that acted.
    pub acted: Vec<f32>,
    /// The advantages.
    pub advantage: Vec<f32>,
    /// The entropies, in nats.
    pub entropy: Vec<f32>,
    /// Which row of the pass the token is in, from 0.
    pub row: Vec<u32>,
    /// 1 of a token that takes part, else 0.
    pub part: Vec<f32>,
    /// What the token's loss is multiplied by in the loss of the step: 0 of one that takes no part.
    pub weight: Vec<f32>,
}

/// What a function makes of them, a value a token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossValues {
    /// The losses.
    pub loss: Vec<f32>,
    /// The derivative of the weighted sum of all losses by each log-probability `new`.
    pub by_new: Vec<f32>,
    /// The same by the entropies; empty where the function doesn't read them.
    pub by_entropy: Vec<f32>,
    /// Whether the loss holds the token back, for the figures of clipping; empty where the function doesn't say it.
    pub clipped: Vec<bool>,
}

/// A function from tokens to their losses.
pub trait TokenLoss: Send + Sync {
    /// Whether its gradient by the entropies counts.
    fn reads_entropy(&self) -> bool;
    /// The losses of the tokens of a pass, and their derivatives.
    ///
    /// # Errors
    /// In words: what the function raised, or what is wrong with its values.
    fn values(&self, tokens: &LossTokens) -> Result<LossValues, String>;
}

/// Such a function, as settings carry it.
#[derive(Clone)]
pub struct LossFunction(pub Arc<dyn TokenLoss>);

impl PartialEq for LossFunction {
    fn eq(&self, other: &LossFunction) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for LossFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a function")
    }
}
