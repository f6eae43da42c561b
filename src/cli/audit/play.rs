//! Plays the ways on from a turn, and what each was worth.

use super::draw::{Restored, Turn};
use crate::cli::error::Result;
use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use flow_core::seed::mix;
use flow_model::OPEN;
use flow_rollout::continuation::{play_on, Continuation, Earned};
use flow_rollout::sampler::Sampler;
use std::sync::Arc;

/// A row of the table `audit`: an answer that was tried at a turn, or the policy's own draws there.
pub struct Tried<'a> {
    pub turn: &'a Turn,
    pub state: u64,
    /// `policy`: the policy's own draws; `logged`: the answer in the log; `other`: another admissible one. Of a memory:
    /// [`super::recall::WAYS`].
    pub role: &'static str,
    pub answer: String,
    /// How many plays were counted, what they earned on average from the turn on, and its standard error.
    pub plays: usize,
    pub worth: f64,
    pub error: f64,
    /// The worth less that of the policy's own draws, and the standard error of the difference: the turn's true
    /// advantage.
    pub audited: f64,
    pub audited_error: f64,
    /// Why the turn couldn't be restored; else empty.
    pub refused: String,
}

/// The answers that are tried at a turn, each by its role; no answer is the policy's own draw.
pub fn ways<'a>(turn: &'a Restored, all: bool, ends: &[u32]) -> Vec<(&'static str, Option<&'a [u32]>)> {
    let mut ways = vec![("policy", None), ("logged", Some(&turn.response[..]))];
    if all {
        // The beginning of an answer isn't one.
        let closed = turn.choices.split_inclusive(|token| ends.contains(token) || *token == OPEN);
        let admissible = closed.filter(|choice| choice.last() != Some(&OPEN));
        ways.extend(admissible.filter(|choice| **choice != turn.response[..]).map(|choice| ("other", Some(choice))));
    }
    ways
}

/// Plays each way on from these turns, which acted with weights that the sampler's policy has.
pub fn tried<'a>(sampler: &mut Sampler, turns: &[(&'a Turn, &Restored)], all: bool, plays: u32, gamma: f64) -> Result<Vec<Tried<'a>>> {
    let ends = sampler.player.tokenizer().ends().to_vec();
    let each: Vec<Vec<_>> = turns.iter().map(|(_, restored)| ways(restored, all, &ends)).collect();
    let mut continuations = Vec::new();
    for ((turn, restored), ways) in turns.iter().zip(&each) {
        for (way, (_, response)) in ways.iter().enumerate() {
            let seed = mix(turn.hash(), way as u64);
            continuations.extend((0..plays).map(|play| Continuation { origin: &restored.origin, response: *response, seed, play }));
        }
    }
    let earned = play_on(sampler, &continuations, gamma)?;
    let mut earned = earned.chunks(plays as usize);
    let mut rows = Vec::new();
    for ((turn, restored), ways) in turns.iter().zip(&each) {
        let own: Vec<&[Earned]> = earned.by_ref().take(ways.len()).collect();
        let refused = own.iter().flat_map(|earned| earned.iter()).find_map(|earned| earned.as_ref().err().cloned()).unwrap_or_default();
        let means: Vec<(f64, f64)> = own.iter().map(|earned| mean(earned)).collect();
        for ((role, response), (worth, error)) in ways.iter().zip(&means) {
            let answer = response.map(|tokens| sampler.player.tokenizer().answer(tokens)).unwrap_or_default();
            let (audited, audited_error) = against(role, (*worth, *error), means[0]);
            let state = restored.origin.past.states.last().copied().unwrap_or_default();
            let (worth, error, plays, refused) = (*worth, *error, plays as usize, refused.clone());
            rows.push(Tried { turn, state, role, answer, plays, worth, error, audited, audited_error, refused });
        }
    }
    Ok(rows)
}

/// A worth less that of the policy's own draws, each with its standard error; nothing for these draws themselves.
pub fn against(role: &str, (worth, error): (f64, f64), (of_policy, its_error): (f64, f64)) -> (f64, f64) {
    match role {
        "policy" => (0.0, 0.0),
        // Not by `hypot`, which takes the wheel to glibc 2.35.
        _ => (worth - of_policy, (error * error + its_error * its_error).sqrt()),
    }
}

/// The mean and its standard error.
pub fn mean(earned: &[Earned]) -> (f64, f64) {
    let values: Vec<f64> = earned.iter().flatten().copied().collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (n - 1.0).max(1.0) / n.max(1.0)).sqrt())
}

/// The rows as a batch of the audit called `name`.
pub fn batch(name: &str, rows: &[Tried]) -> Result<RecordBatch> {
    let u64s = |of: fn(&Tried) -> u64| Arc::new(UInt64Array::from_iter_values(rows.iter().map(of))) as ArrayRef;
    let u32s = |of: fn(&Tried) -> u32| Arc::new(UInt32Array::from_iter_values(rows.iter().map(of))) as ArrayRef;
    let texts = |of: &dyn Fn(&Tried) -> String| Arc::new(StringArray::from_iter_values(rows.iter().map(of))) as ArrayRef;
    // A turn that wasn't restored has no figures.
    let figures = |of: fn(&Tried) -> f64| {
        Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.refused.is_empty().then(|| of(row))))) as ArrayRef
    };
    let logged = |row: &Tried| (row.role == "logged").then_some(row.turn.credit);
    Ok(RecordBatch::try_from_iter([
        ("audit", texts(&|_| name.to_owned())),
        ("iteration", u64s(|row| row.turn.iteration)),
        ("task", texts(&|row| row.turn.task.clone())),
        ("sample", u32s(|row| row.turn.sample)),
        ("attempt", u32s(|row| row.turn.attempt)),
        ("turn", u32s(|row| row.turn.turn)),
        ("phase", texts(&|_| "play".to_owned())),
        ("state", u64s(|row| row.state)),
        ("weights", u64s(|row| row.turn.version)),
        ("role", texts(&|row| row.role.to_owned())),
        ("answer", texts(&|row| row.answer.clone())),
        ("plays", u32s(|row| if row.refused.is_empty() { row.plays as u32 } else { 0 })),
        ("worth", figures(|row| row.worth)),
        ("worth_error", figures(|row| row.error)),
        ("audited", figures(|row| row.audited)),
        ("audited_error", figures(|row| row.audited_error)),
        ("credit", Arc::new(Float64Array::from_iter(rows.iter().map(logged))) as ArrayRef),
        ("refused", texts(&|row| row.refused.clone())),
    ])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_columns_that_are_named() {
        let batch = batch("audit", &[]).unwrap();
        let names: Vec<&str> = batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, flow_log::AUDIT.map(|(name, _)| name));
    }
}
