//! The audits of a run: the figures that `flow audit` prints, the audited turns, and the answers that were tried at the
//! turns of an episode.

use super::answers::{episode_name, split, up_to, MOST};
use super::cells;
use super::runs::ServedRun;
use super::Answer;
use crate::cli::audit::{settings_of, Figures};
use crate::cli::error::{Error, Result};
use flow_log::{sql::literal, QueryResult};
use flow_pipeline::Role;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// The most points of the plot, and the most tried answers of an episode.
const POINTS: usize = 2000;

/// The name of an audited turn.
const TURN: &str = "iteration, task, sample, attempt, turn";

/// The audits that have a page: those of a credit. The plays of an audit of a memory stand at their turns.
///
/// # Errors
/// If the manifest or settings can't be read.
pub fn of_credit(run: &ServedRun) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in run.audits()? {
        if settings_of(&run.run, &name)?.is_none_or(|settings| settings["answers"] != "memory") {
            names.push(name);
        }
    }
    Ok(names)
}

/// The audit `name`: its figures, its turns by disagreement, and the points of its plot.
///
/// A credit and a worth have different scales. So each is divided by its root mean square over the audited turns, which
/// keeps its sign, and the disagreement of a turn is the distance of the two.
pub fn audit(run: &ServedRun, name: &str) -> Answer {
    let audits = of_credit(run)?;
    if audits.is_empty() {
        return Err(Error::request("this run has no audit: `flow audit RUN` makes one"));
    }
    if !audits.iter().any(|known| known == name) {
        return Err(Error::Request(format!("this run has no audit `{name}`: it has {}", audits.join(", "))));
    }
    let settings = settings_of(&run.run, name)?;
    let of = format!("FROM audit WHERE audit = {} AND role = 'logged' AND audited IS NOT NULL", literal(name));
    let scaled = |column: &str| format!("coalesce({column} / nullif(sqrt(avg({column} * {column}) OVER ()), 0), 0)");
    let turns = format!(
        "SELECT {TURN}, credit, audited, audited_error, abs(audited) > 1.96 * audited_error AS decided, \
         abs({} - {}) AS disagreement, answer {of} ORDER BY disagreement DESC, {TURN} LIMIT {}",
        scaled("credit"),
        scaled("audited"),
        MOST + 1
    );
    let turns = up_to(run, None, &turns)?;
    // Of many turns those with the largest disagreement would show a worse credit than there is.
    let points = match turns["more"] == true {
        true => {
            let sql = format!("SELECT {TURN}, credit, audited, audited_error {of} ORDER BY hash({TURN}) LIMIT {}", POINTS + 1);
            cells::table(&sql, &flow_log::query(&run.run, &sql)?, POINTS)?
        }
        false => Value::Null,
    };
    let credit = settings.as_ref().map_or("credit", |settings| settings["credit"].as_str().unwrap_or("credit"));
    Ok(json!({ "credit": credit, "figures": Figures::of(&run.run, name)?, "turns": turns, "points": points }))
}

/// The answers that audits tried at the turns of an iteration's episodes, by task and sample. None for a table whose
/// episodes are not of the training, since an audit has none of them.
pub fn tried(run: &ServedRun, iteration: u64, table: &str) -> Result<BTreeMap<(String, u64), Value>> {
    let manifest = run.manifest()?;
    let apart = manifest.info.nodes.iter().any(|node| node.id == table && node.role.is_some_and(Role::apart));
    if apart || run.audits()?.is_empty() {
        return Ok(BTreeMap::new());
    }
    let sql = format!(
        "SELECT task, sample, attempt, turn, audit, role, answer, plays, worth, worth_error, audited, audited_error, credit, refused \
         FROM audit WHERE iteration = {iteration} ORDER BY task, sample, attempt, turn, audit, role, answer"
    );
    let episode = |(name, rows): (Vec<Value>, QueryResult)| Ok((episode_name(&name), cells::table(&sql, &rows, POINTS)?));
    split(run, iteration, &sql, 2)?.into_iter().map(episode).collect()
}
