//! Which logged turns are audited: those whose weights are still there, drawn by a rule that follows from a seed alone.

use crate::cli::error::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Float64Type, UInt32Type, UInt64Type};
use clap::ValueEnum;
use flow_core::row::{self, Kind};
use flow_core::seed::{mix, text, Random};
use flow_log::sql::{literal, quoted};
use flow_log::{QueryResult, Run, SavedWeights};
use flow_rollout::continuation::Origin;
use flow_rollout::past_turns::Past;
use flow_rollout::tree::Ways;
use serde::Serialize;
use std::collections::BTreeMap;

/// The rule by which turns are drawn, without replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Each turn is as likely
    Uniform,
    /// In proportion to the size of its credit
    Advantage,
    /// In proportion to how unlikely the policy found its answer: minus the log-probability
    Uncertainty,
}

/// A turn that can be audited.
#[derive(Clone, Debug)]
pub struct Turn {
    pub iteration: u64,
    pub task: String,
    pub sample: u32,
    pub attempt: u32,
    pub turn: u32,
    pub credit: f64,
    /// The version of the weights that acted.
    pub version: u64,
}

impl Turn {
    /// What its draws follow from: its name alone.
    pub fn hash(&self) -> u64 {
        let numbers = [self.iteration, self.sample.into(), self.attempt.into(), self.turn.into()];
        numbers.into_iter().fold(text(&self.task), mix)
    }
}

/// The turns with a credit, and those drawn of them.
pub struct Draw {
    /// How many turns have a credit.
    pub credited: usize,
    /// How many of these acted with weights that are still there.
    pub kept: usize,
    /// In order of drawing: a longer draw begins with a shorter one.
    pub turns: Vec<Turn>,
}

/// The rows of an answer as one batch.
pub fn rows(answer: &QueryResult) -> Result<RecordBatch> {
    Ok(concat_batches(&answer.schema, &answer.batches)?)
}

/// Refuses a credit that no row has, or that is no number.
fn numeric(run: &Run, credit: &str) -> Result<()> {
    let tables = flow_log::tables(run)?;
    let columns = || tables.iter().filter(|table| table.name == "trajectories").flat_map(|table| &table.columns);
    let number = |kind: &str| ["FLOAT", "DOUBLE", "BOOLEAN"].contains(&kind) || kind.ends_with("INT") || kind.ends_with("INTEGER");
    if columns().any(|(name, kind)| name == credit && number(kind)) {
        return Ok(());
    }
    let credits: Vec<&str> =
        columns().filter(|(name, kind)| name.contains("advantage") && number(kind)).map(|(name, _)| name.as_str()).collect();
    let none = "none: name the node that makes one in `log`";
    let list = if credits.is_empty() { none.into() } else { credits.join(", ") };
    Err(Error::Request(format!("no column `{credit}` of numbers was logged")).help(format!("the advantages that were: {list}")))
}

/// Draws `count` turns of the table of a node.
pub fn draw(
    run: &Run,
    table: &str,
    credit: &str,
    rule: Rule,
    weights: &BTreeMap<u64, SavedWeights>,
    count: usize,
    seed: u64,
) -> Result<Draw> {
    numeric(run, credit)?;
    let sql = format!(
        "SELECT iteration, task, sample, attempt, turn, c.credit::DOUBLE AS credit, p.weights::UBIGINT AS weights, \
         -list_sum(p.logprobs)::DOUBLE AS surprise \
         FROM (SELECT iteration, task, sample, attempt, turn, phase, {0} AS credit FROM trajectories WHERE {0} IS NOT NULL) c \
         JOIN {1} p USING (iteration, task, sample, attempt, turn, phase) WHERE phase = 'play' ORDER BY ALL",
        quoted(credit),
        quoted(table)
    );
    let all = rows(&flow_log::query(run, &sql)?)?;
    let column = |i: usize, kind: &DataType| Ok::<_, Error>(cast(all.column(i), kind)?);
    let (iterations, tasks) = (column(0, &DataType::UInt64)?, column(1, &DataType::Utf8)?);
    let [samples, attempts, turns] = [2, 3, 4].map(|i| column(i, &DataType::UInt32));
    let (samples, attempts, turns) = (samples?, attempts?, turns?);
    let (credits, versions, surprises) = (column(5, &DataType::Float64)?, column(6, &DataType::UInt64)?, column(7, &DataType::Float64)?);
    let u32_of = |column: &ArrayRef, i: usize| column.as_primitive::<UInt32Type>().value(i);
    let mut keyed: Vec<(f64, Turn)> = Vec::new();
    let mut kept = 0;
    for i in 0..all.num_rows() {
        let version = versions.as_primitive::<UInt64Type>().value(i);
        if !weights.contains_key(&version) {
            continue;
        }
        kept += 1;
        let credit = credits.as_primitive::<Float64Type>().value(i);
        let turn = Turn {
            iteration: iterations.as_primitive::<UInt64Type>().value(i),
            task: tasks.as_string::<i32>().value(i).to_owned(),
            sample: u32_of(&samples, i),
            attempt: u32_of(&attempts, i),
            turn: u32_of(&turns, i),
            credit,
            version,
        };
        let weight = match rule {
            Rule::Uniform => 1.0,
            Rule::Advantage => credit.abs(),
            Rule::Uncertainty => surprises.as_primitive::<Float64Type>().value(i).max(0.0),
        };
        // The first of such keys are a draw in proportion to the weights (Efraimidis and Spirakis 2006).
        if weight > 0.0 {
            keyed.push((-(1.0 - Random::new(mix(seed, turn.hash())).unit()).ln() / weight, turn));
        }
    }
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(Draw { credited: all.num_rows(), kept, turns: keyed.into_iter().take(count).map(|(_, turn)| turn).collect() })
}

/// What a turn is restored from, its answer, and what else it can be compared with.
pub struct Restored {
    pub origin: Origin,
    /// The tokens of the logged answer.
    pub response: Vec<u32>,
    /// The allowed answers, one after another; empty where all were.
    pub choices: Vec<u32>,
    /// The turns that its episode had from this one on.
    pub rest: usize,
}

/// The way to each of these turns, in their order. Of a branch it begins with the turns of the episode that it was
/// copied from.
pub fn restored(run: &Run, table: &str, turns: &[Turn]) -> Result<Vec<Restored>> {
    let mut by_iteration: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    turns.iter().enumerate().for_each(|(i, turn)| by_iteration.entry(turn.iteration).or_default().push(i));
    let branches = flow_log::tables(run)?.iter().any(|own| own.name == table && own.columns.iter().any(|(name, _)| name == row::BRANCH_OF));
    let mut all: Vec<Option<Restored>> = turns.iter().map(|_| None).collect();
    for (iteration, which) in by_iteration {
        let tasks: Vec<String> = which.iter().map(|&i| literal(&turns[i].task)).collect();
        let sql = format!(
            "SELECT task, sample, attempt, turn, {} AS branch_of, state, prompt_tokens, response_tokens, choices, memory FROM {} \
             WHERE iteration = {iteration} AND phase = 'play' AND task IN ({}) ORDER BY task, sample, attempt, turn",
            if branches { row::BRANCH_OF } else { "sample" },
            quoted(table),
            tasks.join(", ")
        );
        let rows = rows(&flow_log::query_within(run, iteration..=iteration, &sql)?)?;
        let lists = |i: usize| Ok::<_, Error>(cast(rows.column(i), &Kind::U32List.arrow())?);
        let (prompts, responses, choices) = (lists(6)?, lists(7)?, lists(8)?);
        let (tasks, memories) = (cast(rows.column(0), &DataType::Utf8)?, cast(rows.column(9), &DataType::Utf8)?);
        let numbers = [1, 2, 3, 4].map(|i| cast(rows.column(i), &DataType::UInt32));
        let numbers: Vec<ArrayRef> = numbers.into_iter().collect::<std::result::Result<_, _>>()?;
        let states = cast(rows.column(5), &DataType::UInt64)?;
        let number = |column: usize, row: usize| numbers[column].as_primitive::<UInt32Type>().value(row);
        let list = |column: &ArrayRef, i: usize| row::u32_list(column.as_list(), i);
        let name = |row: usize| (tasks.as_string::<i32>().value(row), number(0, row), number(1, row), number(2, row));
        let ways = Ways::new((0..rows.num_rows()).map(|row| (name(row), number(3, row))));
        for i in which {
            let turn = &turns[i];
            let Some(way) = ways.to((&turn.task, turn.sample, turn.attempt, turn.turn)) else { continue };
            let Some(row) = way.last().copied() else { continue };
            let memory = if memories.is_null(row) { String::new() } else { memories.as_string::<i32>().value(row).to_owned() };
            let past = Past {
                responses: way[..way.len() - 1].iter().map(|row| list(&responses, *row)).collect(),
                states: way.iter().map(|row| states.as_primitive::<UInt64Type>().value(*row)).collect(),
                prompts: way.iter().map(|row| list(&prompts, *row)).collect(),
            };
            let origin = Origin { task: turn.task.clone(), attempt: turn.attempt, memory, version: turn.version, past };
            let own = |later: &usize| (name(*later).0, name(*later).1, name(*later).2) == (turn.task.as_str(), turn.sample, turn.attempt);
            let rest = (row..rows.num_rows()).take_while(own).count();
            all[i] = Some(Restored { origin, response: list(&responses, row), choices: list(&choices, row), rest });
        }
    }
    let lost = || Error::request("the log lacks turns before one that is audited");
    all.into_iter().map(|one| one.ok_or_else(lost)).collect()
}
