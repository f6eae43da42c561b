//! Rows -> Parquet parts -> committed iterations. Each worker writes its share of a logged node; when the frontier says that every
//! part of an iteration is written and every other node is done with it, the first worker commits it. Of several processes the
//! first worker of each tells what its process wrote, measured and lost, and the first of all commits that.

use super::edge::{Edge, Route};
use super::failure::Failed;
use super::figures::{whole, Figure, Figures, Measured};
use super::seat::{Owner, COMMIT};
use super::stage::{stage, Place, Stage};
use super::{lost, Context};
use crate::log::{write_part, Committer, Part, Run};
use crate::row;
use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The stage that tells what a process measured.
const FIGURES: &str = "the figures";

/// What a committed iteration was: its number, its figures, how many rows each node made.
#[derive(Clone, Debug)]
pub struct Committed {
    pub iteration: u64,
    pub figures: Figures,
    pub parts: usize,
}

/// Called after each commit.
pub type Observer = Arc<dyn Fn(&Committed) + Send + Sync>;

/// Who writes: the run's folder and its committer, or nobody for a run that keeps no log.
#[derive(Clone)]
pub struct Journal {
    pub run: Option<Run>,
    pub committer: Option<Arc<Mutex<Committer>>>,
    pub observer: Observer,
}

/// Builds the log of every node in `columns` (node -> what it logs; `None`: only awaited) and the commit behind it.
pub fn journal<'s>(
    made: &BTreeMap<String, Edge<'s>>,
    columns: &BTreeMap<String, Option<Vec<String>>>,
    journal: &Journal,
    ctx: &Context,
) -> Edge<'s> {
    let mut done = Vec::new();
    for (node, edge) in made {
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
    let owner = ctx.of(Owner::Engine(COMMIT));
    if team.processes == 1 {
        return stage(last(done), &owner, move |iteration, _| {
            let share = tell(iteration)?;
            share.map_or(Ok(vec![]), |share| commit(iteration, vec![share]))
        });
    }
    let shares = Stage { name: FIGURES.into(), inputs: done, begins: false, place };
    let told = stage(shares, &ctx.of(Owner::Engine(FIGURES)), move |iteration, _| {
        let share = tell(iteration)?;
        Ok(share.map(|share| message(&share)).transpose()?.into_iter().collect())
    });
    let beyond = self::beyond(ctx);
    stage(last(vec![(told, Route::One)]), &owner, move |iteration, rows| {
        if beyond(iteration) {
            return Ok(vec![]);
        }
        let mut shares = texts(&rows).map(serde_json::from_str).collect::<Result<Vec<Share>, _>>()?;
        shares.sort_by_key(|share| share.process);
        commit(iteration, shares)
    })
}

/// Writes the rows of `node`, of which it keeps these columns; a mark comes out when those of an iteration are written.
fn written<'s>(node: &str, edge: &Edge<'s>, keep: Vec<String>, run: &Run, ctx: &Context) -> Edge<'s> {
    let (id, run, worker, shared) = (node.to_owned(), run.clone(), edge.scope().index(), ctx.shared.clone());
    let log = Stage { name: format!("the log of {node}"), inputs: vec![(edge.clone(), Route::Stay)], begins: false, place: Place::Thread };
    stage(log, &ctx.of(Owner::Engine("the log")), move |iteration, rows| {
        let slim = rows.iter().flatten().map(|batch| select(batch, &keep)).collect::<Result<Vec<_>, _>>()?;
        if let Some(rows) = row::sorted(&slim)? {
            shared.wrote(iteration, write_part(&run, &id, iteration, worker, &rows)?);
        }
        Ok(vec![mark()?])
    })
}

/// Whether an iteration lies beyond a stop: what delayed edges carry there is half an iteration, with which the run goes on when it is
/// resumed.
fn beyond(ctx: &Context) -> impl Fn(u64) -> bool + Send + 'static {
    let (shared, iterations) = (ctx.shared.clone(), ctx.iterations);
    move |iteration| iteration < iterations && shared.until().is_some_and(|until| iteration >= until)
}

/// Commits an iteration of which these are the shares of all processes, in their order.
fn commit(journal: &Journal, ctx: &Context) -> impl Fn(u64, Vec<Share>) -> Result<Vec<RecordBatch>, Failed> + Send + 'static {
    let (shared, journal) = (ctx.shared.clone(), journal.clone());
    move |iteration, mut shares| {
        let parts: Vec<Part> = shares.iter_mut().flat_map(|share| std::mem::take(&mut share.parts)).collect();
        let figures = whole(shares.into_iter().map(|share| share.measured));
        let committed = Committed { iteration, figures, parts: parts.len() };
        if let Some(committer) = &journal.committer {
            committer.lock().commit(iteration, parts, committed.figures.clone(), shared.take_weights(iteration))?;
        }
        (journal.observer)(&committed);
        Ok(vec![])
    }
}

/// What one process has to say of an iteration.
#[derive(Serialize, Deserialize)]
struct Share {
    process: usize,
    /// What its workers wrote.
    parts: Vec<Part>,
    measured: Measured,
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

/// Rows without a column, which say no more than that an iteration is done.
fn mark() -> Result<RecordBatch, ArrowError> {
    let one = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one)
}

/// A share on its way to the first process.
fn message(share: &Share) -> Result<RecordBatch, Failed> {
    let schema = Schema::new(vec![Field::new("share", DataType::Utf8, false)]);
    let column: ArrayRef = Arc::new(StringArray::from(vec![serde_json::to_string(share)?]));
    Ok(RecordBatch::try_new(Arc::new(schema), vec![column])?)
}
