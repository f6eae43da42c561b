//! A row's name: the key by which rows are sorted, joined and identified.

use super::{Cell, Kind};
use arrow::array::RecordBatch;
use serde_json::{json, Value};
use std::fmt;

/// The values of [`super::NAME`]; ordered as rows are.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The training iteration, from 0.
    pub iteration: u64,
    /// The task's name.
    pub task: String,
    /// The index of the trajectory among those of its task.
    pub sample: u32,
    /// The attempt at the task, from 0.
    pub attempt: u32,
    /// The turn in the attempt, from 0.
    pub turn: u32,
    /// play or reflect.
    pub phase: String,
}

impl Name {
    /// From a row's cells; what isn't there has the default that it has in rows files, and a task's is empty.
    pub fn from<'c>(cell: impl Fn(&'static str) -> Option<&'c Cell>) -> Name {
        let number = |name| match cell(name) {
            Some(Cell::U64(n)) => *n,
            Some(Cell::U32(n)) => u64::from(*n),
            _ => 0,
        };
        let small = |name| number(name) as u32; // a u32 column holds no more
        let text = |name, default: &str| match cell(name) {
            Some(Cell::Text(text)) => text.clone(),
            _ => default.to_owned(),
        };
        Name {
            iteration: number("iteration"),
            task: text("task", ""),
            sample: small("sample"),
            attempt: small("attempt"),
            turn: small("turn"),
            phase: text("phase", "play"),
        }
    }

    /// The name of row `i`.
    pub fn of(rows: &RecordBatch, i: usize) -> Name {
        let cells = super::NAME.map(|name| {
            let kind = super::find(name).map_or(Kind::Text, |c| c.kind);
            (name, rows.column_by_name(name).and_then(|column| Cell::of(kind, column, i)))
        });
        Name::from(|name| cells.iter().find(|(n, _)| *n == name).and_then(|(_, cell)| cell.as_ref()))
    }

    /// As JSON, in the order of [`super::NAME`].
    pub fn json(&self) -> Value {
        let Name { iteration, task, sample, attempt, turn, phase } = self;
        json!({ "iteration": iteration, "task": task, "sample": sample, "attempt": attempt, "turn": turn, "phase": phase })
    }
}

/// `iteration 0, task a, sample 1, attempt 0, turn 2, play`
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name { iteration, task, sample, attempt, turn, phase } = self;
        write!(f, "iteration {iteration}, task {task}, sample {sample}, attempt {attempt}, turn {turn}, {phase}")
    }
}
