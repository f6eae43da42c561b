//! What a run says of itself that follows from its pipeline and its rows, so that nothing has to be computed again to
//! refute it: the nodes that it logs, the tasks that its seed draws, the metrics of its episodes.

use super::super::episode::rows;
use super::super::error::Result;
use super::super::session::info;
use super::played;
use super::tasks::{Expected, Played};
use crate::ops;
use flow_core::row::NAME;
use flow_log::{sql::quoted, Iteration, Manifest, Run};
use flow_pipeline::{Node, Pipeline, Role};
use std::collections::BTreeSet;

/// The findings.
#[derive(Default)]
pub struct Claims {
    /// What contradicts the pipeline or the rows, a sentence each.
    pub contradictions: Vec<String>,
    /// Nodes whose tasks can't be drawn again.
    pub undrawn: Vec<String>,
}

impl Claims {
    /// Holds the iterations before `end` against the pipeline.
    ///
    /// # Errors
    /// If rows can't be read.
    pub fn of(run: &Run, manifest: &Manifest, pipeline: &Pipeline, end: u64) -> Result<Claims> {
        let mut claims = Claims { contradictions: logged(manifest, pipeline), ..Claims::default() };
        claims.contradictions.extend(columns(run, manifest, pipeline)?);
        claims.contradictions.extend(trained(manifest, pipeline));
        // A replay has its rollouts from another run, which has drawn the tasks and measured the episodes.
        if manifest.info.replays.is_some() {
            claims.undrawn.extend(players(pipeline).map(|(_, player)| player.id.clone()));
            return Ok(claims);
        }
        for (table, player) in players(pipeline).filter(|(table, _)| manifest.info.nodes.iter().any(|node| node.id == table.id)) {
            if !readable(run, manifest, table)? {
                claims.contradictions.push(format!("the rows of `{}` lack columns that name a row", table.id));
                continue;
            }
            let played = Played::of(run, table, player, end)?;
            let expected = Expected::of(pipeline, player, &played);
            if expected.as_ref().is_none_or(Expected::taken) {
                claims.undrawn.push(player.id.clone());
            }
            let rowless = played::rowless(pipeline, player);
            let contradictions = expected.map(|expected| expected.contradictions(manifest, table, player, &played, end, rowless));
            claims.contradictions.extend(contradictions.into_iter().flatten());
            claims.contradictions.extend(turns(run, table, player, end)?);
            claims.contradictions.extend(played::contradictions(run, manifest, pipeline, table, player, end)?);
        }
        Ok(claims)
    }
}

/// The nodes that play episodes, each with the node whose table has its rows: itself, or the loop around it.
fn players(pipeline: &Pipeline) -> impl Iterator<Item = (&Node, &Node)> {
    let plays = |node: &&Node| ops::is(node, Role::Plays) || ops::is(node, Role::Measures);
    pipeline.nodes.iter().flat_map(move |table| table.all().filter(plays).map(move |player| (table, player)).collect::<Vec<_>>())
}

/// Rows of more turns than the agent has.
fn turns(run: &Run, table: &Node, player: &Node, end: u64) -> Result<Option<String>> {
    let Some(most) = player.with.raw()["agent"]["max_turns"].as_u64().filter(|_| table.id == player.id) else { return Ok(None) };
    let sql = format!("SELECT max(turn) AS last FROM {} WHERE phase = 'play' AND iteration < {end}", quoted(&table.id));
    let last = rows(&flow_log::query(run, &sql)?)?.first().and_then(|row| row.get("last")?.as_u64());
    let contradictions = |last: &u64| format!("`{}` has a turn {}, and its agent has {most} at most", table.id, last + 1);
    Ok(last.filter(|last| *last >= most).as_ref().map(contradictions))
}

/// Whether the table of a node has the columns that name a row; without any row it may have none.
fn readable(run: &Run, manifest: &Manifest, node: &Node) -> Result<bool> {
    let columns = flow_log::columns(run, manifest, &node.id)?;
    Ok(columns.is_empty() || NAME.iter().all(|name| columns.iter().any(|column| column == name)))
}

/// Nodes that the pipeline logs and the run lacks, or the other way round; another seed; metrics of no node.
fn logged(manifest: &Manifest, pipeline: &Pipeline) -> Vec<String> {
    let (mut contradictions, (own, taken)) =
        (Vec::new(), (&manifest.info.nodes, manifest.info.replays.as_ref().map(|replays| &replays.nodes)));
    for id in pipeline.log.iter().filter(|id| own.iter().all(|node| node.id != **id)) {
        contradictions.push(format!("the pipeline logs `{id}`, and the run has no such table"));
    }
    for node in own.iter().filter(|node| !pipeline.log.contains(&node.id) && !taken.is_some_and(|taken| taken.contains_key(&node.id))) {
        contradictions.push(format!("the run has a table `{}`, and its pipeline doesn't log it", node.id));
    }
    if manifest.info.seed != pipeline.seed {
        contradictions.push(format!("the run's seed is {}, and its pipeline's is {}", manifest.info.seed, pipeline.seed));
    }
    let known: BTreeSet<&str> = pipeline.all().chain(&pipeline.nodes).map(|node| node.id.as_str()).chain(["engine"]).collect();
    let named: BTreeSet<&str> = manifest.committed.iter().flat_map(|i| i.metrics.keys()).map(String::as_str).collect();
    contradictions.extend(named.difference(&known).map(|node| format!("there are metrics of `{node}`, and the pipeline has no such node")));
    contradictions
}

/// Columns that no operator of the pipeline logs, and columns that the run says that it logs, and lacks.
fn columns(run: &Run, manifest: &Manifest, pipeline: &Pipeline) -> Result<Vec<String>> {
    let (mut contradictions, expected) = (Vec::new(), info(pipeline, None).nodes);
    let taken = |id: &str| manifest.info.replays.as_ref().is_some_and(|replays| replays.nodes.contains_key(id));
    // Rows that are replayed have the columns that they had, and tasks have no turns.
    for own in manifest.info.nodes.iter().filter(|node| !taken(&node.id) && node.role != Some(Role::Opens)) {
        let (id, there) = (&own.id, flow_log::columns(run, manifest, &own.id)?);
        if there.is_empty() {
            continue;
        }
        let lacking = own.columns.iter().filter(|column| !there.contains(column));
        contradictions.extend(lacking.map(|column| format!("the table `{id}` lacks the column `{column}`, which its node logs")));
        let Some(node) = expected.iter().find(|node| node.id == *id) else { continue };
        let more = there.iter().filter(|column| !node.columns.contains(column));
        contradictions.extend(more.map(|column| format!("the table `{id}` has a column `{column}`, which its node doesn't log")));
    }
    Ok(contradictions)
}

/// Trained models without any weights in the manifest. Of several updates of a model in an iteration, the weights of the
/// last one are saved.
fn trained(manifest: &Manifest, pipeline: &Pipeline) -> Vec<String> {
    let mut contradictions = BTreeSet::new();
    for node in pipeline.all().filter(|node| ops::is(node, Role::Learns)) {
        let Some(model) = node.model() else { continue };
        let rows =
            |iteration: &Iteration| iteration.metrics.get(&node.id).and_then(|metrics| metrics.get("rows")).is_some_and(|n| *n > 0.0);
        let named = manifest.committed.iter().flat_map(|i| &i.weights).any(|weights| weights.model == model);
        if manifest.committed.iter().any(rows) && !named {
            contradictions.insert(format!("`{model}` was trained, and no iteration names its weights"));
        }
    }
    contradictions.into_iter().collect()
}
