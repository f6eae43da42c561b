//! Frozen panels, and episodes that failed.

use super::answers::{of_iteration, up_to, within, RunTable, MOST};
use super::runs::ServedRun;
use super::Answer;
use crate::cli::error::Result;
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt32Type};
use flow_core::seed;
use flow_credit::stats::{pass_interval, Trial};
use serde_json::{json, Value};

/// Over how many measurements a page says how often a task was won.
const MEASUREMENTS: usize = 50;

/// The seed of the bootstrap: the page of a log is always the same.
const SEED: u64 = 1;

/// Episodes that failed, by cause, and the newest of them.
pub fn failures(run: &ServedRun) -> Answer {
    let causes = "SELECT node, cause, count(*) AS failures, min(iteration) AS first, max(iteration) AS last, any_value(error) AS example FROM errors GROUP BY ALL ORDER BY failures DESC";
    let newest = format!("SELECT iteration, node, task, sample, attempt, turn, cause, tries, error FROM errors ORDER BY iteration DESC, task, sample LIMIT {}", MOST + 1);
    Ok(json!({ "causes": up_to(run, None, causes)?, "newest": up_to(run, None, &newest)? }))
}

/// The tasks of a panel at the last measurement up to an iteration: of each the share of its episodes that were won;
/// pass@k where they had several attempts.
pub fn panel(run: &ServedRun, node: &str, iteration: u64) -> Answer {
    let rows = RunTable::of(run, node)?;
    let measured = measured(run, node)?;
    let until = measured.partition_point(|other| *other <= iteration);
    let iteration = until.checked_sub(1).map_or(iteration, |last| measured[last]);
    let score = rows.maybe("score", "avg(score) FILTER (done)", "score");
    let sql = format!(
        "SELECT task, count(DISTINCT sample) AS episodes, max(attempt) + 1 AS attempts, avg(won::INT) FILTER (done) AS won, {score} \
         FROM {} WHERE iteration = {iteration} GROUP BY task ORDER BY won, task LIMIT {}",
        rows.name,
        MOST + 1
    );
    let mut answer = of_iteration(run, iteration, &sql)?;
    let some = &measured[until.saturating_sub(MEASUREMENTS)..until];
    if let (Some(first), true) = (some.first(), some.len() > 1) {
        let ever = format!(
            "SELECT task, count(DISTINCT iteration) AS measurements, count(DISTINCT iteration) FILTER (won) AS won_in,              max(iteration) FILTER (won) AS won_last FROM {} WHERE iteration BETWEEN {first} AND {iteration} GROUP BY task ORDER BY won_in, task",
            rows.name
        );
        answer["ever"] = within(run, *first..=iteration, &ever)?;
    }
    answer["iteration"] = json!(iteration);
    answer["iterations"] = json!(measured);
    // The attempts are the third column.
    let several = answer["rows"].as_array().is_some_and(|tasks| tasks.iter().any(|task| task[2].as_u64() > Some(1)));
    answer["pass"] = if several { passes(run, &rows, iteration)? } else { Value::Null };
    Ok(answer)
}

/// The iterations with logged rows of a node.
pub fn measured(run: &ServedRun, node: &str) -> Result<Vec<u64>> {
    let has = |iteration: &&flow_log::Iteration| iteration.parts.iter().any(|part| part.node == node && part.rows > 0);
    Ok(run.manifest()?.committed.iter().filter(has).map(|iteration| iteration.iteration).collect())
}

/// [k, share of the trials that were won within k attempts, and its 95% interval over tasks], where trials have several
/// attempts.
fn passes(run: &ServedRun, rows: &RunTable, iteration: u64) -> Answer {
    let sql = format!(
        "SELECT task, sample, min(CASE WHEN won THEN attempt END) AS won_at, max(attempt) + 1 AS attempts FROM {} \
         WHERE iteration = {iteration} AND phase = 'play' GROUP BY ALL ORDER BY ALL",
        rows.name
    );
    let answer = flow_log::query_within(&run.run, iteration..=iteration, &sql)?;
    let (mut trials, mut most) = (Vec::new(), 0);
    for batch in &answer.batches {
        let column = |i: usize| cast(batch.column(i), &DataType::UInt32);
        let (tasks, won_at, attempts) = (batch.column(0).as_string::<i32>(), column(2)?, column(3)?);
        let won_at = won_at.as_primitive::<UInt32Type>();
        trials.extend(tasks.iter().zip(won_at).map(|(task, won_at)| Trial { task: seed::text(task.unwrap_or_default()), won_at }));
        most = most.max(attempts.as_primitive::<UInt32Type>().iter().flatten().max().unwrap_or(0));
    }
    let pass = |k: u32| {
        let pass = pass_interval(&trials, k, SEED);
        json!([k, pass.value, pass.low, pass.high])
    };
    Ok((1..=most).map(pass).collect())
}
