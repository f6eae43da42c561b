//! The rows that the benchmarks of credit are about, and what is done with them.
#![allow(dead_code)] // each benchmark uses a part

use arrow::array::{ArrayRef, BooleanArray, Float32Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use flow_core::row::{self, RowError};
use flow_core::seed::{mix, Random};
use flow_credit::rows::{compare, mark, measure, value, EarlyTurns, RunningMeans};
use flow_credit::{AdvantageSettings, EstimatorName};
use std::sync::Arc;

pub const SAMPLES: u32 = 16;
pub const TURNS: u32 = 20;
pub const GAMMA: f64 = 0.9;
pub const EPS: f64 = 1e-6;

/// Rows as a rollout of 6x6 Sokoban by a random policy would give them: sixteen walks a task from one start, over 16
/// cells, a push now and then that can't be undone, up to 20 turns.
pub struct Walks {
    random: Random,
    task: u64,
    left: usize,
}

/// `rows` rows of such walks.
pub fn walks(rows: usize) -> Walks {
    Walks { random: Random::new(1), task: 0, left: rows }
}

impl Walks {
    /// The next rows: whole tasks until there are at least `rows`, only the very last may be cut short.
    pub fn take(&mut self, rows: usize) -> Result<RecordBatch, RowError> {
        let (mut tasks, mut samples, mut turns, mut states, mut rewards) = (vec![], vec![], vec![], vec![], vec![]);
        while tasks.len() < rows.min(self.left) {
            for sample in 0..SAMPLES {
                let (mut x, mut y, mut boxes) = (1, 1, mix(7, self.task));
                for turn in 0..TURNS {
                    // Padded, so that the order of the names is that of the numbers.
                    tasks.push(format!("sokoban-6x6-2-{:08}", self.task));
                    samples.push(sample);
                    turns.push(turn);
                    // A positive i64, so that no engine has to carry 64 bits without a sign.
                    states.push(mix(boxes, x * 4 + y) >> 1);
                    let side = self.random.below(4);
                    match side {
                        0 => x = (x + 1).min(3),
                        1 => y = (y + 1).min(3),
                        2 => x = x.saturating_sub(1),
                        _ => y = y.saturating_sub(1),
                    }
                    if self.random.below(8) == 0 {
                        boxes = mix(boxes, side as u64);
                    }
                    let won = self.random.below(40) == 0;
                    rewards.push(if won { 9.9 } else { -0.1 });
                    if won {
                        break;
                    }
                }
            }
            self.task += 1;
        }
        let count = tasks.len();
        let rows = count.min(self.left);
        self.left -= rows;
        let columns: [(&str, ArrayRef); 9] = [
            ("iteration", Arc::new(UInt64Array::from(vec![0; count]))),
            ("task", Arc::new(StringArray::from(tasks))),
            ("sample", Arc::new(UInt32Array::from(samples))),
            ("attempt", Arc::new(UInt32Array::from(vec![0; count]))),
            ("turn", Arc::new(UInt32Array::from(turns))),
            ("phase", Arc::new(StringArray::from(vec!["play"; count]))),
            ("state", Arc::new(UInt64Array::from(states))),
            ("valid", Arc::new(BooleanArray::from(vec![true; count]))),
            ("reward", Arc::new(Float32Array::from(rewards))),
        ];
        Ok(row::batch(columns.to_vec())?.slice(0, rows))
    }
}

/// Visitation depth, group by (task, state, visitation depth) with its size, discounted return, baseline, scale and
/// advantage of rows of whole tasks: what the operators `group` and `advantage` do, one after the other. The rows come
/// back with these columns.
pub fn credit(rows: &RecordBatch) -> Result<RecordBatch, RowError> {
    let settings = AdvantageSettings { of: EstimatorName::StepReturn, gamma: GAMMA, eps: EPS, ..Default::default() };
    let by = ["task", "state", "visitation_depth"].map(String::from);
    let grouped = measure(&mark(std::slice::from_ref(rows), &by, 0, EarlyTurns::Shared)?)?;
    let mut credited = compare(&value(&grouped, &settings)?, &settings, &mut RunningMeans::default())?;
    credited.pop().ok_or_else(|| RowError::Missing("advantage".into()))
}

/// A column of what [`credit`] made.
pub fn advantages(rows: &RecordBatch) -> Result<&[f32], RowError> {
    Ok(row::f32s(rows, "advantage")?.values())
}

/// The same in SQL over `source`, whose column `row` says which row is meant, in the two ways that suggest themselves.
pub fn queries(source: &str) -> [(&'static str, String); 2] {
    let valued = format!(
        "depths AS (SELECT row, task, state, row_number() OVER (PARTITION BY task, sample, state ORDER BY turn) - 1 AS depth,
         sum(reward::DOUBLE * pow({GAMMA}, turn)) OVER (PARTITION BY task, sample ORDER BY turn DESC) / pow({GAMMA}, turn) AS value FROM {source})"
    );
    let columns = format!(
        "row, depth, n, value, CASE WHEN n = 1 THEN value ELSE mean END AS baseline, CASE WHEN n = 1 THEN 1 ELSE std + {EPS} END AS scale,
         CASE WHEN n = 1 THEN 0 ELSE (value - mean) / (std + {EPS}) END AS advantage"
    );
    let windowed = format!(
        "WITH {valued} SELECT {columns} FROM (SELECT row, depth, value, count(*) OVER g AS n, avg(value) OVER g AS mean,
         stddev_samp(value) OVER g AS std FROM depths WINDOW g AS (PARTITION BY task, state, depth))"
    );
    let joined = format!(
        "WITH {valued}, groups AS (SELECT task, state, depth, count(*) AS n, avg(value) AS mean, stddev_samp(value) AS std
         FROM depths GROUP BY ALL) SELECT {columns} FROM depths JOIN groups USING (task, state, depth)"
    );
    [("windows", windowed), ("group by and join", joined)]
}

/// All advantages within 1e-4 of those wanted.
pub fn agree(actual: &[f64], expected: &[f32], name: &str) -> Result<(), String> {
    if actual.len() != expected.len() {
        return Err(format!("{name} gave {} rows, not {}", actual.len(), expected.len()));
    }
    match actual.iter().zip(expected).position(|(f, w)| (f - f64::from(*w)).abs().partial_cmp(&1e-4).is_none_or(|order| order.is_gt())) {
        Some(i) => Err(format!("{name}: row {i} has advantage {}, flow says {}", actual[i], expected[i])),
        None => Ok(()),
    }
}
