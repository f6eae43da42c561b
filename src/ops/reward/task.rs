//! Which part of an attempt's rewards is the task's part of a turn's: R_task of EAPO, Eq. 10.

use arrow::array::{Float32Array, RecordBatch};
use flow_core::row::{self, RowError, View};
use flow_credit::rows::episodes;
use flow_credit::step_return;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which part of an attempt's rewards a turn's reward has. EAPO's paper calls R_task episodic (section 4.3), adds it to
/// the turn's own rewards for form and exploration (Eq. 10), and compares either the return from the turn on (Eq. 4) or
/// that sum itself (Eq. 14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskOf {
    /// The environment's reward for the turn itself: with `advantage` `of: step_return`, Eq. 4.
    #[default]
    Turn,
    /// Its sum over the whole attempt, for each of its turns: with `of: reward`, Eq. 14 to the letter.
    Attempt,
    /// Its sum from the turn on, discounted by `gamma` a turn: with `of: reward`, Eq. 14 with the discount that remark
    /// 5.1 speaks of. So a turn is not paid for the form of later turns, which would make long episodes worth more than
    /// won ones.
    ToGo,
}

impl TaskOf {
    /// The rows with the task's part as their reward. Needs whole attempts, except by the turn.
    pub fn rewards(self, batches: &[RecordBatch], gamma: f64) -> Result<Vec<RecordBatch>, RowError> {
        let Some(view) = View::sorted(batches)?.filter(|_| self != TaskOf::Turn) else { return Ok(batches.to_vec()) };
        let rows = view.read(&["task", "sample", "attempt", "phase", "reward"])?;
        let (rewards, attempts) = (row::f32s(&rows, "reward")?.values(), episodes(&rows)?);
        let discount = if self == TaskOf::ToGo { gamma } else { 1.0 };
        let mut parts: Vec<f32> = step_return(rewards, &attempts, discount).into_iter().map(|x| x as f32).collect();
        if self == TaskOf::Attempt {
            for attempt in attempts {
                let whole = parts[attempt.start];
                parts[attempt].fill(whole);
            }
        }
        view.with(vec![("reward", Arc::new(Float32Array::from(parts)))])
    }
}

/// For tests: an attempt of three turns and one of a turn, which earn this.
#[cfg(test)]
pub fn two_attempts(rewards: [f32; 4]) -> RecordBatch {
    use arrow::array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
    let texts = |text: &str| Arc::new(StringArray::from(vec![text; 4])) as ArrayRef;
    let numbers = |numbers: [u32; 4]| Arc::new(UInt32Array::from(numbers.to_vec())) as ArrayRef;
    row::batch(vec![
        ("iteration", Arc::new(UInt64Array::from(vec![0; 4])) as ArrayRef),
        ("task", texts("a")),
        ("sample", numbers([0, 0, 0, 1])),
        ("attempt", numbers([0; 4])),
        ("turn", numbers([0, 1, 2, 0])),
        ("phase", texts("play")),
        ("reward", Arc::new(Float32Array::from(rewards.to_vec()))),
    ])
    .unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attempt that earns -0.5, -0.5 and 2, and one that earns -1: 1 for each turn of the first; to go by 0.5 -0.25,
    /// 0.5 and 2.
    #[test]
    fn the_parts_of_an_attempt_as_worked_by_hand() {
        let rows = [two_attempts([-0.5, -0.5, 2.0, -1.0])];
        let paid = |of: TaskOf| row::f32s(&of.rewards(&rows, 0.5).unwrap()[0], "reward").unwrap().values().to_vec();
        assert_eq!(paid(TaskOf::Turn), [-0.5, -0.5, 2.0, -1.0]);
        assert_eq!(paid(TaskOf::Attempt), [1.0, 1.0, 1.0, -1.0]);
        assert_eq!(paid(TaskOf::ToGo), [-0.25, 0.5, 2.0, -1.0]);
    }
}
