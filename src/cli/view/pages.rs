//! What the pages ask, one function a page. Each answer says its SQL, so that anybody can ask it again.

use super::answers::{of_iteration, up_to, RunTable, MOST, NAME};
use super::runs::{ServedRun, ServedRuns};
use super::Answer;
use crate::cli::error::{Error, Result};
use crate::cli::top::RunSnapshot;
use crate::log::sql::{literal, quoted};
use crate::pipeline::{Node, Pipeline, Role};
use crate::{ops, pipeline};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// The last value of these figures stands in the list of runs.
const SHOWN: [&str; 3] = ["success", "return", "loss"];

/// The list of runs: what each is, how it stands, its last figures.
pub fn runs(served: &ServedRuns) -> Answer {
    let all = served.list();
    let line = |(number, run): (usize, &std::sync::Arc<ServedRun>)| {
        let read = run.manifest().and_then(|manifest| Ok((RunSnapshot::of(&run.run, &run.folder)?, manifest)));
        match read {
            Ok((snapshot, manifest)) => {
                let mut figures = Map::new();
                for (node, values) in manifest.committed.iter().rev().take(50).flat_map(|iteration| &iteration.metrics) {
                    let role = manifest.info.nodes.iter().find(|known| known.id == *node).and_then(|known| known.role);
                    for name in SHOWN.iter().filter(|name| values.contains_key(**name)) {
                        let name = if role == Some(Role::Measures) { format!("panel {name}") } else { (*name).to_string() };
                        figures.entry(name.clone()).or_insert_with(|| json!(values.get(name.trim_start_matches("panel "))));
                    }
                }
                json!({
                    "number": number, "folder": run.folder, "name": manifest.info.name, "seed": manifest.info.seed, "state": snapshot.state,
                    "next": manifest.next(), "iterations": manifest.info.iterations, "figures": figures,
                    "seconds": manifest.committed.iter().map(|iteration| iteration.seconds).sum::<f64>(),
                })
            }
            // One that can't be read is listed with the reason.
            Err(error) => json!({ "number": number, "folder": run.folder, "error": error.to_string() }),
        }
    };
    Ok(json!({ "runs": all.iter().enumerate().map(line).collect::<Vec<_>>() }))
}

/// A run: its pipeline as a graph, how it stands, its tables, its figures by node, the iterations that are committed.
pub fn run(run: &ServedRun) -> Answer {
    let manifest = run.manifest()?;
    let snapshot = RunSnapshot::of(&run.run, &run.folder)?;
    let mut figures: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for (node, values) in manifest.committed.iter().flat_map(|iteration| &iteration.metrics) {
        let known = figures.entry(node).or_default();
        values.keys().for_each(|name| *known.entry(name).or_default() += 1);
    }
    let yaml = std::fs::read_to_string(run.run.pipeline()).unwrap_or_default();
    let graph = pipeline::load(&run.run.pipeline(), &[], &ops::replayed(Default::default())).map(|pipeline| graph(&pipeline));
    let committed: Vec<u64> = manifest.committed.iter().map(|iteration| iteration.iteration).collect();
    let tables = run.tables()?;
    let tables: Vec<Value> = tables
        .iter()
        .map(|table| json!({ "name": table.name, "columns": table.columns.iter().map(|(name, kind)| json!([name, kind])).collect::<Vec<_>>() }))
        .collect();
    Ok(json!({
        "folder": run.folder, "info": manifest.info, "state": snapshot, "yaml": yaml, "graph": graph.as_ref().ok(),
        "graph_error": graph.as_ref().err().map(ToString::to_string), "figures": figures, "tables": tables,
        "iterations": { "first": committed.first(), "last": committed.last(), "count": committed.len() },
        "roles": manifest.info.nodes.iter().map(|node| (node.id.clone(), json!(node.role))).collect::<Map<_, _>>(),
    }))
}

/// How a run stands now: what changes while it goes on.
pub fn state(run: &ServedRun) -> Answer {
    let manifest = run.manifest()?;
    Ok(json!({ "state": RunSnapshot::of(&run.run, &run.folder)?, "last": manifest.committed.last().map(|iteration| iteration.iteration) }))
}

/// The nodes of a pipeline with their inputs and settings; those in a loop name it.
fn graph(pipeline: &Pipeline) -> Value {
    let node = |node: &Node| {
        let around = pipeline.around(&node.id).map(|around| around.id.clone());
        let inputs = node.inputs.iter().map(|input| json!({ "port": input.port, "from": input.from, "staleness": input.staleness }));
        json!({
            "id": node.id, "op": node.op, "inputs": inputs.collect::<Vec<_>>(), "loop": around, "logged": pipeline.log.contains(&node.id),
            "holds": node.body.as_ref().map(|body| body.output.clone()), "with": node.with.raw(),
        })
    };
    json!({ "name": pipeline.name, "about": pipeline.about, "nodes": pipeline.all().map(node).collect::<Vec<_>>() })
}

/// The values of a figure by iteration. A long one is thinned to `most` points, of which each is the mean of the values it stands for.
pub fn curve(run: &ServedRun, node: &str, name: &str, most: usize) -> Answer {
    let manifest = run.manifest()?;
    let mut seconds = 0.0;
    let mut points: Vec<[f64; 3]> = Vec::new();
    for iteration in &manifest.committed {
        seconds += iteration.seconds;
        if let Some(value) = iteration.metrics.get(node).and_then(|figures| figures.get(name)).filter(|value| value.is_finite()) {
            points.push([iteration.iteration as f64, *value, seconds]);
        }
    }
    let step = points.len().div_ceil(most.max(2)).max(1);
    let mean = |part: &[[f64; 3]]| {
        let value = part.iter().map(|point| point[1]).sum::<f64>() / part.len() as f64;
        part.last().map(|last| json!([last[0], value, last[2]]))
    };
    let sql =
        format!("SELECT iteration, value FROM metrics WHERE node = {} AND name = {} ORDER BY iteration", literal(node), literal(name));
    Ok(json!({ "sql": sql, "of": points.len(), "each": step, "points": points.chunks(step).filter_map(mean).collect::<Vec<_>>() }))
}

/// The episodes of an iteration.
pub fn episodes(run: &ServedRun, iteration: u64, table: &str) -> Answer {
    let rows = RunTable::of(run, table)?;
    let earned = rows.maybe("reward", "sum(reward)", "earned");
    let score = rows.maybe("score", "last(score ORDER BY attempt, turn)", "score");
    let won = rows.maybe("won", "bool_or(won)", "won");
    let advantage = rows.maybe("advantage", "max(abs(advantage))", "largest_advantage");
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
    let rows = RunTable::of(run, "trajectories")?;
    let id: u64 = id.parse().map_err(|_| Error::request("a group is named by a number"))?;
    if !rows.has(by) {
        return Err(Error::Request(format!("no node logged the column `{by}`")));
    }
    let columns = rows.having(&[
        "observation",
        "action",
        "response",
        "won",
        "reward",
        "return",
        "baseline",
        "scale",
        "advantage",
        "used",
        "advantage_used",
    ]);
    let sql = format!(
        "SELECT {NAME}{columns} FROM trajectories WHERE iteration = {iteration} AND {} = {id} ORDER BY {NAME} LIMIT {}",
        quoted(by),
        MOST + 1
    );
    of_iteration(run, iteration, &sql)
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

/// The changes of a memory up to an iteration as what there is then, and how many entries it had after each.
pub fn memory(run: &ServedRun, node: &str, iteration: u64) -> Answer {
    let table = RunTable::of(run, node)?;
    if !table.has("change") {
        return Err(Error::Request(format!("`{node}` is no memory that was logged")));
    }
    let growth = format!(
        "SELECT iteration, sum(change)::BIGINT AS came, sum(sum(change)) OVER (ORDER BY iteration)::BIGINT AS entries FROM {} GROUP BY iteration ORDER BY iteration",
        table.name
    );
    let entries = format!(
        "SELECT id, arg_max(kind, iteration) AS kind, arg_max(key, iteration) AS key, arg_max(text, iteration) AS text, arg_max(score, iteration) AS score, \
         min(iteration) AS since, any_value(task) AS task, any_value(sample) AS sample, any_value(attempt) AS attempt, any_value(turn) AS turn \
         FROM {} WHERE iteration <= {iteration} GROUP BY id HAVING sum(change) > 0 ORDER BY score DESC, id LIMIT {}",
        table.name,
        MOST + 1
    );
    Ok(json!({ "growth": up_to(run, None, &growth)?, "entries": up_to(run, Some(iteration), &entries)? }))
}

/// The turns that retrieved an entry, and whether their episodes were won.
pub fn retrievals(run: &ServedRun, id: &str) -> Answer {
    let id: u64 = id.parse().map_err(|_| Error::request("an entry is named by a number"))?;
    let rows = RunTable::of(run, "trajectories")?;
    let lists = rows.matching(|column| column == "retrieved" || column.ends_with("_retrieved"));
    let Some(list) = lists.first().map(|list| quoted(list)) else { return Err(Error::request("this run logged no `retrieved`")) };
    let won = rows.maybe("won", "won", "won");
    let sql = format!(
        "SELECT iteration, {NAME}, {won} FROM trajectories WHERE list_contains({list}, {id}) ORDER BY iteration, {NAME} LIMIT {}",
        MOST + 1
    );
    up_to(run, None, &sql)
}

/// Episodes that failed, by cause, and the newest of them.
pub fn failures(run: &ServedRun) -> Answer {
    let causes = "SELECT node, cause, count(*) AS failures, min(iteration) AS first, max(iteration) AS last, any_value(error) AS example FROM errors GROUP BY ALL ORDER BY failures DESC";
    let newest = format!("SELECT iteration, node, task, sample, attempt, turn, cause, tries, error FROM errors ORDER BY iteration DESC, task, sample LIMIT {}", MOST + 1);
    Ok(json!({ "causes": up_to(run, None, causes)?, "newest": up_to(run, None, &newest)? }))
}

/// The tasks of a panel, each with the share of its episodes that were won, in one iteration.
pub fn panel(run: &ServedRun, node: &str, iteration: u64) -> Answer {
    let rows = RunTable::of(run, node)?;
    let score = rows.maybe("score", "avg(score) FILTER (done)", "score");
    let sql = format!(
        "SELECT task, count(DISTINCT sample) AS episodes, avg(won::INT) FILTER (done) AS won, {score} FROM {} WHERE iteration = {iteration} GROUP BY task ORDER BY won, task LIMIT {}",
        rows.name,
        MOST + 1
    );
    let mut answer = of_iteration(run, iteration, &sql)?;
    let known = format!("SELECT DISTINCT iteration FROM {} ORDER BY iteration", rows.name);
    answer["iterations"] = up_to(run, None, &known)?["rows"].take();
    Ok(answer)
}

/// What one row became: each update that had it.
pub fn uses(run: &ServedRun, iteration: u64, name: &[(&str, &str)]) -> Result<Value> {
    let rows = RunTable::of(run, "provenance")?;
    let condition: String = name.iter().map(|(column, value)| format!(" AND {column} = {}", literal(value))).collect();
    let columns =
        rows.having(&["used", "return", "baseline", "scale", "advantage", "ratio", "clip_share", "loss_share", "logit_grad", "row_kl"]);
    of_iteration(run, iteration, &format!("SELECT node, version{columns} FROM provenance WHERE iteration = {iteration}{condition}"))
}
