//! `group`: says which rows are compared with each other. `[task]` is GRPO's group, `[task, state]` GiGPO's,
//! `[task, state, visitation_depth]` EAPO's, `[]` REINFORCE++'s whole batch: four settings of one operator.

use super::{must, schema, settings};
use crate::credit;
use crate::dataflow::edge::keys;
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Place, Ports, Route};
use crate::pipeline::{Delay, Need, Node, OperatorSpec, Port};
use crate::row::{self, RowError};
use arrow::array::{RecordBatch, UInt32Array, UInt64Array};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `group`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Group {
    /// The columns in which the rows of a group agree, such as [task, state, visitation_depth]; [] makes one group of the whole iteration.
    by: Vec<String>,
}

pub fn spec() -> OperatorSpec {
    OperatorSpec {
        name: "group",
        about: "says which rows are compared with each other",
        ports: &[Port {
            name: "rows",
            about: "whole episodes",
            needs: &["task", "sample", "attempt", "turn", "state"],
            optional: false,
            delay: Delay::Never,
        }],
        keeps: true,
        adds: &["visitation_depth", "group", "group_size"],
        effect: false,
        settings: schema::<Group>(),
        needs,
    }
}

fn needs(with: &Value) -> Vec<Need> {
    let by = with["by"].as_array().into_iter().flatten().filter_map(Value::as_str).enumerate();
    // The depth is made here, from `state` and `turn`.
    by.filter(|(_, c)| *c != "visitation_depth")
        .map(|(i, c)| Need { port: "rows", column: c.into(), at: vec!["by".into(), i.to_string()] })
        .collect()
}

/// Two steps, because they need two views of the rows: the depth needs whole trajectories, the size needs whole groups.
pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, String> {
    let Group { by } = settings(node)?;
    let rows = must(&ports, "rows")?;
    let whole = Stage { name: node.id.clone(), inputs: vec![(rows, Route::by(&["task"]))], begins: false, place: Place::Worker };
    let marked = stage(whole, ctx, move |_, rows| mark(&rows[0], &by).map_err(|e| e.to_string()));
    let groups =
        Stage { name: format!("{} sizes", node.id), inputs: vec![(marked, Route::by(&["group"]))], begins: false, place: Place::Worker };
    Ok(stage(groups, ctx, |_, rows| measure(&rows[0]).map_err(|e| e.to_string())))
}

/// Adds `visitation_depth` and `group`.
fn mark(batches: &[RecordBatch], by: &[String]) -> Result<Vec<RecordBatch>, RowError> {
    let Some(rows) = row::sorted(batches)? else { return Ok(vec![]) };
    let depths = credit::visitation_depth(row::u64s(&rows, "state")?.values(), &episodes(&rows)?);
    let rows = row::with(&rows, "visitation_depth", Arc::new(UInt32Array::from(depths)))?;
    let groups = UInt64Array::from(keys(&rows, by));
    Ok(vec![row::with(&rows, "group", Arc::new(groups))?])
}

/// Adds `group_size`.
fn measure(batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, RowError> {
    let Some(rows) = row::sorted(batches)? else { return Ok(vec![]) };
    let sizes = credit::sizes(row::u64s(&rows, "group")?.values());
    Ok(vec![row::with(&rows, "group_size", Arc::new(UInt32Array::from(sizes)))?])
}

/// The trajectories of rows sorted by name: runs of equal task, sample and attempt.
pub fn episodes(rows: &RecordBatch) -> Result<Vec<Range<usize>>, RowError> {
    let (task, sample, attempt) = (row::texts(rows, "task")?, row::u32s(rows, "sample")?, row::u32s(rows, "attempt")?);
    let same =
        |i: usize| sample.value(i) == sample.value(i - 1) && attempt.value(i) == attempt.value(i - 1) && task.value(i) == task.value(i - 1);
    Ok(credit::episodes(same, rows.num_rows()))
}
