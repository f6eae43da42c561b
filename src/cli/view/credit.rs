//! The advantages of an iteration's turns by several estimators, computed from the logged rows as a replay would: nothing
//! is played, nothing is trained.

use super::answers::{RunTable, MOST, NAME};
use super::cells;
use super::runs::ServedRun;
use super::Answer;
use crate::cli::error::Error;
use crate::ops;
use arrow::array::AsArray;
use arrow::compute::concat_batches;
use arrow::datatypes::Float32Type;
use flow_core::row::{self, keys};
use flow_credit::rows::estimates;
use flow_credit::stats::sizes;
use serde_json::json;
use std::collections::BTreeMap;

/// The most turns that are compared at once.
const TURNS: usize = 200_000;

/// The columns that estimators read, each with its value where it isn't logged; the last one is the logged advantage.
const COLUMNS: [(&str, &str); 6] = [
    ("state", "0::UBIGINT"),
    ("reward", "0::FLOAT"),
    ("valid", "true"),
    ("truncated", "''"),
    ("action", "''"),
    ("advantage", "NULL::FLOAT"),
];

/// Each turn with its advantage as it was logged, and by GRPO, GiGPO and RTMC; the last two only with states.
pub fn credit(run: &ServedRun, iteration: u64) -> Answer {
    let table = RunTable::of(run, "trajectories")?;
    let columns = COLUMNS.map(|(column, default)| match table.has(column) {
        true => format!("coalesce({column}, {default}) AS {column}"),
        false => format!("{default} AS {column}"),
    });
    let sql = format!(
        "SELECT iteration, {NAME}, {} FROM {} WHERE iteration = {iteration} AND phase = 'play' ORDER BY {NAME}",
        columns.join(", "),
        table.name
    );
    let answer = flow_log::query_within(&run.run, iteration..=iteration, &sql)?;
    let asked = concat_batches(&answer.schema, &answer.batches)?;
    if asked.num_rows() > TURNS {
        return Err(Error::Request(format!("this iteration has more than {TURNS} turns: `flow replay` judges them")));
    }
    let known = asked.column(asked.num_columns() - 1).as_primitive::<Float32Type>();
    let fields = answer.schema.fields().iter().zip(asked.columns()).take(asked.num_columns() - 1);
    let rows = row::batch(fields.map(|(field, column)| (field.name().as_str(), column.clone())).collect())?;
    let mut made: BTreeMap<&str, Vec<f32>> = BTreeMap::new();
    let mut alone = None;
    if rows.num_rows() > 0 {
        made.insert("grpo", estimates::grpo(&rows)?);
    }
    if table.has("state") && rows.num_rows() > 0 {
        made.extend([("gigpo", estimates::gigpo(&rows)?), ("rtmc", estimates::rtmc(&rows)?)]);
        alone = Some(sizes(&keys(&rows, &["task", "state"])).iter().filter(|size| **size == 1).count());
    }
    let agree: BTreeMap<&str, f64> = made.iter().map(|(name, own)| (*name, estimates::same_signs(known.iter(), own))).collect();
    made.values_mut().for_each(|own| own.truncate(MOST));
    let imported = run.manifest()?.info.nodes.iter().any(|node| node.op == ops::importing().name);
    let source = known.iter().any(|known| known.is_some()).then_some(if imported { "theirs" } else { "logged" });
    let (count, turns) = (rows.num_rows(), cells::table(&sql, &answer, MOST)?);
    Ok(
        json!({ "turns": turns, "by": made, "count": count, "rewards": table.has("reward"), "alone": alone, "known": source, "agree": agree }),
    )
}
