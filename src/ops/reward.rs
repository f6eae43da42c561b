//! `reward`: weighs what the task pays, what the format earns, what an invalid action costs and what length costs.
//! With 1, 0.5 and 0 it is EAPO's R_task + 0.5 R_format (remark 5.1, without the exploration part).

use super::operator::{must, schema, settings, Further, Operator};
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Failed, Place, Ports, Route};
use crate::pipeline::{Carries, Delay, Need, Node, Port, Role, Wrong};
use crate::row::{self, RowError};
use arrow::array::{Float32Array, RecordBatch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `reward`: new reward = task * reward + won * (the turn won) + format * (an action could be read) + invalid * (it could not be carried out)
/// - overlong.weight * (how far into the buffer the response went, from 0 to 1).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Weights {
    /// Weight of the environment's reward.
    #[serde(default = "one")]
    task: f32,
    /// Earned by the turn that wins; 10 with `task: 0` in LaMer.
    #[serde(default)]
    won: f32,
    /// Earned by a response from which an action could be read.
    #[serde(default)]
    format: f32,
    /// Added for an action that could not be carried out; -0.1 in GiGPO's scripts.
    #[serde(default)]
    invalid: f32,
    /// What a long response costs (DAPO, Eq. 13); nothing unless given.
    #[serde(default)]
    overlong: Option<Overlong>,
}

/// DAPO's soft overlong punishment (Yu et al. 2025, Eq. 13), of the response of a turn: 0 up to max - buffer tokens, from there
/// in a straight line to -weight at max tokens, and -weight beyond.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Overlong {
    /// The length in tokens, the end token with them, from which on a response costs the whole weight.
    #[schemars(range(min = 1))]
    max: u32,
    /// Over how many tokens before max the cost grows; at most max.
    #[schemars(range(min = 1))]
    buffer: u32,
    /// What an overlong response costs; the paper and its code say 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0))]
    weight: f32,
}

impl Overlong {
    /// What `tokens` tokens earn: 0 or less.
    fn of(&self, tokens: u32) -> f32 {
        let into_buffer = tokens.saturating_sub(self.max.saturating_sub(self.buffer));
        -self.weight * (into_buffer as f32 / self.buffer as f32).min(1.0)
    }
}

fn one() -> f32 {
    1.0
}

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "reward",
    about: "weighs the task's reward, the format, the validity of an action and the length of a response",
    role: Role::Judges,
    ports: &[Port {
        name: "rows",
        about: "turns",
        carries: Carries::Rows,
        needs: &["reward", "action", "valid"],
        optional: false,
        delay: Delay::Never,
    }],
    keeps: true,
    adds: &["reward"],
    settings: schema::<Weights>,
    outside: render,
    inside: None,
    further: Further { needs, wrong: |node, _| wrong(node).into_iter().collect(), ..Further::NOTHING },
};

fn needs(with: &Value) -> Vec<Need> {
    let overlong = with.get("overlong").filter(|o| !o.is_null()).map(|_| ("response_tokens", "overlong"));
    let won = with["won"].as_f64().filter(|won| *won != 0.0).map(|_| ("won", "won"));
    overlong.into_iter().chain(won).map(|(column, at)| Need { port: "rows", column: column.into(), at: vec![at.into()] }).collect()
}

/// A buffer that would begin before the response does.
fn wrong(node: &Node) -> Option<Wrong> {
    let overlong = settings::<Weights>(node).ok()?.overlong?;
    let message = format!("`buffer` must be at most `max`, found {} and {}", overlong.buffer, overlong.max);
    let help = "a response of `max` tokens costs the whole weight, one of `max` - `buffer` tokens nothing";
    (overlong.buffer > overlong.max).then(|| Wrong::in_node(node, &["with", "overlong", "buffer"], message).help(help))
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with: Weights = settings(node)?;
    let shape = Stage { name: node.id.clone(), inputs: vec![(must(&ports, "rows")?, Route::Stay)], begins: false, place: Place::Worker };
    Ok(stage(shape, ctx, move |_, rows| Ok(rows[0].iter().map(|batch| weigh(batch, &with)).collect::<Result<_, RowError>>()?)))
}

fn weigh(rows: &RecordBatch, with: &Weights) -> Result<RecordBatch, RowError> {
    let (reward, action, valid) = (row::f32s(rows, "reward")?, row::texts(rows, "action")?, row::bools(rows, "valid")?);
    let won = if with.won != 0.0 { Some(row::bools(rows, "won")?) } else { None };
    let mut weighed: Vec<f32> = (0..rows.num_rows())
        .map(|i| {
            let format = if action.value(i).is_empty() { 0.0 } else { with.format };
            let invalid = if valid.value(i) { 0.0 } else { with.invalid };
            let won = if won.is_some_and(|won| won.value(i)) { with.won } else { 0.0 };
            with.task * reward.value(i) + won + format + invalid
        })
        .collect();
    if let Some(overlong) = &with.overlong {
        let lengths = row::lists(rows, "response_tokens")?.offsets().lengths();
        weighed.iter_mut().zip(lengths).for_each(|(reward, tokens)| *reward += overlong.of(tokens as u32));
    }
    row::with(rows, "reward", Arc::new(Float32Array::from(weighed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, ListArray, StringArray};
    use arrow::datatypes::UInt32Type;

    #[test]
    fn each_part_has_its_weight() {
        let rows = row::batch(vec![
            ("action", Arc::new(StringArray::from(vec!["up", "", "fly"]))),
            ("valid", Arc::new(BooleanArray::from(vec![true, false, false]))),
            ("reward", Arc::new(Float32Array::from(vec![2.0, 0.0, 0.0]))),
        ])
        .unwrap();
        let weighed = weigh(&rows, &Weights { task: 1.0, won: 0.0, format: 0.5, invalid: -0.1, overlong: None }).unwrap();
        assert_eq!(row::f32s(&weighed, "reward").unwrap().values(), &[2.5, -0.1, 0.4]);
    }

    /// LaMer, appendix C: 10 for a success and 0 otherwise, whatever the game pays.
    #[test]
    fn winning_is_all_that_counts() {
        let rows = row::batch(vec![
            ("action", Arc::new(StringArray::from(vec!["up", "up"]))),
            ("valid", Arc::new(BooleanArray::from(vec![true, true]))),
            ("won", Arc::new(BooleanArray::from(vec![false, true]))),
            ("reward", Arc::new(Float32Array::from(vec![-0.1, 10.9]))),
        ])
        .unwrap();
        let weighed = weigh(&rows, &Weights { task: 0.0, won: 10.0, format: 0.0, invalid: 0.0, overlong: None }).unwrap();
        assert_eq!(row::f32s(&weighed, "reward").unwrap().values(), &[0.0, 10.0]);
    }

    /// DAPO, Eq. 13, with a longest response of 16 tokens and a buffer of 4.
    #[test]
    fn a_long_response_costs() {
        let overlong = Overlong { max: 16, buffer: 4, weight: 1.0 };
        let found: Vec<f32> = [0, 11, 12, 13, 14, 15, 16, 17, 1000].map(|tokens| overlong.of(tokens)).to_vec();
        assert_eq!(found, [0.0, 0.0, 0.0, -0.25, -0.5, -0.75, -1.0, -1.0, -1.0]);
        assert_eq!(Overlong { max: 4, buffer: 4, weight: 2.0 }.of(1), -0.5, "a buffer that is the whole response");

        let tokens = ListArray::from_iter_primitive::<UInt32Type, _, _>([12, 14, 20].map(|n| Some(vec![Some(7); n])));
        let rows = row::batch(vec![
            ("action", Arc::new(StringArray::from(vec!["up", "", "up"])) as arrow::array::ArrayRef),
            ("valid", Arc::new(BooleanArray::from(vec![true, false, true]))),
            ("reward", Arc::new(Float32Array::from(vec![2.0, 1.0, 0.0]))),
            ("response_tokens", arrow::compute::cast(&tokens, &row::Kind::U32List.arrow()).unwrap()),
        ])
        .unwrap();
        let weighed = weigh(&rows, &Weights { task: 1.0, won: 0.0, format: 0.0, invalid: -0.25, overlong: Some(overlong) }).unwrap();
        assert_eq!(row::f32s(&weighed, "reward").unwrap().values(), &[2.0, 0.25, -1.0]);
    }
}
