//! Played turns as rows.

use super::playing::{Ended, Turn};
use crate::row::{self, RowError};
use arrow::array::*;
use arrow::datatypes::{ArrowPrimitiveType, Field, Float32Type, UInt32Type};
use std::sync::Arc;

/// The columns of a played turn, in the table's order.
pub const COLUMNS: &[&str] = &[
    "iteration",
    "task",
    "sample",
    "attempt",
    "turn",
    "phase",
    "observation",
    "state",
    "prompt_tokens",
    "response_tokens",
    "choices",
    "logprobs",
    "response",
    "action",
    "valid",
    "mode",
    "memory",
    "kept",
    "outcome",
    "reward",
    "done",
    "won",
    "score",
    "weights",
    "seed",
];

/// An episode that is over, and what the next attempt at its task is to know of it and of those before.
pub struct Played<'a> {
    pub ended: &'a Ended,
    pub kept: &'a str,
}

/// The rows of these episodes, in their order; none without a turn.
pub fn table(episodes: &[Played]) -> Result<Vec<RecordBatch>, RowError> {
    let all: Vec<(&Played, &Turn)> = episodes.iter().flat_map(|e| e.ended.turns.iter().map(move |t| (e, t))).collect();
    if all.is_empty() {
        return Ok(vec![]);
    }
    let starts = || all.iter().map(|(episode, _)| &episode.ended.start);
    // What is known at the end stands with the last turn.
    let last = |value: for<'a> fn(&'a Played) -> &'a str| {
        Arc::new(StringArray::from_iter_values(all.iter().map(|(e, turn)| if turn.after.done { value(e) } else { "" }))) as ArrayRef
    };
    let turns = || all.iter().map(|(_, turn)| *turn);
    let text = |f: fn(&Turn) -> &str| Arc::new(StringArray::from_iter_values(turns().map(f))) as ArrayRef;
    let f32s = |f: fn(&Turn) -> f32| Arc::new(Float32Array::from_iter_values(turns().map(f))) as ArrayRef;
    let u64s = |f: fn(&Turn) -> u64| Arc::new(UInt64Array::from_iter_values(turns().map(f))) as ArrayRef;
    let bools = |f: fn(&Turn) -> bool| Arc::new(BooleanArray::from_iter(turns().map(|t| Some(f(t))))) as ArrayRef;
    let n = all.len();
    let rows = row::batch(vec![
        ("iteration", Arc::new(UInt64Array::from_iter_values(starts().map(|s| s.iteration)))),
        ("task", Arc::new(StringArray::from_iter_values(starts().map(|s| &s.task)))),
        ("sample", Arc::new(UInt32Array::from_iter_values(starts().map(|s| s.sample)))),
        ("attempt", Arc::new(UInt32Array::from_iter_values(starts().map(|s| s.attempt)))),
        ("turn", Arc::new(UInt32Array::from_iter_values(turns().map(|t| t.turn)))),
        ("phase", Arc::new(StringArray::from(vec!["play"; n]))),
        ("observation", text(|t| &t.observation)),
        ("state", u64s(|t| t.state)),
        ("prompt_tokens", lists::<UInt32Type>(turns().map(|t| &t.prompt[..]))),
        ("response_tokens", lists::<UInt32Type>(turns().map(|t| &t.response_tokens[..]))),
        ("choices", lists::<UInt32Type>(turns().map(|t| &t.choices[..]))),
        ("logprobs", lists::<Float32Type>(turns().map(|t| &t.logprobs[..]))),
        ("response", text(|t| &t.response)),
        ("action", text(|t| &t.action)),
        ("valid", bools(|t| t.after.valid)),
        ("mode", Arc::new(StringArray::from_iter_values(starts().map(|s| mode(&s.memory))))),
        ("memory", Arc::new(StringArray::from_iter_values(starts().map(|s| &s.memory)))),
        ("kept", last(|e| e.kept)),
        ("outcome", last(|e| &e.ended.outcome)),
        ("reward", f32s(|t| t.after.reward)),
        ("done", bools(|t| t.after.done)),
        ("won", bools(|t| t.after.won)),
        ("score", f32s(|t| t.score)),
        ("weights", Arc::new(UInt64Array::from_iter_values(starts().map(|s| s.version)))),
        ("seed", u64s(|t| t.seed)),
    ])?;
    Ok(vec![rows])
}

/// A list a row, as the columns have them.
pub fn lists<'a, T: ArrowPrimitiveType>(rows: impl Iterator<Item = &'a [T::Native]>) -> ArrayRef {
    let mut lists = ListBuilder::new(PrimitiveBuilder::<T>::new()).with_field(Field::new("item", T::DATA_TYPE, false));
    for row in rows {
        lists.values().append_slice(row);
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// How a row was made that was told this of earlier attempts.
pub fn mode(memory: &str) -> &'static str {
    if memory.is_empty() {
        "plain"
    } else {
        "memory"
    }
}
