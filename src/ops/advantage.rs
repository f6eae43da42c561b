//! `advantage`: how much better a row did than its group. The formulas are in `credit`.

use super::episodes::{episodes, reflections};
use super::{must, schema};
use crate::credit::{self, AdvantageSettings, Columns, Of, Unit, Used};
use crate::dataflow::edge::keys;
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Failed, Place, Ports, Route};
use crate::pipeline::{Delay, Need, Node, OperatorSpec, Port};
use crate::row::{self, RowError};
use arrow::array::{Float32Array, RecordBatch, StringArray};
use serde_json::Value;
use std::sync::Arc;
use timely::dataflow::Scope;

pub fn spec() -> OperatorSpec {
    OperatorSpec {
        name: "advantage",
        about: "how much better a row did than its group",
        ports: &[Port {
            name: "rows",
            about: "grouped rows of whole episodes",
            needs: &["task", "sample", "attempt", "turn", "phase", "reward", "valid", "group"],
            optional: false,
            delay: Delay::Never,
        }],
        keeps: true,
        adds: &["return", "baseline", "scale", "advantage", "value_target", "used"],
        effect: false,
        loops: false,
        settings: schema::<AdvantageSettings>(),
        needs,
    }
}

/// The columns that only some settings read.
fn needs(with: &Value) -> Vec<Need> {
    let Ok(meant) = AdvantageSettings::meant(with) else { return Vec::new() };
    let need = |column: &str, key: &str| Need { port: "rows", column: column.into(), at: vec![key.into()] };
    let mut needs = Vec::new();
    if meant.of == Of::Advantage {
        needs.push(need("advantage", "of"));
    }
    if meant.of == Of::Gae {
        needs.push(need("value", "of"));
    }
    if meant.unit == Unit::Token {
        needs.push(need("response_tokens", if with.get("unit").is_some() { "unit" } else { "preset" }));
    }
    needs
}

/// Two steps: the return needs whole trajectories, the baseline whole groups.
pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = AdvantageSettings::meant(&node.with).map_err(|e| format!("with: {e}"))?;
    let rows = must(&ports, "rows")?;
    let trajectories = Stage { name: node.id.clone(), inputs: vec![(rows, Route::by(&["task"]))], begins: false, place: Place::Worker };
    let first = with.clone();
    let valued = stage(trajectories, ctx, move |_, rows| Ok(value(&rows[0], &first)?));
    let groups =
        Stage { name: format!("{} groups", node.id), inputs: vec![(valued, Route::by(&["group"]))], begins: false, place: Place::Worker };
    Ok(stage(groups, ctx, move |_, rows| Ok(compare(&rows[0], &with)?)))
}

/// Adds `return`, and with it, where a critic was asked, `value_target`.
fn value(batches: &[RecordBatch], with: &AdvantageSettings) -> Result<Vec<RecordBatch>, RowError> {
    let Some(rows) = row::sorted(batches)? else { return Ok(vec![]) };
    let valid: Vec<bool> = row::bools(&rows, "valid")?.values().iter().collect();
    let mut columns = Columns { reward: row::f32s(&rows, "reward")?.values(), valid: &valid, ..Default::default() };
    if with.of == Of::Advantage {
        columns.advantage = row::f32s(&rows, "advantage")?.values();
    }
    if with.of == Of::Gae {
        columns.value = row::f32s(&rows, "value")?.values();
    }
    let reflection = reflections(&rows)?;
    let trial = if with.of == Of::CrossEpisodeReturn { keys(&rows, &["task".into(), "sample".into()]) } else { vec![] };
    (columns.trial, columns.reflection) = (&trial, &reflection);
    let values = credit::values(&columns, &episodes(&rows)?, with);
    let column = |values: &[f64]| Arc::new(Float32Array::from_iter_values(values.iter().map(|v| *v as f32)));
    let made = row::with(&rows, "return", column(&values))?;
    Ok(vec![match with.of {
        Of::Gae => row::with(&made, "value_target", column(&credit::targets(&values, columns.value)))?,
        _ => made,
    }])
}

/// Adds `baseline`, `scale`, `advantage` and `used`. A row that was dropped upstream keeps its reason.
fn compare(batches: &[RecordBatch], with: &AdvantageSettings) -> Result<Vec<RecordBatch>, RowError> {
    let Some(rows) = row::sorted(batches)? else { return Ok(vec![]) };
    let values: Vec<f64> = row::f32s(&rows, "return")?.values().iter().map(|v| *v as f64).collect();
    // A reflection is no turn of its attempt, so the phase tells them apart.
    let trajectory = keys(&rows, &["task".into(), "sample".into(), "attempt".into(), "phase".into()]);
    let tokens: Vec<u32> = match with.unit {
        Unit::Token => row::lists(&rows, "response_tokens")?.offsets().lengths().map(|n| n as u32).collect(),
        Unit::Trajectory | Unit::Turn => vec![],
    };
    let before = row::texts(&rows, "used").ok();
    let dropped: Vec<bool> = before.iter().flat_map(|used| used.iter()).map(|used| used != Some("yes")).collect();
    let columns = Columns { trajectory: &trajectory, tokens: &tokens, dropped: &dropped, ..Default::default() };
    let made = credit::advantages(&values, row::u64s(&rows, "group")?.values(), &columns, with);
    let used = made.used.iter().enumerate().map(|(i, used)| match (used, before) {
        (Used::Upstream, Some(before)) => before.value(i),
        (used, _) => used.as_str(),
    });
    let used = Arc::new(StringArray::from_iter_values(used));
    let rows = row::with(&rows, "baseline", Arc::new(Float32Array::from(made.baseline)))?;
    let rows = row::with(&rows, "scale", Arc::new(Float32Array::from(made.scale)))?;
    let rows = row::with(&rows, "advantage", Arc::new(Float32Array::from(made.advantage)))?;
    Ok(vec![row::with(&rows, "used", used)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Random;
    use arrow::array::{ArrayRef, BooleanArray, ListArray, UInt32Array, UInt64Array};
    use arrow::compute::{concat_batches, take_record_batch};
    use arrow::datatypes::UInt32Type;

    /// Six trajectories of two turns; the rewards and the tokens of a row follow from where it stands.
    fn rows() -> RecordBatch {
        let n = 12u32;
        let u32s = |f: &dyn Fn(u32) -> u32| Arc::new(UInt32Array::from_iter_values((0..n).map(f))) as ArrayRef;
        let tokens = (0..n).map(|i| Some(vec![Some(7); 1 + i as usize % 3]));
        let lists = ListArray::from_iter_primitive::<UInt32Type, _, _>(tokens);
        let lists = arrow::compute::cast(&lists, &row::Kind::U32List.arrow()).unwrap();
        row::batch(vec![
            ("task", Arc::new(StringArray::from_iter_values((0..n).map(|i| format!("task-{}", i / 4))))),
            ("sample", u32s(&|i| i / 2 % 2)),
            ("attempt", u32s(&|_| 0)),
            ("turn", u32s(&|i| i % 2)),
            ("phase", Arc::new(StringArray::from(vec!["play"; n as usize]))),
            ("response_tokens", lists),
            ("reward", Arc::new(Float32Array::from_iter_values((0..n).map(|i| (i * i % 7) as f32 - 0.1)))),
            ("valid", Arc::new(BooleanArray::from_iter((0..n).map(|i| Some(i % 5 != 0))))),
            ("group", Arc::new(UInt64Array::from_iter_values((0..n).map(|i| u64::from(i / 4))))),
        ])
        .unwrap()
    }

    fn both(rows: &[RecordBatch], with: &AdvantageSettings) -> RecordBatch {
        let made = compare(&value(rows, with).unwrap(), with).unwrap();
        concat_batches(&made[0].schema(), &made).unwrap()
    }

    #[test]
    fn rows_in_any_order_and_any_batches_give_the_same_bits() {
        let rows = rows();
        let mut order: Vec<u32> = (0..12).collect();
        Random::new(4).shuffle(&mut order);
        let shuffled = take_record_batch(&rows, &UInt32Array::from(order)).unwrap();
        for unit in [Unit::Trajectory, Unit::Turn, Unit::Token] {
            let with = AdvantageSettings { unit, invalid_penalty: 0.1, ..Default::default() };
            let wanted = both(std::slice::from_ref(&rows), &with);
            assert_eq!(both(&[shuffled.slice(7, 5), shuffled.slice(0, 7)], &with), wanted);
        }
    }

    #[test]
    fn an_advantage_is_compared_once_more_over_the_whole_batch() {
        let first = AdvantageSettings { of: Of::StepReturn, scale: credit::Scale::None, ..Default::default() };
        let task = both(&[rows()], &first);
        let batch = row::with(&task, "group", Arc::new(UInt64Array::from(vec![0; 12]))).unwrap();
        let with = AdvantageSettings { of: Of::Advantage, unit: Unit::Token, eps: 0.0, ..Default::default() };
        let made = both(&[batch], &with);
        assert_eq!(row::f32s(&made, "return").unwrap(), row::f32s(&task, "advantage").unwrap());
        let tokens = |i: usize| 1.0 + (i % 3) as f32;
        let sum = |f: &dyn Fn(f32) -> f32| -> f32 {
            row::f32s(&made, "advantage").unwrap().values().iter().enumerate().map(|(i, a)| tokens(i) * f(*a)).sum()
        };
        // 12 rows of 1, 2 and 3 tokens in turn: 24 tokens.
        assert!(sum(&|a| a).abs() < 1e-5 && (sum(&|a| a * a) - 23.0).abs() < 1e-4, "mean 0 and variance 1 over the tokens");
    }

    #[test]
    fn a_reason_given_upstream_is_kept() {
        let used: Vec<&str> = (0..12).map(|i| if i < 4 { "because" } else { "yes" }).collect();
        let rows = row::with(&rows(), "used", Arc::new(StringArray::from(used.clone()))).unwrap();
        let made = both(&[rows], &AdvantageSettings::default());
        assert_eq!(row::texts(&made, "used").unwrap(), &StringArray::from(used));
        assert_eq!(row::f32s(&made, "advantage").unwrap().values()[..4], [0.0; 4]);
    }
}
