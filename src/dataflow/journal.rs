//! Rows -> Parquet parts -> committed iterations. Each worker writes its share of a logged node; when the frontier says that every
//! part of an iteration is written, the first worker of each process tells what its process measured and lost, and the first of
//! all commits.

use super::context::Shared;
use super::edge::{Edge, Route};
use super::figures::{whole, Figure, Figures, Measured};
use super::seat::{Owner, COMMIT};
use super::stage::{stage, Place, Stage};
use super::{lost, Context};
use crate::log::{write_part, Committer, Part, Run};
use crate::row;
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
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
    let mut parts = Vec::new();
    let writes = ctx.of(Owner::Engine("the log"));
    for (node, edge) in made {
        let (id, run, worker) = (node.clone(), journal.run.clone(), edge.scope().index());
        let keep = columns.get(node).cloned().flatten().filter(|_| run.is_some());
        let place = if keep.is_some() { Place::Thread } else { Place::Worker };
        let stay = Stage { name: format!("the log of {node}"), inputs: vec![(edge.clone(), Route::Stay)], begins: false, place };
        let written = stage(stay, &writes, move |iteration, rows| {
            let mut part = String::new();
            if let (Some(keep), Some(run)) = (&keep, &run) {
                let slim = rows.iter().flatten().map(|batch| select(batch, keep)).collect::<Result<Vec<_>, _>>()?;
                if let Some(rows) = row::sorted(&slim)? {
                    let made = write_part(run, &id, iteration, worker, &rows)?;
                    part = serde_json::to_string(&made)?;
                }
            }
            Ok(vec![message(part)?])
        });
        parts.push((written, Route::All));
    }
    let place = if journal.run.is_some() { Place::Thread } else { Place::Worker };
    let shares = Stage { name: FIGURES.into(), inputs: parts, begins: false, place };
    let (shared, run, iterations, team) = (ctx.shared.clone(), journal.run.clone(), ctx.iterations, ctx.team);
    // What delayed edges carry beyond a stop is half an iteration: the run goes on with it when it is resumed.
    let beyond = move |shared: &Shared, iteration| iteration < iterations && shared.until().is_some_and(|until| iteration >= until);
    let told = stage(shares, &ctx.of(Owner::Engine(FIGURES)), move |iteration, rows| {
        if beyond(&shared, iteration) {
            return Ok(vec![]);
        }
        let mut share = Share { process: team.process, parts: vec![], measured: shared.take(iteration) };
        if team.process == 0 {
            share.parts = texts(&rows).map(serde_json::from_str).collect::<Result<_, _>>()?;
        }
        let mut watched = Figures::new();
        shared.watch.figures(iteration, &mut watched);
        for (node, figures) in watched {
            share.measured.entry(node).or_default().extend(figures.into_iter().map(|(name, value)| (name, Figure::Sum(value))));
        }
        let lost = shared.take_lost(iteration);
        if let Some(run) = &run {
            share.parts.extend(lost::write(run, iteration, team.process * team.workers, &lost)?);
        }
        Ok(vec![message(serde_json::to_string(&share)?)?])
    });
    let (shared, journal) = (ctx.shared.clone(), journal.clone());
    let commit = Stage { name: COMMIT.into(), inputs: vec![(told, Route::One)], begins: false, place: Place::Thread };
    stage(commit, &ctx.of(Owner::Engine(COMMIT)), move |iteration, rows| {
        if beyond(&shared, iteration) {
            return Ok(vec![]);
        }
        let mut shares = texts(&rows).map(serde_json::from_str).collect::<Result<Vec<Share>, _>>()?;
        shares.sort_by_key(|share| share.process);
        let parts: Vec<Part> = shares.iter_mut().flat_map(|share| std::mem::take(&mut share.parts)).collect();
        let figures = whole(shares.into_iter().map(|share| share.measured));
        let committed = Committed { iteration, figures, parts: parts.len() };
        if let Some(committer) = &journal.committer {
            committer.lock().commit(iteration, parts, committed.figures.clone(), shared.take_weights(iteration))?;
        }
        (journal.observer)(&committed);
        Ok(vec![])
    })
}

/// What one process has to say of an iteration.
#[derive(Serialize, Deserialize)]
struct Share {
    process: usize,
    /// Of the first process all that the workers wrote, and of each its own part of the errors.
    parts: Vec<Part>,
    measured: Measured,
}

/// The messages among these rows.
fn texts(rows: &[Vec<RecordBatch>]) -> impl Iterator<Item = &str> {
    rows.iter().flatten().flat_map(|b| b.column(0).as_string::<i32>().iter().flatten()).filter(|t| !t.is_empty())
}

/// The columns of `keep` that the rows have, in the table's order.
fn select(rows: &RecordBatch, keep: &[String]) -> Result<RecordBatch, row::RowError> {
    let wanted = row::COLUMNS.iter().filter(|c| keep.iter().any(|k| k == c.name));
    row::batch(wanted.filter_map(|c| Some((c.name, rows.column_by_name(c.name)?.clone()))).collect())
}

/// A part's description on its way to the committer; empty text for a node that only reports that it is done.
fn message(part: String) -> Result<RecordBatch, ArrowError> {
    let schema = Schema::new(vec![Field::new("part", DataType::Utf8, false)]);
    let column: ArrayRef = Arc::new(StringArray::from(vec![part]));
    RecordBatch::try_new(Arc::new(schema), vec![column])
}
