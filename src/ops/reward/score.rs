//! The score of an episode by its pay, in place of the environment's own: `extract` and memories rank episodes by it.

use arrow::array::{Float32Array, RecordBatch};
use flow_core::row::{self, RowError, View};
use flow_credit::rows::episodes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the score of a turn becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScoreOf {
    /// It stays the environment's own.
    #[default]
    World,
    /// The sum of the attempt's rewards up to the turn, as they are weighed here: methods that rank episodes by their
    /// scores (`extract`, `memory-update`) then see the pay and nothing else.
    Paid,
}

impl ScoreOf {
    /// The rows with that score. Needs whole attempts, except by the environment.
    pub fn scored(self, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>, RowError> {
        let Some(view) = View::sorted(&batches)?.filter(|_| self == ScoreOf::Paid) else { return Ok(batches) };
        let rows = view.read(&["task", "sample", "attempt", "phase", "reward"])?;
        let rewards = row::f32s(&rows, "reward")?.values();
        let mut scores = vec![0.0; rewards.len()];
        for attempt in episodes(&rows)? {
            let mut sum = 0.0f64;
            for i in attempt {
                sum += f64::from(rewards[i]);
                scores[i] = sum as f32;
            }
        }
        view.with(vec![("score", Arc::new(Float32Array::from(scores)))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::reward::task::two_attempts;

    /// An attempt that is paid 0.5, 0 and 10, and one that is paid 0.5: 0.5, 0.5, 10.5 and 0.5.
    #[test]
    fn a_score_is_the_sum_of_what_was_paid() {
        let rows = two_attempts([0.5, 0.0, 10.0, 0.5]);
        let rows = vec![row::with(&rows, "score", Arc::new(Float32Array::from(vec![2.0, 1.0, 11.0, -1.0]))).unwrap()];
        let scores = |of: ScoreOf| row::f32s(&of.scored(rows.clone()).unwrap()[0], "score").unwrap().values().to_vec();
        assert_eq!(scores(ScoreOf::World), [2.0, 1.0, 11.0, -1.0]);
        assert_eq!(scores(ScoreOf::Paid), [0.5, 0.5, 10.5, 0.5]);
    }
}
