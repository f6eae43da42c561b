//! The rows that the benchmarks of credit are about, and what is done with them.
#![allow(dead_code)] // each benchmark uses a part

use arrow::array::{ArrayRef, Float32Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use flow::credit::{
    advantages_in, begin_ids, episodes, fold_ids, fold_run, values, visitation_depth, AdvantageSettings, Advantages, Columns, Groups, Of,
};
use flow::row::{self, RowError};
use flow::seed::{mix, text, Random};
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
        let rows = tasks.len().min(self.left);
        self.left -= rows;
        let columns: [(&str, ArrayRef); 5] = [
            ("task", Arc::new(StringArray::from(tasks))),
            ("sample", Arc::new(UInt32Array::from(samples))),
            ("turn", Arc::new(UInt32Array::from(turns))),
            ("state", Arc::new(UInt64Array::from(states))),
            ("reward", Arc::new(Float32Array::from(rewards))),
        ];
        Ok(row::batch(columns.to_vec())?.slice(0, rows))
    }
}

/// Everything that credit makes of the rows: it stays in memory, as it does for the others.
pub struct Credit {
    _ids: Vec<u64>,
    _depths: Vec<u32>,
    pub sizes: Vec<u32>,
    pub advantages: Advantages,
}

/// Visitation depth, group by (task, state, visitation depth) with its size, discounted return, baseline, scale and
/// advantage of rows of whole tasks.
pub fn credit(rows: &RecordBatch) -> Result<Credit, RowError> {
    let (tasks, samples) = (row::texts(rows, "task")?, row::u32s(rows, "sample")?.values());
    let (states, rewards) = (row::u64s(rows, "state")?.values(), row::f32s(rows, "reward")?.values());
    let settings = AdvantageSettings { of: Of::StepReturn, gamma: GAMMA, eps: EPS, ..Default::default() };
    let episodes = episodes(|i| samples[i] == samples[i - 1] && tasks.value(i) == tasks.value(i - 1), rows.num_rows());
    let depths = visitation_depth(states, &episodes);
    let mut ids = begin_ids(3, rows.num_rows());
    let (mut task, mut hash) = ("", text(""));
    for episode in &episodes {
        let next = tasks.value(episode.start);
        if next != task {
            (task, hash) = (next, text(next));
        }
        fold_run(&mut ids[episode.clone()], hash);
    }
    fold_ids(&mut ids, states.iter().copied());
    fold_ids(&mut ids, depths.iter().map(|depth| u64::from(*depth)));
    let groups = Groups::of(&ids);
    let columns = Columns { reward: rewards, ..Default::default() };
    let values = values(&columns, &episodes, &settings);
    Ok(Credit { _ids: ids, _depths: depths, sizes: groups.sizes(), advantages: advantages_in(&values, &groups, &columns, &settings) })
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
pub fn agree(found: &[f64], wanted: &[f32], name: &str) -> Result<(), String> {
    if found.len() != wanted.len() {
        return Err(format!("{name} gave {} rows, not {}", found.len(), wanted.len()));
    }
    match found.iter().zip(wanted).position(|(f, w)| (f - f64::from(*w)).abs().partial_cmp(&1e-4).is_none_or(|order| order.is_gt())) {
        Some(i) => Err(format!("{name}: row {i} has advantage {}, flow says {}", found[i], wanted[i])),
        None => Ok(()),
    }
}
