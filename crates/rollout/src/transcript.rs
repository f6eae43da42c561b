//! Reads episodes back from their rows.

use super::episode::EpisodeStart;
use super::tree::Ways;
use super::turn::Phase;
use arrow::array::RecordBatch;
use flow_core::row::{self, RowError};
use flow_credit::rows::episodes;
use std::ops::Range;

/// A finished episode, read from its rows; of a branch with the turns before it.
pub struct Transcript<'a> {
    /// Its identity.
    pub start: EpisodeStart,
    /// The task's own text; empty where the observations say it.
    pub instruction: &'a str,
    /// The first observation.
    pub first: &'a str,
    /// The observation before each turn, in order.
    pub observations: Vec<&'a str>,
    /// The actions, in order.
    pub actions: Vec<&'a str>,
    /// The observation after the last turn.
    pub outcome: &'a str,
    /// The number of turns.
    pub turns: u32,
    /// Whether it was won.
    pub won: bool,
    /// Its score: the sum of its rewards, or the environment's own.
    pub score: f32,
    /// What is extracted from it: a kind of entry; empty where it is reflected on.
    pub kind: &'a str,
}

/// The columns that [`transcripts`] reads.
pub const NEEDS: &[&str] = &[
    "iteration",
    "task",
    "sample",
    "attempt",
    "turn",
    "phase",
    "instruction",
    "observation",
    "action",
    "memory",
    "outcome",
    "won",
    "score",
    "weights",
];

/// The episodes among rows that are sorted by name, in their order, without reflections. An error says which column of
/// [`NEEDS`] is missing, or isn't of its type.
pub fn transcripts(rows: &RecordBatch) -> Result<Vec<Transcript<'_>>, RowError> {
    let (tasks, samples, attempts) = (row::texts(rows, "task")?, row::u32s(rows, "sample")?, row::u32s(rows, "attempt")?);
    let (iterations, versions) = (row::u64s(rows, "iteration")?, row::u64s(rows, "weights")?);
    let (observations, actions, outcomes) = (row::texts(rows, "observation")?, row::texts(rows, "action")?, row::texts(rows, "outcome")?);
    let (memories, won, scores) = (row::texts(rows, "memory")?, row::bools(rows, "won")?, row::f32s(rows, "score")?);
    let (phases, instructions) = (row::texts(rows, "phase")?, row::texts(rows, "instruction")?);
    let numbers = row::u32s(rows, "turn")?;
    let name = |i: usize| (tasks.value(i), samples.value(i), attempts.value(i), numbers.value(i));
    let ways = Ways::among(rows)?;
    let transcript = |own: Range<usize>| {
        let (start, last) = (own.start, own.end - 1);
        let turns = ways.as_ref().and_then(|ways| ways.to(name(last))).unwrap_or_else(|| own.collect());
        let first = turns.first().copied().unwrap_or(start);
        Transcript {
            start: EpisodeStart {
                task: tasks.value(last).into(),
                sample: samples.value(last),
                attempt: attempts.value(last),
                memory: memories.value(last).into(),
                iteration: iterations.value(last),
                version: versions.value(last),
            },
            instruction: instructions.value(first),
            first: observations.value(first),
            observations: turns.iter().map(|i| observations.value(*i)).collect(),
            actions: turns.iter().map(|i| actions.value(*i)).collect(),
            outcome: outcomes.value(last),
            turns: turns.len() as u32,
            won: won.value(last),
            score: scores.value(last),
            kind: "",
        }
    };
    let all = episodes(rows)?;
    let played = all.into_iter().filter(|turns| turns.clone().all(|i| phases.value(i) == Phase::Play.name()));
    Ok(played.map(transcript).collect())
}
