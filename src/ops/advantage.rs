//! `advantage`: how much better a row did than its group. The formulas are in `credit`.

use super::group::episodes;
use super::{must, nothing, schema, settings};
use crate::credit::{self, AdvantageSettings};
use crate::dataflow::edge::keys;
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Place, Ports, Route};
use crate::pipeline::{Delay, Node, OperatorSpec, Port};
use crate::row::{self, RowError};
use arrow::array::{Float32Array, RecordBatch, StringArray};
use std::sync::Arc;
use timely::dataflow::Scope;

pub fn spec() -> OperatorSpec {
    OperatorSpec {
        name: "advantage",
        about: "how much better a row did than its group",
        ports: &[Port {
            name: "rows",
            about: "grouped rows of whole episodes",
            needs: &["task", "sample", "attempt", "turn", "reward", "valid", "group"],
            optional: false,
            delay: Delay::Never,
        }],
        keeps: true,
        adds: &["return", "baseline", "scale", "advantage", "used"],
        effect: false,
        settings: schema::<AdvantageSettings>(),
        needs: nothing,
    }
}

/// Two steps: the return needs whole trajectories, the baseline whole groups.
pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, String> {
    let with: AdvantageSettings = settings(node)?;
    let rows = must(&ports, "rows")?;
    let trajectories = Stage { name: node.id.clone(), inputs: vec![(rows, Route::by(&["task"]))], begins: false, place: Place::Worker };
    let first = with.clone();
    let valued = stage(trajectories, ctx, move |_, rows| value(&rows[0], &first).map_err(|e| e.to_string()));
    let groups =
        Stage { name: format!("{} groups", node.id), inputs: vec![(valued, Route::by(&["group"]))], begins: false, place: Place::Worker };
    Ok(stage(groups, ctx, move |_, rows| compare(&rows[0], &with).map_err(|e| e.to_string())))
}

/// Adds `return`.
fn value(batches: &[RecordBatch], with: &AdvantageSettings) -> Result<Vec<RecordBatch>, RowError> {
    let Some(rows) = row::sorted(batches)? else { return Ok(vec![]) };
    let valid: Vec<bool> = row::bools(&rows, "valid")?.values().iter().collect();
    let values = credit::values(row::f32s(&rows, "reward")?.values(), &valid, &episodes(&rows)?, with);
    let values = Float32Array::from_iter_values(values.into_iter().map(|v| v as f32));
    Ok(vec![row::with(&rows, "return", Arc::new(values))?])
}

/// Adds `baseline`, `scale`, `advantage` and `used`.
fn compare(batches: &[RecordBatch], with: &AdvantageSettings) -> Result<Vec<RecordBatch>, RowError> {
    let Some(rows) = row::sorted(batches)? else { return Ok(vec![]) };
    let values: Vec<f64> = row::f32s(&rows, "return")?.values().iter().map(|v| *v as f64).collect();
    let trajectories = keys(&rows, &["task".into(), "sample".into(), "attempt".into()]);
    let made = credit::advantages(&values, row::u64s(&rows, "group")?.values(), &trajectories, with);
    let rows = row::with(&rows, "baseline", Arc::new(Float32Array::from(made.baseline)))?;
    let rows = row::with(&rows, "scale", Arc::new(Float32Array::from(made.scale)))?;
    let rows = row::with(&rows, "advantage", Arc::new(Float32Array::from(made.advantage)))?;
    let used = StringArray::from_iter_values(made.used.iter().map(|u| u.as_str()));
    Ok(vec![row::with(&rows, "used", Arc::new(used))?])
}
