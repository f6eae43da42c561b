//! The advantage that a node upstream made, compared once more: the second step of REINFORCE++ with baseline (Hu 2025),
//! which whitens over the batch after the comparison within a task.

use super::Estimator;
use serde_json::json;

pub(super) static ESTIMATOR: Estimator = Estimator {
    values: |input| input.columns.named("advantage").iter().map(|advantage| f64::from(*advantage)).collect(),
    needs: &["advantage"],
    rewards: false,
    // verl's whitening.
    code: || json!({ "unit": "token", "eps": 1e-8, "eps_in": "variance" }),
    ..Estimator::PLAIN
};
