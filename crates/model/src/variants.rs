//! What an update can be told by a word: objectives, loss shapes, divergences, masks, means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an update optimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The clipped policy gradient of PPO, from the rows' advantages.
    #[default]
    PolicyGradient,
    /// Cross-entropy of the responses: supervised learning. Over the whole vocabulary for a row without choices, over
    /// what they allow for one with.
    Sft,
    /// REINFORCE (Williams 1992) towards a posterior, as EAPO learns q(e, m | s) (Eq. 8): a row's loss is -(beta A - kl
    /// (log q - log p)) log q, where A is the row's advantage, q the model, p the reference, and the bracket is a
    /// number that no gradient goes through. The row need not have been drawn by the model. The log-probabilities are
    /// the sums over the row's tokens by `aggregation: seq_mean_token_sum`, their means by `seq_mean_token_mean`: one
    /// of the two must be said.
    Reinforce,
    /// The clipped value loss of PPO's code: a critic (a model with a value head) learns the rows' value targets.
    Value,
    /// Distillation (GKD, Agarwal et al. 2024): at each response token, the divergence between what the policy and what
    /// a teacher could have written there. The teacher is `reference`, `reference_ema`, or the model as it was when the
    /// run began. It reads the same prompt, or that of the column `teacher_tokens` where rows have it. No token's
    /// distribution is logged: the teacher is computed in each forward pass.
    Distill,
}

/// The divergence of `objective: distill`, in nats: p is the policy, q the teacher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Divergence {
    /// KL(p || q), the sum of p (ln p - ln q): seeks a mode of the teacher (OPD, OPSD, SDPO).
    #[default]
    ReverseKl,
    /// KL(q || p), the sum of q (ln q - ln p): covers all that the teacher would write.
    ForwardKl,
    /// The generalised Jensen-Shannon divergence (GKD, Eq. 1; TRL's `beta`): beta KL(q || m) + (1 - beta) KL(p || m),
    /// with m = beta q + (1 - beta) p.
    Jsd,
}

/// The estimate of the divergence from the reference; d is the log-probability less the reference's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KlKind {
    /// d. Its expected gradient is zero, so it does not restrain the policy; use it for reporting.
    K1,
    /// d^2 / 2
    K2,
    /// exp(-d) + d - 1
    #[default]
    K3,
    /// |d|, without a slope within 1e-5 of 0
    Abs,
}

/// What is clipped: a ratio a token, or one a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RatioKind {
    /// Of each token's probabilities (PPO, GRPO).
    #[default]
    Token,
    /// The geometric mean of the row's token ratios (GSPO, Zheng et al. 2025, Eq. 7), with clips of 3e-4 and 4e-4 in
    /// its section 5.1. Its objective (Eq. 5) is a mean over rows: `aggregation: seq_mean_token_mean`.
    Sequence,
}

/// How a token's ratio and advantage become its loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Surrogate {
    /// The lesser of the ratio times the advantage and the clipped ratio times the advantage (PPO, Schulman et al.
    /// 2017, Eq. 7).
    #[default]
    Clip,
    /// The clipped ratio, which no gradient goes through, times the advantage times the log-probability (CISPO of
    /// MiniMax-M1, arXiv 2506.13585): a token beyond the clip still learns. The paper has no lower bound: `clip: 1`.
    Cispo,
    /// A gate in place of the clip, 4 / tau sigmoid(tau (ratio - 1)), times the advantage (SAPO, arXiv 2511.20347): its
    /// slope is 1 at a ratio of 1, and falls on either side.
    Sapo,
    /// The geometric mean of a row's ratios, each clipped beforehand, times the advantage (GMPO, arXiv 2507.20673).
    /// `clip` and `clip_high` bound the logarithm of a ratio, 0.4 each in the paper. A mean over rows:
    /// `aggregation: seq_mean_token_mean`.
    Gmpo,
    /// The ratio times the advantage, without a clip. A token is masked whose probability has gone the way of its
    /// advantage by more than `clip_high` upwards or `clip` downwards, measured by `region` (DPPO, arXiv 2602.04879;
    /// prime-rl's default loss, with 0.2).
    Dppo,
    /// The ratio times the advantage, without a clip. Of the tokens whose log-probability and advantage lie above the
    /// means together the most, the share `covary`, |log ratio| is added to the loss (KL-Cov, arXiv 2505.22617). A log
    /// ratio within 1e-5 of 0 has no slope. The tokens are chosen once an update, among all that the policy chose, by
    /// the log-probabilities that were recorded; verl chooses anew in each forward pass. Where the sampler's numbers
    /// differ by more than rounding (a server, bf16), use `old: recomputed`.
    KlCov,
    /// As `clip`, but the share `covary` of the tokens learns nothing: drawn at random among those whose covariance, as
    /// of `kl_cov`, lies between `covary_above` and `covary_below` (Clip-Cov, arXiv 2505.22617). They are drawn once an
    /// update, before a ratio is known, so some are tokens that the clip decides besides; verl draws among the others.
    ClipCov,
    /// phi(W) times the advantage times the log-probability, where W is the product of a row's ratios and phi(W) = W^k
    /// exp(lambda (1 - W)) a number that no gradient goes through (VESPO, arXiv 2602.10693; TRL): 1 at W = 1, and near
    /// 0 far from it on either side. `power` is k, `damping` lambda.
    Vespo,
    /// A function of the user's own.
    #[serde(skip)]
    Function,
}

/// How far a token's probability has gone from the old one, for `surrogate: dppo`: DPPO has both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustRegion {
    /// The difference of the two probabilities (DPPO-Binary-TV).
    #[default]
    Tv,
    /// The divergence, in nats, between the old choice of this token or any other and the new one (DPPO-Binary-KL).
    Kl,
}

/// The log-probabilities that a ratio divides by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RatioDenominator {
    /// The log-probabilities that the policy recorded when it acted (PPO).
    #[default]
    Recorded,
    /// Those under the weights that the update starts from. Each token is then weighted by how much likelier these
    /// weights make it than the policy that acted did, at most `truncate` times: decoupled PPO (Hilton et al. 2022)
    /// with truncated importance sampling (Ionides 2008; Yao et al. 2025).
    Recomputed,
}

/// How the losses of tokens become one number. Always over all rows of an optimiser step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Mean over all response tokens.
    #[default]
    TokenMean,
    /// Sum over a response's tokens, mean over rows.
    SeqMeanTokenSum,
    /// Mean over a response's tokens, mean over rows.
    SeqMeanTokenMean,
    /// Sum over a response's tokens, mean over rows, divided by a constant (`norm`): Dr.GRPO.
    SeqMeanTokenSumNorm,
    /// Mean over all tokens of a trajectory's responses, mean over trajectories: 1/G sum of 1/|a_i| (EAPO, Eq. 2). A
    /// trajectory is an attempt: those of its rows that are in the optimiser step.
    TrajectoryMeanTokenMean,
    /// Sum over a response's tokens, mean over a trajectory's turns, mean over trajectories: 1/G sum of 1/T (SLEA-RL,
    /// Eq. 7, where a step is a turn).
    TrajectoryMeanTurnMean,
}

/// How much one improbable token masks: EMPO2's paper and its released code differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaskUnit {
    /// Itself (the paper, section 4.2).
    #[default]
    Token,
    /// The whole row (the released code, with a log-probability of -5: `mask_below: 0.0067`).
    Row,
}

/// By which weights a token is improbable, and what it is then left out of: EMPO2's paper and its released code differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaskFrom {
    /// By those of each optimiser step, and out of the policy's term alone: the divergence counts it, and means divide
    /// by all tokens (the paper, Eq. 2).
    #[default]
    Current,
    /// By the log-probabilities at the update's start, and out of everything: the loss, the divergence, any mean (the
    /// released code).
    Start,
}

/// Which response tokens count. A forced token is one that no other could have stood for among the choices that were
/// left: its probability is 1 whatever the weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountedTokens {
    /// All, forced ones too: they make every mean over tokens smaller and GSPO's length longer.
    #[default]
    All,
    /// Tokens that were chosen among several.
    Chosen,
}

/// How rows are treated that don't fill a minibatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Remainder {
    /// They are a smaller minibatch.
    #[default]
    Keep,
    /// They are left out, the same ones in every epoch.
    Drop,
}

/// The schedule of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Constant.
    #[default]
    Constant,
    /// Linear decay.
    Linear,
    /// Cosine decay.
    Cosine,
}
