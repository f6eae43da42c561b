//! Played turns as rows.

use crate::env::Seen;
use crate::row::{self, RowError};
use arrow::array::*;
use arrow::datatypes::{DataType, Field, Float32Type, UInt32Type};
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
    "reward",
    "done",
    "won",
    "score",
    "weights",
    "seed",
];

/// One turn of an episode.
pub struct Turn {
    pub turn: u32,
    pub observation: String,
    pub state: u64,
    pub prompt: Vec<u32>,
    pub response_tokens: Vec<u32>,
    pub choices: Vec<u32>,
    pub logprobs: Vec<f32>,
    pub response: String,
    pub action: String,
    pub seed: u64,
    pub after: Seen,
    pub score: f32,
}

/// The turns of a task's sample.
pub struct Played<'a> {
    pub task: &'a str,
    pub sample: u32,
    pub turns: &'a [Turn],
}

/// The rows of these episodes, in their order; none without a turn.
pub fn table(episodes: &[Played], iteration: u64, version: u64) -> Result<Vec<RecordBatch>, RowError> {
    let all: Vec<(&Played, &Turn)> = episodes.iter().flat_map(|e| e.turns.iter().map(move |t| (e, t))).collect();
    if all.is_empty() {
        return Ok(vec![]);
    }
    let turns = || all.iter().map(|(_, turn)| *turn);
    let text = |f: fn(&Turn) -> &str| Arc::new(StringArray::from_iter_values(turns().map(f))) as ArrayRef;
    let f32s = |f: fn(&Turn) -> f32| Arc::new(Float32Array::from_iter_values(turns().map(f))) as ArrayRef;
    let u64s = |f: fn(&Turn) -> u64| Arc::new(UInt64Array::from_iter_values(turns().map(f))) as ArrayRef;
    let bools = |f: fn(&Turn) -> bool| Arc::new(BooleanArray::from_iter(turns().map(|t| Some(f(t))))) as ArrayRef;
    let lists = |f: fn(&Turn) -> &[u32]| {
        let mut lists = ListBuilder::new(PrimitiveBuilder::<UInt32Type>::new()).with_field(Field::new("item", DataType::UInt32, false));
        for turn in turns() {
            lists.values().append_slice(f(turn));
            lists.append(true);
        }
        Arc::new(lists.finish()) as ArrayRef
    };
    let mut logprobs = ListBuilder::new(PrimitiveBuilder::<Float32Type>::new()).with_field(Field::new("item", DataType::Float32, false));
    for turn in turns() {
        logprobs.values().append_slice(&turn.logprobs);
        logprobs.append(true);
    }
    let n = all.len();
    let rows = row::batch(vec![
        ("iteration", Arc::new(UInt64Array::from(vec![iteration; n]))),
        ("task", Arc::new(StringArray::from_iter_values(all.iter().map(|(e, _)| e.task)))),
        ("sample", Arc::new(UInt32Array::from_iter_values(all.iter().map(|(e, _)| e.sample)))),
        ("attempt", Arc::new(UInt32Array::from(vec![0; n]))),
        ("turn", Arc::new(UInt32Array::from_iter_values(turns().map(|t| t.turn)))),
        ("phase", Arc::new(StringArray::from(vec!["play"; n]))),
        ("observation", text(|t| &t.observation)),
        ("state", u64s(|t| t.state)),
        ("prompt_tokens", lists(|t| &t.prompt)),
        ("response_tokens", lists(|t| &t.response_tokens)),
        ("choices", lists(|t| &t.choices)),
        ("logprobs", Arc::new(logprobs.finish())),
        ("response", text(|t| &t.response)),
        ("action", text(|t| &t.action)),
        ("valid", bools(|t| t.after.valid)),
        ("mode", Arc::new(StringArray::from(vec!["plain"; n]))),
        ("reward", f32s(|t| t.after.reward)),
        ("done", bools(|t| t.after.done)),
        ("won", bools(|t| t.after.won)),
        ("score", f32s(|t| t.score)),
        ("weights", Arc::new(UInt64Array::from(vec![version; n]))),
        ("seed", u64s(|t| t.seed)),
    ])?;
    Ok(vec![rows])
}
