//! Rows -> Parquet files -> committed iterations. Each worker writes its share of a logged node; when the frontier
//! shows that every file of an iteration is written and every other node is done with it, the first worker commits it.
//! With several processes the first worker of each reports what its process wrote, measured and lost, and the first
//! worker of the first process commits all of it.

use super::edge::{Edge, Route};
use super::failure::Failed;
use super::figures::{merge, Figure, Figures, NodeFigures};
use super::monitor::{Owner, COMMIT};
use super::stage::{stage, Place, Stage};
use super::{lost, Context};
use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use flow_core::row;
use flow_log::{write_part, Committer, Part, Run};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The stage that reports the metrics of a process.
const FIGURES: &str = "the figures";

/// A committed iteration: its number and its metrics.
#[derive(Clone, Debug)]
pub struct Committed {
    pub iteration: u64,
    pub figures: Figures,
}

/// Called after each commit.
pub type Observer = Arc<dyn Fn(&Committed) + Send + Sync>;

/// Where a run is logged: its folder and its committer; neither for a run without a log.
#[derive(Clone)]
pub struct Journal {
    pub run: Option<Run>,
    pub committer: Option<Arc<Mutex<Committer>>>,
    pub observer: Observer,
}

/// Builds the logging stage of every node in `columns` (node -> the columns to log; `None`: only wait for it) and the
/// commit that follows.
pub fn journal<'s>(
    edges: &BTreeMap<String, Edge<'s>>,
    columns: &BTreeMap<String, Option<Vec<String>>>,
    journal: &Journal,
    ctx: &Context,
) -> Edge<'s> {
    let mut done = Vec::new();
    for (node, edge) in edges {
        done.push(match (columns.get(node).cloned().flatten(), &journal.run) {
            (Some(keep), Some(run)) => (written(node, edge, keep, run, ctx), Route::All),
            _ => (edge.clone(), Route::Mark),
        });
    }
    let (shared, run, team) = (ctx.shared.clone(), journal.run.clone(), ctx.team);
    let beyond = beyond(ctx);
    let tell = move |iteration| {
        if beyond(iteration) {
            return Ok(None);
        }
        let mut share = Share { process: team.process, parts: shared.take_parts(iteration), measured: shared.take(iteration) };
        let mut watched = Figures::new();
        shared.watch.figures(iteration, &mut watched);
        for (node, figures) in watched {
            share.measured.entry(node).or_default().extend(figures.into_iter().map(|(name, value)| (name, Figure::Sum(value))));
        }
        let lost = shared.take_lost(iteration);
        if let Some(run) = &run {
            share.parts.extend(lost::write(run, iteration, team.process * team.workers, &lost)?);
        }
        Ok::<_, Failed>(Some(share))
    };
    // Where nothing is written, nothing has to wait.
    let place = if journal.run.is_some() { Place::Thread } else { Place::Worker };
    let commit = commit(journal, ctx);
    let last = |inputs| Stage { name: COMMIT.into(), inputs, begins: false, place };
    let owner = ctx.owned_by(Owner::Engine(COMMIT));
    if team.processes == 1 {
        return stage(last(done), &owner, move |iteration, _| {
            let share = tell(iteration)?;
            share.map_or(Ok(vec![]), |share| commit(iteration, vec![share]))
        });
    }
    let shares = Stage { name: FIGURES.into(), inputs: done, begins: false, place };
    let reports = stage(shares, &ctx.owned_by(Owner::Engine(FIGURES)), move |iteration, _| {
        let share = tell(iteration)?;
        Ok(share.map(|share| message(&share)).transpose()?.into_iter().collect())
    });
    let beyond = self::beyond(ctx);
    stage(last(vec![(reports, Route::One)]), &owner, move |iteration, rows| {
        if beyond(iteration) {
            return Ok(vec![]);
        }
        let mut shares = texts(&rows).map(serde_json::from_str).collect::<Result<Vec<Share>, _>>()?;
        shares.sort_by_key(|share| share.process);
        commit(iteration, shares)
    })
}

/// Writes these columns of `node`; emits a marker row once an iteration is written.
fn written<'s>(node: &str, edge: &Edge<'s>, keep: Vec<String>, run: &Run, ctx: &Context) -> Edge<'s> {
    let (id, run, worker, shared) = (node.to_owned(), run.clone(), edge.scope().index(), ctx.shared.clone());
    let log = Stage { name: format!("the log of {node}"), inputs: vec![(edge.clone(), Route::Stay)], begins: false, place: Place::Thread };
    stage(log, &ctx.owned_by(Owner::Engine("the log")), move |iteration, rows| {
        let slim = rows.iter().flatten().map(|batch| select(batch, &keep)).collect::<Result<Vec<_>, _>>()?;
        if let Some(rows) = row::sorted(&slim)? {
            shared.wrote(iteration, write_part(&run, &id, iteration, worker, &rows)?);
        }
        Ok(vec![mark()?])
    })
}

/// Whether an iteration lies beyond a stop: delayed edges carry rows into it, with which the run continues when it is
/// resumed.
fn beyond(ctx: &Context) -> impl Fn(u64) -> bool + Send + 'static {
    let (shared, iterations) = (ctx.shared.clone(), ctx.iterations);
    move |iteration| iteration < iterations && shared.until().is_some_and(|until| iteration >= until)
}

/// Commits an iteration from the reports of all processes, in their order.
fn commit(journal: &Journal, ctx: &Context) -> impl Fn(u64, Vec<Share>) -> Result<Vec<RecordBatch>, Failed> + Send + 'static {
    let (shared, journal) = (ctx.shared.clone(), journal.clone());
    move |iteration, mut shares| {
        let parts: Vec<Part> = shares.iter_mut().flat_map(|share| std::mem::take(&mut share.parts)).collect();
        let figures = merge(shares.into_iter().map(|share| share.measured));
        let committed = Committed { iteration, figures };
        if let Some(committer) = &journal.committer {
            committer.lock().commit(iteration, parts, committed.figures.clone(), shared.take_weights(iteration))?;
        }
        (journal.observer)(&committed);
        Ok(vec![])
    }
}

/// The report of one process on an iteration.
#[derive(Serialize, Deserialize)]
struct Share {
    process: usize,
    /// The files that its workers wrote.
    parts: Vec<Part>,
    measured: NodeFigures,
}

/// The messages in these rows.
fn texts(rows: &[Vec<RecordBatch>]) -> impl Iterator<Item = &str> {
    rows.iter().flatten().flat_map(|b| b.column(0).as_string::<i32>().iter().flatten())
}

/// The columns of `keep` that the rows have, in the table's order.
fn select(rows: &RecordBatch, keep: &[String]) -> Result<RecordBatch, row::RowError> {
    let columns = row::in_order(keep);
    row::batch(columns.iter().filter_map(|name| Some((name.as_str(), rows.column_by_name(name)?.clone()))).collect())
}

/// A row without columns: a marker that an iteration is done.
fn mark() -> Result<RecordBatch, ArrowError> {
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one_row)
}

/// A share on its way to the first process.
fn message(share: &Share) -> Result<RecordBatch, Failed> {
    let schema = Schema::new(vec![Field::new("share", DataType::Utf8, false)]);
    let column: ArrayRef = Arc::new(StringArray::from(vec![serde_json::to_string(share)?]));
    Ok(RecordBatch::try_new(Arc::new(schema), vec![column])?)
}
