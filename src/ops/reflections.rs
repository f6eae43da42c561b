//! Episodes as their rows tell them, and what was said about them as rows.

use super::playing::Start;
use super::turns::{lists, mode};
use crate::row::{self, RowError};
use crate::seed;
use arrow::array::*;
use arrow::datatypes::{Float32Type, UInt32Type};
use std::ops::Range;
use std::sync::Arc;

/// An episode that is over, as its rows tell it.
pub struct Episode<'a> {
    pub start: Start,
    pub rules: String,
    pub first: &'a str,
    pub actions: Vec<&'a str>,
    pub outcome: &'a str,
    pub turns: u32,
    pub won: bool,
    pub score: f32,
}

/// What was said about an episode.
pub struct Said {
    pub prompt: Vec<u32>,
    pub tokens: Vec<u32>,
    pub logprobs: Vec<f32>,
    pub response: String,
    pub remark: Option<String>,
    pub seed: u64,
}

/// The episodes among rows that are sorted by name.
pub fn episodes(rows: &RecordBatch) -> Result<Vec<Episode<'_>>, RowError> {
    let (tasks, samples, attempts) = (row::texts(rows, "task")?, row::u32s(rows, "sample")?, row::u32s(rows, "attempt")?);
    let (iterations, versions) = (row::u64s(rows, "iteration")?, row::u64s(rows, "weights")?);
    let (seen, actions, outcomes) = (row::texts(rows, "observation")?, row::texts(rows, "action")?, row::texts(rows, "outcome")?);
    let (memories, won, scores) = (row::texts(rows, "memory")?, row::bools(rows, "won")?, row::f32s(rows, "score")?);
    let phases = row::texts(rows, "phase")?;
    let episode = |turns: Range<usize>| {
        let (first, last) = (turns.start, turns.end - 1);
        Episode {
            start: Start {
                task: tasks.value(first).into(),
                sample: samples.value(first),
                attempt: attempts.value(first),
                memory: memories.value(first).into(),
                iteration: iterations.value(first),
                version: versions.value(first),
            },
            rules: String::new(),
            first: seen.value(first),
            actions: turns.clone().map(|i| actions.value(i)).collect(),
            outcome: outcomes.value(last),
            turns: turns.len() as u32,
            won: won.value(last),
            score: scores.value(last),
        }
    };
    let all = super::episodes::episodes(rows)?;
    let played = all.into_iter().filter(|turns| turns.clone().all(|i| phases.value(i) == "play"));
    Ok(played.map(episode).collect())
}

/// A row for each episode: a turn more, of phase `reflect`, in which nothing is earned. Its state says after which end it was asked.
pub fn table(asked: &[Episode], said: &[Said], kept: &[String]) -> Result<RecordBatch, RowError> {
    let n = asked.len();
    let starts = || asked.iter().map(|e| &e.start);
    let state = |outcome: &str| seed::mix(seed::text("reflect"), seed::text(outcome));
    row::batch(vec![
        ("iteration", Arc::new(UInt64Array::from_iter_values(starts().map(|s| s.iteration)))),
        ("task", Arc::new(StringArray::from_iter_values(starts().map(|s| &s.task)))),
        ("sample", Arc::new(UInt32Array::from_iter_values(starts().map(|s| s.sample)))),
        ("attempt", Arc::new(UInt32Array::from_iter_values(starts().map(|s| s.attempt)))),
        ("turn", Arc::new(UInt32Array::from_iter_values(asked.iter().map(|e| e.turns)))),
        ("phase", Arc::new(StringArray::from(vec!["reflect"; n]))),
        ("observation", Arc::new(StringArray::from_iter_values(asked.iter().map(|e| e.outcome)))),
        ("state", Arc::new(UInt64Array::from_iter_values(asked.iter().map(|e| state(e.outcome))))),
        ("prompt_tokens", lists::<UInt32Type>(said.iter().map(|s| &s.prompt[..]))),
        ("response_tokens", lists::<UInt32Type>(said.iter().map(|s| &s.tokens[..]))),
        ("choices", lists::<UInt32Type>(said.iter().map(|_| &[][..]))),
        ("logprobs", lists::<Float32Type>(said.iter().map(|s| &s.logprobs[..]))),
        ("response", Arc::new(StringArray::from_iter_values(said.iter().map(|s| &s.response)))),
        ("action", Arc::new(StringArray::from_iter_values(said.iter().map(|s| s.remark.as_deref().unwrap_or(""))))),
        ("valid", Arc::new(BooleanArray::from_iter(said.iter().map(|s| Some(s.remark.is_some()))))),
        ("mode", Arc::new(StringArray::from_iter_values(starts().map(|s| mode(&s.memory))))),
        ("memory", Arc::new(StringArray::from_iter_values(starts().map(|s| &s.memory)))),
        ("kept", Arc::new(StringArray::from_iter_values(kept))),
        ("outcome", Arc::new(StringArray::from(vec![""; n]))),
        ("reward", Arc::new(Float32Array::from(vec![0.0; n]))),
        ("done", Arc::new(BooleanArray::from(vec![false; n]))),
        ("won", Arc::new(BooleanArray::from(vec![false; n]))),
        ("score", Arc::new(Float32Array::from_iter_values(asked.iter().map(|e| e.score)))),
        ("weights", Arc::new(UInt64Array::from_iter_values(starts().map(|s| s.version)))),
        ("seed", Arc::new(UInt64Array::from_iter_values(said.iter().map(|s| s.seed)))),
    ])
}
