//! `reward`: weighs what the task pays, what the format earns and what an invalid action costs.
//! With 1, 0.5 and 0 it is EAPO's R_task + 0.5 R_format (remark 5.1, without the exploration part).

use super::{must, nothing, schema, settings};
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Place, Ports, Route};
use crate::pipeline::{Delay, Node, OperatorSpec, Port};
use crate::row::{self, RowError};
use arrow::array::{Float32Array, RecordBatch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `reward`: new reward = task * reward + format * (an action could be read) + invalid * (it could not be carried out).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Weights {
    /// Weight of the environment's reward.
    #[serde(default = "one")]
    task: f32,
    /// Earned by a response from which an action could be read.
    #[serde(default)]
    format: f32,
    /// Added for an action that could not be carried out; -0.1 in GiGPO's scripts.
    #[serde(default)]
    invalid: f32,
}

fn one() -> f32 {
    1.0
}

pub fn spec() -> OperatorSpec {
    OperatorSpec {
        name: "reward",
        about: "weighs the task's reward, the format and the validity of an action",
        ports: &[Port { name: "rows", about: "turns", needs: &["reward", "action", "valid"], optional: false, delay: Delay::Never }],
        keeps: true,
        adds: &["reward"],
        effect: false,
        settings: schema::<Weights>(),
        needs: nothing,
    }
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, String> {
    let with: Weights = settings(node)?;
    let shape = Stage { name: node.id.clone(), inputs: vec![(must(&ports, "rows")?, Route::Stay)], begins: false, place: Place::Worker };
    Ok(stage(shape, ctx, move |_, rows| {
        rows[0].iter().map(|batch| weigh(batch, &with)).collect::<Result<_, _>>().map_err(|e: RowError| e.to_string())
    }))
}

fn weigh(rows: &RecordBatch, with: &Weights) -> Result<RecordBatch, RowError> {
    let (reward, action, valid) = (row::f32s(rows, "reward")?, row::texts(rows, "action")?, row::bools(rows, "valid")?);
    let weighed = (0..rows.num_rows()).map(|i| {
        let format = if action.value(i).is_empty() { 0.0 } else { with.format };
        let invalid = if valid.value(i) { 0.0 } else { with.invalid };
        with.task * reward.value(i) + format + invalid
    });
    row::with(rows, "reward", Arc::new(Float32Array::from_iter_values(weighed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, StringArray};

    #[test]
    fn each_part_has_its_weight() {
        let rows = row::batch(vec![
            ("action", Arc::new(StringArray::from(vec!["up", "", "fly"]))),
            ("valid", Arc::new(BooleanArray::from(vec![true, false, false]))),
            ("reward", Arc::new(Float32Array::from(vec![2.0, 0.0, 0.0]))),
        ])
        .unwrap();
        let weighed = weigh(&rows, &Weights { task: 1.0, format: 0.5, invalid: -0.1 }).unwrap();
        assert_eq!(row::f32s(&weighed, "reward").unwrap().values(), &[2.5, -0.1, 0.4]);
    }
}
