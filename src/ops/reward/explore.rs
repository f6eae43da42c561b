//! The reward of exploration: R_explore = max(q(e, m | s), gamma^2 q(e, [m, s'] | s)) of EAPO, Eq. 9.

use arrow::array::RecordBatch;
use flow_core::row::{self, RowError, SCORE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reward of exploration from two scores of a row, which `score` makes: the larger of the one and of the other
/// discounted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Explore {
    /// Its weight in the reward: alpha_2 of Eq. 10, 1 in table 3.
    pub weight: f32,
    /// The target of `score` that says how well the turn can do with its memory alone: q(e, m | s), immediate
    /// exploitation in remark 4.1.
    pub exploitation: String,
    /// The target that says how well it could with the turn's new observation as well: q(e, [m, s'] | s), proactive
    /// exploration there.
    pub exploration: String,
    /// The discount of a turn's delay; the second score is discounted by its square, for the turn that looks and the
    /// turn that uses it (remark 4.2). 0.9 in table 3, so 0.81.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gamma: f32,
}

impl Default for Explore {
    fn default() -> Self {
        Explore { weight: 1.0, exploitation: "exploitation".into(), exploration: "exploration".into(), gamma: 0.9 }
    }
}

impl Explore {
    /// The columns of its scores, each with the setting that names it.
    pub fn columns(&self) -> [(&'static str, String); 2] {
        [("exploitation", format!("{SCORE}{}", self.exploitation)), ("exploration", format!("{SCORE}{}", self.exploration))]
    }

    /// R_explore of each row, without its weight.
    pub fn rewards(&self, rows: &RecordBatch) -> Result<Vec<f32>, RowError> {
        let [(_, now), (_, later)] = self.columns();
        let (now, later) = (row::f32s(rows, &now)?.values(), row::f32s(rows, &later)?.values());
        Ok(now.iter().zip(later).map(|(now, later)| now.max(self.gamma * self.gamma * later)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float32Array};
    use std::sync::Arc;

    /// With gamma 0.9: what is known suffices at 0.5 against 0.81 * 0.6 = 0.486, and not at 0.5 against 0.81 * 0.7 =
    /// 0.567.
    #[test]
    fn both_branches_of_the_maximum() {
        let scores = |values: [f32; 2]| Arc::new(Float32Array::from(values.to_vec())) as ArrayRef;
        let rows = row::batch(vec![("score_exploitation", scores([0.5, 0.5])), ("score_exploration", scores([0.6, 0.7]))]).unwrap();
        let rewards = Explore::default().rewards(&rows).unwrap();
        assert!((rewards[0] - 0.5).abs() < 1e-6 && (rewards[1] - 0.567).abs() < 1e-6, "{rewards:?}");
    }
}
