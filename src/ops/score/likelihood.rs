//! How the log-probabilities of a text's tokens become its score.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the log-probabilities of a text's tokens become its score. EAPO's paper says q(e, m | s) and leaves open whether
/// it is normalised by length: a raw probability of some fifty tokens underflows, so that the mean a token is the
/// default here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The probability of the text: exp of their sum, which counts as -60 at least (EAPO's released code).
    Sequence,
    /// The geometric mean of the tokens' probabilities: exp of their mean.
    #[default]
    TokenMean,
    /// Their sum itself, in nats.
    LogProb,
}

/// The least that a sum counts as in [`Mode::Sequence`], in nats.
const LEAST: f64 = -60.0;

impl Mode {
    /// The score of a text whose tokens have these log-probabilities; that of a text without tokens, which is certain.
    pub fn score(self, tokens: &[f32]) -> f32 {
        let sum: f64 = tokens.iter().map(|x| f64::from(*x)).sum();
        let score = match self {
            Mode::Sequence => sum.clamp(LEAST, 0.0).exp(),
            Mode::TokenMean => (sum / tokens.len().max(1) as f64).exp(),
            Mode::LogProb => sum,
        };
        score as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probabilities 1/2, 1/4 and 1: the text has 1/8, its tokens 1/2 in the geometric mean, and ln 1/8 = -2.079442.
    #[test]
    fn the_modes_as_worked_by_hand() {
        let tokens = [0.5f32.ln(), 0.25f32.ln(), 0.0];
        let close = |mode: Mode, expected: f32| assert!((mode.score(&tokens) - expected).abs() < 1e-6, "{mode:?}");
        close(Mode::Sequence, 0.125);
        close(Mode::TokenMean, 0.5);
        close(Mode::LogProb, -2.079442);
        // Two hundred tokens of probability 1/2: -138.6 nats count as -60.
        let long = [0.5f32.ln(); 200];
        assert!((Mode::Sequence.score(&long) / (-60f32).exp() - 1.0).abs() < 1e-5);
        assert!((Mode::TokenMean.score(&long) - 0.5).abs() < 1e-6);
        assert_eq!([Mode::Sequence, Mode::TokenMean, Mode::LogProb].map(|mode| mode.score(&[])), [1.0, 1.0, 0.0]);
    }
}
