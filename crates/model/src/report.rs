//! What an update reports of itself and of each row that it was given.

use std::collections::BTreeMap;

/// What an update did. Means over tokens are over the tokens that took part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdateReport {
    /// The version of the weights that it made; the one there was where no row was left to learn from.
    pub version: u64,
    /// The objective, the KL term with it: the mean over the optimiser steps, each before its step.
    pub loss: f64,
    /// Mean over tokens of the divergence from the reference when there is a KL term, else (by k3) of the policy that
    /// acted from this one.
    pub kl: f64,
    /// Mean over response tokens of the entropy of the distribution they were drawn from, in nats; NaN where a trainer
    /// has log-probabilities alone.
    pub entropy: f64,
    /// The share of response tokens for which the clipped branch decided.
    pub clip_fraction: f64,
    /// Norm of the gradient before clipping: the mean over the optimiser steps.
    pub grad_norm: f64,
    /// Mean over tokens of how far the recorded log-probability is from the one that the update computes before its
    /// first step, in nats: what another arithmetic (bf16), another CPU, or weights that acted a while ago make of the
    /// same tokens. Nothing where no log-probability was recorded, or the ratios are a row's.
    pub gap: Option<f64>,
    /// The learning rate of the last optimiser step.
    pub lr: f64,
    /// Response tokens that took part.
    pub tokens: usize,
    /// Places that the passes of the optimiser steps went over, padding among them; those of a reference aren't counted
    /// again.
    pub computed: usize,
    /// Different tokens in the sequences of each optimiser step, summed over the steps: the least necessary number.
    pub distinct: usize,
    /// What its backend measures itself, by metric: seconds of the update's parts, tokens that a server was sent.
    pub measured: BTreeMap<String, f64>,
    /// One a row, in the rows' order.
    pub rows: Vec<RowReport>,
    /// The same by token: one a row; empty of a row that no pass has seen.
    pub tokens_of: Vec<TokenFigures>,
}

/// The figures of a row's response tokens from the update's last pass over it, before that optimiser step, one a token.
/// Of a token that took no part (`tokens: chosen`, a part of the response that isn't learnt) the gradient is 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenFigures {
    /// The ratio that is clipped.
    pub ratios: Vec<f32>,
    /// The entropy of the distribution that the token was drawn from, under the weights being trained, in nats; NaN, and
    /// the gradients too, where a trainer has log-probabilities alone.
    pub entropies: Vec<f32>,
    /// As [`RowReport::logit_grad`], of the token alone: the row's is the root of the sum of their squares.
    pub grads: Vec<f32>,
}

/// Whether a row was trained on, or why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowUse {
    /// It was trained on.
    #[default]
    Yes,
    /// `mask_below`: every token that was chosen in it is masked.
    MaskedLowProbability,
    /// `tokens: chosen`: nothing in it was chosen among several.
    Forced,
    /// `remainder: drop`: it was drawn into no full minibatch.
    Remainder,
}

impl RowUse {
    /// The text of column `used`.
    pub fn as_str(self) -> &'static str {
        match self {
            RowUse::Yes => "yes",
            RowUse::MaskedLowProbability => "masked_low_probability",
            RowUse::Forced => "forced",
            RowUse::Remainder => "remainder",
        }
    }
}

/// The figures of one row from the update's last pass over it, before that optimiser step. Means are over the row's
/// tokens that took part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowReport {
    /// Whether it was trained on.
    pub used: RowUse,
    /// Mean of the ratio that is clipped: the probability under the weights being trained over that under the old ones.
    pub ratio: f32,
    /// Share of the tokens for which the clipped branch decided.
    pub clip_share: f32,
    /// The row's part of the loss of its optimiser step: its tokens' losses, each times its weight. The rows of a step
    /// add up to its loss.
    pub loss_share: f32,
    /// Mean of the divergence of [`UpdateReport::kl`], in nats.
    pub kl: f32,
    /// The norm of the gradient of the step's loss by the logits of the row's tokens, before the gradient as a whole is
    /// clipped: how hard the row pulled at the policy. A token's is |w A f| sqrt((1 - p)^2 + the sum of the others'
    /// squared probabilities), with the parts of the KL term and of others; of a critic's value the error's. NaN where a
    /// trainer has log-probabilities alone.
    pub logit_grad: f32,
}

impl Default for RowReport {
    /// Of a row that no pass has seen.
    fn default() -> Self {
        RowReport { used: RowUse::Yes, ratio: 1.0, clip_share: 0.0, loss_share: 0.0, kl: 0.0, logit_grad: 0.0 }
    }
}
