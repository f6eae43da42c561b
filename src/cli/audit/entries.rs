//! What a memory is worth, or the notes on earlier attempts: episodes are played again from their first turn, with the
//! weights and the memory of that time, and in the other [`WAYS`].

use super::draw::{restored, rows, Turn};
use super::play::{against, mean, Tried};
use super::recall::{changed, Memories, WAYS};
use super::source::Source;
use crate::cli::error::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use flow_core::row::{self, Kind};
use flow_core::seed::{mix, Random};
use flow_log::sql::{literal, quoted};
use flow_policy::Policy;
use flow_rollout::continuation::{play_on, Continuation};
use flow_rollout::sampler::Sampler;

/// An episode whose first prompt held entries, and one of these; or one that had notes on earlier attempts.
pub struct EntryUse {
    pub turn: Turn,
    pub entry: Option<u64>,
}

/// Draws `count` such episodes, among those whose weights are kept, and one entry of each. A longer draw begins with a
/// shorter one. How many there are to draw from, and those drawn.
///
/// # Errors
/// If the log can't be read.
pub fn draw(source: &Source, notes: bool, count: usize, seed: u64) -> Result<(usize, Vec<EntryUse>)> {
    let sql = format!(
        "SELECT iteration, task, sample, attempt, weights::UBIGINT AS weights, retrieved FROM {} WHERE phase = 'play' AND turn = 0 AND {} \
         ORDER BY iteration, task, sample, attempt",
        quoted(&source.table),
        if notes { "attempt > 0 AND memory <> ''" } else { "len(retrieved) > 0" }
    );
    let all = rows(&flow_log::query(&source.run, &sql)?)?;
    let column = |i: usize, kind: &DataType| Ok::<ArrayRef, Error>(cast(all.column(i), kind)?);
    let (iterations, tasks, weights) = (column(0, &DataType::UInt64)?, column(1, &DataType::Utf8)?, column(4, &DataType::UInt64)?);
    let (samples, attempts) = (column(2, &DataType::UInt32)?, column(3, &DataType::UInt32)?);
    let retrieved = column(5, &Kind::U64List.arrow())?;
    let small = |column: &ArrayRef, i: usize| column.as_primitive::<UInt32Type>().value(i);
    let large = |column: &ArrayRef, i: usize| column.as_primitive::<UInt64Type>().value(i);
    let mut keyed = Vec::new();
    for i in (0..all.num_rows()).filter(|i| source.weights.contains_key(&large(&weights, *i))) {
        let task = tasks.as_string::<i32>().value(i).to_owned();
        let (sample, attempt, version) = (small(&samples, i), small(&attempts, i), large(&weights, i));
        let turn = Turn { iteration: large(&iterations, i), task, sample, attempt, turn: 0, credit: 0.0, version };
        let mut random = Random::new(mix(seed, turn.hash()));
        let (key, entries) = (random.unit(), if notes { vec![] } else { row::u64_list(retrieved.as_list(), i) });
        let entry = (!entries.is_empty()).then(|| entries[random.below(entries.len())]);
        keyed.push((key, EntryUse { turn, entry }));
    }
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok((keyed.len(), keyed.into_iter().take(count).map(|(_, used)| used).collect()))
}

/// Plays an episode in each way, with a sampler whose policy has its weights. The one with
/// another task's entry or notes has no row where no other task has any yet.
///
/// # Errors
/// If the policy can't answer, or the log can't be read.
pub fn tried<'a>(
    (sampler, policy): (&mut Sampler, &Policy),
    source: &Source,
    memories: &Memories,
    used: &'a EntryUse,
    (plays, gamma): (u32, f64),
) -> Result<Vec<Tried<'a>>> {
    let turn = &used.turn;
    let origin = restored(&source.run, &source.table, std::slice::from_ref(turn))?.remove(0).origin;
    let full = memories.at(turn.iteration)?;
    let mut random = Random::new(mix(turn.hash(), used.entry.unwrap_or_default()));
    let (mut tried, mut refused) = (Vec::new(), String::new());
    for (way, role) in WAYS.into_iter().enumerate() {
        let mut origin = origin.clone();
        // Only the logged memory makes the logged prompt.
        if role != "policy" {
            origin.past.prompts.clear();
        }
        let rows = match used.entry {
            Some(entry) => changed(role, &full, (entry, &turn.task), &mut random),
            None => notes(role, source, turn, &origin.memory, &mut random)?.map(|notes| {
                origin.memory = notes;
                full.clone()
            }),
        };
        let Some(rows) = rows else { continue };
        sampler.player.sources = memories.sources(source, policy, rows)?;
        let seed = mix(turn.hash(), way as u64);
        let each: Vec<_> = (0..plays).map(|play| Continuation { origin: &origin, response: None, seed, play }).collect();
        let earned = play_on(sampler, &each, gamma)?;
        if let Some(why) = earned.iter().find_map(|earned| earned.as_ref().err()) {
            refused.clone_from(why);
        }
        tried.push((role, mean(&earned)));
    }
    // What isn't restored in one way says nothing in another.
    let policy = tried.first().map(|(_, mean)| *mean).unwrap_or_default();
    let state = origin.past.states.first().copied().unwrap_or_default();
    let rows = tried.into_iter().map(|(role, (worth, error))| {
        let answer = used.entry.filter(|_| matches!(role, "without" | "another")).map(|entry| entry.to_string()).unwrap_or_default();
        let (audited, audited_error) = against(role, (worth, error), policy);
        let (plays, refused) = (plays as usize, refused.clone());
        Tried { turn, state, role, answer, plays, worth, error, audited, audited_error, refused }
    });
    Ok(rows.collect())
}

/// The notes of a way. There is no way without one of them, and none with another task's where no other task has any.
fn notes(role: &str, source: &Source, turn: &Turn, logged: &str, random: &mut Random) -> Result<Option<String>> {
    Ok(match role {
        "policy" => Some(logged.to_owned()),
        "another" => {
            let sql = format!(
                "SELECT DISTINCT memory FROM {} WHERE iteration = {} AND attempt = {} AND turn = 0 AND phase = 'play' AND task <> {} \
                 AND memory <> '' ORDER BY memory",
                quoted(&source.table),
                turn.iteration,
                turn.attempt,
                literal(&turn.task)
            );
            let others = rows(&flow_log::query_within(&source.run, turn.iteration..=turn.iteration, &sql)?)?;
            let others = cast(others.column(0), &DataType::Utf8)?;
            (!others.is_empty()).then(|| others.as_string::<i32>().value(random.below(others.len())).to_owned())
        }
        "emptied" => Some(String::new()),
        _ => None,
    })
}
