//! The KL divergence from a reference model as a part of the reward: what the setting `kl` of `reward` subtracts.

use super::select::examples;
use arrow::array::{Float32Array, RecordBatch};
use flow_core::row::{self, RowError, View};
use flow_dataflow::Failed;
use flow_model::Objective;
use flow_policy::Policy;
use std::sync::Arc;

/// The log-ratio of each response token between the acting policy and `reference` (the initial `model`, if none), in
/// nats; `temperature` replaces that of the rows. Fails where the policy does.
pub fn strays(
    view: &View,
    policy: &Policy,
    model: &str,
    reference: Option<&str>,
    temperature: Option<f32>,
) -> Result<Vec<Vec<f32>>, Failed> {
    let which: Vec<usize> = (0..view.len()).collect();
    let examples = examples(view, &which, Objective::Sft, policy.tokenizer(model)?.ends())?;
    let reference = policy.reference_logprobs(model, reference, examples.clone(), temperature)?;
    Ok(examples.iter().zip(&reference).map(|(row, reference)| each(&row.logprobs, reference)).collect())
}

/// The log-ratio d of each token: the log-probability with which it was sampled minus that under the reference.
fn each(acted: &[f32], reference: &[f32]) -> Vec<f32> {
    acted.iter().zip(reference).map(|(acted, reference)| (f64::from(*acted) - f64::from(*reference)) as f32).collect()
}

/// The log-ratio of a response, in nats: the sum over its tokens. Its expectation under the policy is the KL divergence
/// (Schulman 2020, estimator k1).
pub fn log_ratio(tokens: &[f32]) -> f64 {
    tokens.iter().map(|d| f64::from(*d)).sum()
}

/// The rows with the column `token_rewards`: minus `weight` times the log-ratio of each token (REINFORCE++, Hu 2025,
/// Eq. 3).
pub fn charged(view: &View, strays: &[Vec<f32>], weight: f32) -> Result<Vec<RecordBatch>, RowError> {
    let rewards: Vec<Vec<f32>> = strays.iter().map(|row| row.iter().map(|d| -weight * d).collect()).collect();
    view.with(vec![("token_rewards", row::f32_lists(rewards.iter().map(Vec::as_slice)))])
}

/// The rows with `weight` times the log-ratio of the response subtracted from each reward.
pub fn less(view: &View, strays: &[f64], weight: f32) -> Result<Vec<RecordBatch>, RowError> {
    let rows = view.read(&["reward"])?;
    let rewards = row::f32s(&rows, "reward")?.values().iter().zip(strays);
    let rewards = rewards.map(|(reward, strays)| (f64::from(*reward) - f64::from(weight) * strays) as f32);
    view.with(vec![("reward", Arc::new(Float32Array::from_iter_values(rewards)))])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two turns. The first one chooses a or b at 0.5 each, as the reference does. After a the policy is still the
    /// reference; after b it says x at 0.9 and y at 0.1, where the reference has 0.5 each: a divergence of 0.9 ln 1.8 +
    /// 0.1 ln 0.2 = 0.368064. By the reward the first turn answers for it: the gradient of its logit is 0.5 * 0.5 *
    /// 0.368064 = 0.092016 towards a. A term in the loss of the first turn is 0 there, whatever comes later: the policy
    /// is the reference.
    #[test]
    fn a_divergence_in_the_reward_reaches_the_turns_before() {
        let half = 0.5f32.ln();
        // Each way to go: its probability, the direction of the first turn's logit, and what was drawn with what
        // log-probability in the second.
        let ways = [(0.25, 0.5, half), (0.25, 0.5, half), (0.45, -0.5, 0.9f32.ln()), (0.05, -0.5, 0.1f32.ln())];
        let mut rewards: Vec<f32> = Vec::new();
        for (_, _, second) in ways {
            let rows = [row::batch(vec![
                ("turn", Arc::new(arrow::array::UInt32Array::from(vec![0, 1])) as arrow::array::ArrayRef),
                ("reward", Arc::new(Float32Array::from(vec![0.0, 0.0]))),
            ])
            .unwrap()];
            let strays = [log_ratio(&each(&[half], &[half])), log_ratio(&each(&[second], &[half]))];
            let charged_rows = less(&View::sorted(&rows).unwrap().unwrap(), &strays, 1.0).unwrap();
            rewards.extend(row::f32s(&charged_rows[0], "reward").unwrap().values());
        }
        assert!(rewards.iter().step_by(2).all(|first| *first == 0.0), "the first turn itself doesn't stray");
        let returns = flow_credit::step_return(&rewards, &[0..2, 2..4, 4..6, 6..8], 1.0);
        let gradient: f64 = ways.iter().zip(returns.iter().step_by(2)).map(|((p, towards, _), log_ratio)| p * towards * log_ratio).sum();
        assert!((gradient - 0.092016).abs() < 1e-6, "{gradient}");
    }
}
