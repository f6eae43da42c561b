//! An iteration: its episodes, its groups, and each row's part in its updates.

use super::answers::{of_iteration, split, RunTable, MOST, NAME};
use super::cells;
use super::runs::ServedRun;
use super::Answer;
use crate::cli::error::{Error, Result};
use flow_log::sql::{literal, quoted};
use flow_log::QueryResult;
use serde_json::{json, Value};

/// The episodes of an iteration.
pub fn episodes(run: &ServedRun, iteration: u64, table: &str) -> Answer {
    let rows = RunTable::of(run, table)?;
    let earned = rows.maybe("reward", "sum(reward)", "earned");
    let score = rows.maybe("score", "last(score ORDER BY attempt, turn)", "score");
    let won = rows.maybe("won", "bool_or(won)", "won");
    let advantage = rows.maybe("advantage", "arg_max(advantage, abs(advantage))", "largest_advantage");
    let gradient = rows.maybe("logit_grad", "max(logit_grad)", "largest_gradient");
    let mode = rows.maybe("mode", "any_value(mode)", "mode");
    let sql = format!(
        "SELECT task, sample, max(attempt) + 1 AS attempts, count(*) AS turns, {won}, {earned}, {score}, {advantage}, {gradient}, {mode} \
         FROM {} WHERE iteration = {iteration} GROUP BY task, sample ORDER BY task, sample LIMIT {}",
        rows.name,
        MOST + 1
    );
    of_iteration(run, iteration, &sql)
}

/// The groups of an iteration that rows were compared in; `by` is the column that names them.
pub fn groups(run: &ServedRun, iteration: u64, by: &str) -> Answer {
    let rows = RunTable::of(run, "trajectories")?;
    if !rows.has(by) {
        return Err(Error::Request(format!("no node logged the column `{by}`: name the `group` or `advantage` node in `log`")));
    }
    let column = |name: &str, how: &str, as_name: &str| rows.maybe(name, how, as_name);
    let sql = format!(
        "SELECT {0} AS \"group\", any_value(task) AS task, count(*) AS rows, count(DISTINCT sample) AS samples, {1}, {2}, {3}, {4}, {5} \
         FROM trajectories WHERE iteration = {iteration} AND {0} IS NOT NULL GROUP BY {0} ORDER BY largest_advantage DESC NULLS LAST, task LIMIT {6}",
        quoted(by),
        column("return", "min(\"return\")", "lowest_return"),
        column("return", "max(\"return\")", "highest_return"),
        column("baseline", "any_value(baseline)", "baseline"),
        column("scale", "any_value(scale)", "scale"),
        column("advantage", "max(abs(advantage))", "largest_advantage"),
        MOST + 1
    );
    let mut answer = of_iteration(run, iteration, &sql)?;
    answer["by"] = json!(rows.matching(|column| column == "group" || column.ends_with("_group")));
    Ok(answer)
}

/// The rows of a group side by side.
pub fn group(run: &ServedRun, iteration: u64, by: &str, id: &str) -> Answer {
    let id: u64 = id.parse().map_err(|_| Error::request("a group is named by a number"))?;
    of_iteration(run, iteration, &format!("{} ORDER BY {NAME} LIMIT {}", compared(run, iteration, by, Some(id))?, MOST + 1))
}

/// All groups of an iteration, each with its number.
pub fn all_groups(run: &ServedRun, iteration: u64, by: &str) -> Result<Vec<(String, Answer)>> {
    let columns = compared(run, iteration, by, None)?.replacen("SELECT ", &format!("SELECT {}, ", quoted(by)), 1);
    let all = format!("{columns} ORDER BY {}, {NAME}", quoted(by));
    let group = |(name, part): (Vec<Value>, QueryResult)| {
        let id = name[0].as_str().map_or_else(|| name[0].to_string(), Into::into);
        let sql = compared(run, iteration, by, id.parse().ok()).map(|sql| format!("{sql} ORDER BY {NAME}"));
        (id, sql.and_then(|sql| cells::table(&sql, &part, MOST)))
    };
    Ok(split(run, iteration, &all, 1)?.into_iter().map(group).collect())
}

/// A question for rows of one group, or of all, with the columns that defined their groups.
fn compared(run: &ServedRun, iteration: u64, by: &str, id: Option<u64>) -> Result<String> {
    let rows = RunTable::of(run, "trajectories")?;
    if !rows.has(by) {
        return Err(Error::Request(format!("no node logged the column `{by}`")));
    }
    let columns =
        ["observation", "action", "response", "won", "reward", "return", "baseline", "scale", "advantage", "used", "advantage_used"];
    let (columns, by) = (rows.having(&columns), quoted(by));
    let condition = id.map_or_else(|| format!("{by} IS NOT NULL"), |id| format!("{by} = {id}"));
    Ok(format!("SELECT {NAME}{columns} FROM trajectories WHERE iteration = {iteration} AND {condition}"))
}

/// The updates of an iteration, the reasons why rows were left out, and the rows that moved the weights most.
pub fn updates(run: &ServedRun, iteration: u64) -> Answer {
    let rows = RunTable::of(run, "provenance")?;
    let reasons = format!(
        "SELECT node, version, coalesce(used, 'yes') AS used, count(*) AS rows FROM provenance WHERE iteration = {iteration} GROUP BY ALL ORDER BY ALL"
    );
    let order = if rows.has("logit_grad") { "logit_grad" } else { "abs(advantage)" };
    let columns = rows.having(&["used", "advantage", "return", "ratio", "clip_share", "loss_share", "logit_grad", "row_kl"]);
    let largest = format!(
        "SELECT node, version, {NAME}{columns} FROM provenance WHERE iteration = {iteration} ORDER BY {order} DESC NULLS LAST, {NAME} LIMIT 100"
    );
    Ok(json!({ "reasons": of_iteration(run, iteration, &reasons)?, "largest": of_iteration(run, iteration, &largest)? }))
}

/// What one row became: each update that had it.
pub fn uses(run: &ServedRun, iteration: u64, name: &[(&str, &str)]) -> Result<Value> {
    let rows = RunTable::of(run, "provenance")?;
    let condition: String = name.iter().map(|(column, value)| format!(" AND {column} = {}", literal(value))).collect();
    let columns =
        rows.having(&["used", "return", "baseline", "scale", "advantage", "ratio", "clip_share", "loss_share", "logit_grad", "row_kl"]);
    of_iteration(run, iteration, &format!("SELECT node, version{columns} FROM provenance WHERE iteration = {iteration}{condition}"))
}
