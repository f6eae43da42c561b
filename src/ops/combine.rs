//! `combine`: a weighted sum of advantages over the same rows, joined by name. GiGPO is episode + w * step
//! (Eq. 8 of its paper), SLEA-RL the same with clusters.

use super::{nothing, schema, settings};
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Failed, Place, Ports, Route};
use crate::pipeline::{Delay, Node, OperatorSpec, Port};
use crate::row::{self, RowError};
use arrow::array::{Float32Array, RecordBatch, StringArray};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `combine`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Combine {
    /// The weight of each input, by its name; 1 unless given.
    #[serde(default)]
    #[schemars(extend("x-keys" = "inputs"))]
    weights: BTreeMap<String, f32>,
}

pub fn spec() -> OperatorSpec {
    OperatorSpec {
        name: "combine",
        about: "a weighted sum of advantages over the same rows",
        ports: &[Port {
            name: "*",
            about: "rows with an advantage; the first input's other columns are kept",
            needs: &["task", "advantage", "used"],
            optional: false,
            delay: Delay::Never,
        }],
        keeps: true,
        adds: &["advantage", "used"],
        effect: false,
        loops: false,
        settings: schema::<Combine>(),
        needs: nothing,
    }
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with: Combine = settings(node)?;
    if let Some(stranger) = with.weights.keys().find(|w| !ports.iter().any(|(p, _)| p == *w)) {
        let names: Vec<&str> = ports.iter().map(|(p, _)| p.as_str()).collect();
        return Err(format!("weights: there is no input `{stranger}`; the inputs are {}", names.join(", ")).into());
    }
    let weights: Vec<f32> = ports.iter().map(|(p, _)| with.weights.get(p).copied().unwrap_or(1.0)).collect();
    // One key for all inputs, so that a row and its partners meet.
    let inputs = ports.into_iter().map(|(_, edge)| (edge, Route::by(&["task"]))).collect();
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place: Place::Worker }, ctx, move |_, rows| Ok(add(&rows, &weights)?)))
}

fn add(inputs: &[Vec<RecordBatch>], weights: &[f32]) -> Result<Vec<RecordBatch>, String> {
    let text = |e: RowError| e.to_string();
    let mut sorted = Vec::new();
    for batches in inputs {
        sorted.extend(row::sorted(batches).map_err(text)?);
    }
    let Some(first) = sorted.first() else { return Ok(vec![]) };
    let mut sum = vec![0f32; first.num_rows()];
    let mut used: Vec<String> = vec!["yes".into(); first.num_rows()];
    if sorted.len() != weights.len() {
        return Err("one input has rows and another has none".into());
    }
    for (rows, weight) in sorted.iter().zip(weights) {
        if let Some(name) = row::NAME.iter().find(|n| rows.column_by_name(n) != first.column_by_name(n)) {
            return Err(format!("the inputs hold different rows: `{name}` differs ({} rows and {})", first.num_rows(), rows.num_rows()));
        }
        let (advantage, why) = (row::f32s(rows, "advantage").map_err(text)?, row::texts(rows, "used").map_err(text)?);
        for (i, total) in sum.iter_mut().enumerate() {
            *total += weight * advantage.value(i);
            if why.value(i) != "yes" && used[i] == "yes" {
                used[i] = why.value(i).into();
            }
        }
    }
    let rows = row::with(first, "advantage", Arc::new(Float32Array::from(sum))).map_err(text)?;
    Ok(vec![row::with(&rows, "used", Arc::new(StringArray::from(used))).map_err(text)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::UInt32Array;

    fn rows(samples: Vec<u32>, advantages: Vec<f32>) -> RecordBatch {
        let used = StringArray::from(vec!["yes"; samples.len()]);
        row::batch(vec![
            ("sample", Arc::new(UInt32Array::from(samples))),
            ("advantage", Arc::new(Float32Array::from(advantages))),
            ("used", Arc::new(used)),
        ])
        .unwrap()
    }

    #[test]
    fn rows_are_joined_by_name() {
        let sum = add(&[vec![rows(vec![0, 1], vec![1.0, 2.0])], vec![rows(vec![1, 0], vec![20.0, 10.0])]], &[1.0, 0.5]).unwrap();
        assert_eq!(row::f32s(&sum[0], "advantage").unwrap().values(), &[6.0, 12.0]);
    }

    #[test]
    fn other_rows_are_refused() {
        let error = add(&[vec![rows(vec![0], vec![1.0])], vec![rows(vec![1], vec![1.0])]], &[1.0, 1.0]).unwrap_err();
        assert!(error.contains("`sample` differs"), "{error}");
    }
}
