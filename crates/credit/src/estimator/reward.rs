//! The reward of the turn alone (EAPO, Eq. 14 read literally).

use super::Estimator;
use serde_json::json;

pub(super) static ESTIMATOR: Estimator = Estimator {
    values: |input| input.rewards.to_vec(),
    // As a step's, after GiGPO's code.
    code: || json!({ "unit": "turn", "invalid_penalty": 0.1, "penalty": "after_return", "singleton": "zero" }),
    ..Estimator::PLAIN
};
