//! An episode of another trainer, as rows: what every format is brought to.

use super::super::error::Result;
use arrow::array::{ArrayRef, BooleanArray, Float32Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use flow_core::row::{self, NAME};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One episode, or the failure that it ended with.
#[derive(Deserialize)]
pub struct Episode {
    pub iteration: u64,
    pub task: String,
    /// Its number in the source, if it has one.
    pub sample: Option<u32>,
    pub kind: String,
    /// The version of the policy that acted.
    pub weights: Option<u64>,
    pub truncated: String,
    pub info: String,
    pub reward: f32,
    pub calls: Vec<Call>,
    pub failure: Option<Failure>,
}

#[derive(Deserialize)]
pub struct Failure {
    pub cause: Cause,
    pub error: String,
    pub tries: u32,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    Error,
    Timeout,
}

impl Cause {
    /// As the table `errors` names it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Error => "error",
            Cause::Timeout => "timeout",
        }
    }
}

/// One sampled message.
#[derive(Deserialize)]
pub struct Call {
    pub observation: String,
    pub state: u64,
    pub response: String,
    pub action: String,
    pub tokens: Option<Tokens>,
    pub temperature: Option<f32>,
    pub cut: Option<bool>,
    /// Its mean over the tokens, as the trainer computed it.
    pub advantage: Option<f32>,
    pub call: u64,
    pub parent: u64,
    pub fork: String,
}

impl Call {
    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        let tokens = self.tokens.as_ref().map_or(0, |tokens| 4 * tokens.prompt.len() + 8 * tokens.response.len());
        self.observation.len() + self.response.len() + self.action.len() + tokens
    }
}

#[derive(Deserialize)]
pub struct Tokens {
    pub prompt: Vec<u32>,
    pub response: Vec<u32>,
    pub logprobs: Option<Vec<f32>>,
}

/// Whether a turn has a value of a column.
type Has = fn(&Episode, &Call) -> bool;

/// The columns that a source may lack: a run has one of them only if every row has a value.
const OPTIONAL: [(&str, Has); 9] = [
    ("prompt_tokens", |_, call| call.tokens.is_some()),
    ("response_tokens", |_, call| call.tokens.is_some()),
    ("choices", |_, call| call.tokens.is_some()),
    ("logprobs", |_, call| call.tokens.as_ref().is_some_and(|tokens| tokens.logprobs.is_some())),
    ("temperature", |_, call| call.temperature.is_some()),
    ("response_cut", |_, call| call.cut.is_some()),
    ("advantage", |_, call| call.advantage.is_some()),
    ("weights", |episode, _| episode.weights.is_some()),
    ("type", |episode, _| !episode.kind.is_empty()),
];

/// How many turns have a value of each column that a source may lack.
#[derive(Default)]
pub struct Coverage {
    pub turns: usize,
    having: BTreeMap<&'static str, usize>,
}

impl Coverage {
    pub fn add(&mut self, episode: &Episode) {
        self.turns += episode.calls.len();
        for (name, has) in OPTIONAL {
            *self.having.entry(name).or_default() += episode.calls.iter().filter(|call| has(episode, call)).count();
        }
    }

    /// The columns that the rows lack, each with the number of turns that have a value nevertheless.
    pub fn absent(&self) -> Vec<(&'static str, usize)> {
        OPTIONAL.iter().map(|(name, _)| (*name, self.having.get(name).copied().unwrap_or(0))).filter(|(_, n)| *n < self.turns).collect()
    }
}

/// The episodes, each with the number of its sample, as rows without the columns of `absent`.
pub fn table(episodes: &[(u32, Episode)], absent: &[(&str, usize)]) -> Result<RecordBatch> {
    struct Row<'a>(&'a Episode, u32, usize, &'a Call);
    let mut rows: Vec<Row> = Vec::new();
    for (sample, episode) in episodes {
        rows.extend(episode.calls.iter().enumerate().map(|(turn, call)| Row(episode, *sample, turn, call)));
    }
    let texts = |f: &dyn for<'a> Fn(&'a Row) -> &'a str| Arc::new(StringArray::from_iter_values(rows.iter().map(f))) as ArrayRef;
    let u64s = |f: &dyn Fn(&Row) -> u64| Arc::new(UInt64Array::from_iter_values(rows.iter().map(f))) as ArrayRef;
    let u32s = |f: &dyn Fn(&Row) -> u32| Arc::new(UInt32Array::from_iter_values(rows.iter().map(f))) as ArrayRef;
    let f32s = |f: &dyn Fn(&Row) -> f32| Arc::new(Float32Array::from_iter_values(rows.iter().map(f))) as ArrayRef;
    let bools = |f: &dyn Fn(&Row) -> bool| Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(f(row))))) as ArrayRef;
    let tokens = |f: fn(&Tokens) -> &[u32]| row::u32_lists(rows.iter().map(|row| row.3.tokens.as_ref().map_or(&[][..], f)));
    let logprobs = |row: &'_ Row| row.3.tokens.as_ref().and_then(|tokens| tokens.logprobs.clone()).unwrap_or_default();
    let logprobs: Vec<Vec<f32>> = rows.iter().map(logprobs).collect();
    // What is known at the end stands with the last turn.
    let last = |row: &Row| row.2 + 1 == row.0.calls.len();
    let reward = |row: &Row| if last(row) { row.0.reward } else { 0.0 };
    let columns: Vec<(&str, ArrayRef)> = vec![
        (NAME[0], u64s(&|r| r.0.iteration)),
        (NAME[1], texts(&|r| &r.0.task)),
        (NAME[2], u32s(&|r| r.1)),
        (NAME[3], u32s(&|_| 0)),
        (NAME[4], u32s(&|r| r.2 as u32)),
        (NAME[5], texts(&|_| "play")),
        ("type", texts(&|r| &r.0.kind)),
        ("observation", texts(&|r| &r.3.observation)),
        ("state", u64s(&|r| r.3.state)),
        ("prompt_tokens", tokens(|t| &t.prompt)),
        ("response_tokens", tokens(|t| &t.response)),
        ("choices", tokens(|_| &[])),
        ("logprobs", row::f32_lists(logprobs.iter().map(Vec::as_slice))),
        ("temperature", f32s(&|r| r.3.temperature.unwrap_or_default())),
        ("response", texts(&|r| &r.3.response)),
        ("response_cut", bools(&|r| r.3.cut.unwrap_or_default())),
        ("action", texts(&|r| &r.3.action)),
        ("valid", bools(&|_| true)),
        ("call", u64s(&|r| r.3.call)),
        ("parent", u64s(&|r| r.3.parent)),
        ("fork", texts(&|r| &r.3.fork)),
        ("reward", f32s(&reward)),
        ("done", bools(&last)),
        ("won", bools(&|r| last(r) && r.0.reward >= 1.0)),
        ("truncated", texts(&|r| if last(r) { &r.0.truncated } else { "" })),
        ("score", f32s(&reward)),
        ("info", texts(&|r| if last(r) { &r.0.info } else { "" })),
        ("weights", u64s(&|r| r.0.weights.unwrap_or_default())),
        ("advantage", f32s(&|r| r.3.advantage.unwrap_or_default())),
    ];
    Ok(row::batch(columns.into_iter().filter(|(name, _)| absent.iter().all(|(absent, _)| absent != name)).collect())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_have_the_columns_that_the_node_is_said_to_have() {
        let rows = table(&[], &[]).unwrap();
        let names: Vec<&str> = rows.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, crate::ops::importing().adds);
    }
}
