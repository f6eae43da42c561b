//! Rows -> Parquet parts -> committed iterations. Each worker writes its share of a logged node; the first worker
//! commits an iteration when the frontier says that every part of it is written.

use super::edge::{Edge, Route};
use super::stage::{stage, Place, Stage};
use super::{lost, Context};
use crate::log::{write_part, Committer, Part, Run};
use crate::row;
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::context::Figures;

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
    for (node, edge) in made {
        let (id, run, worker) = (node.clone(), journal.run.clone(), edge.scope().index());
        let keep = columns.get(node).cloned().flatten().filter(|_| run.is_some());
        let place = if keep.is_some() { Place::Thread } else { Place::Worker };
        let stay = Stage { name: format!("the log of {node}"), inputs: vec![(edge.clone(), Route::Stay)], begins: false, place };
        let written = stage(stay, ctx, move |iteration, rows| {
            let mut part = String::new();
            if let (Some(keep), Some(run)) = (&keep, &run) {
                let slim =
                    rows.iter().flatten().map(|batch| select(batch, keep)).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
                if let Some(rows) = row::sorted(&slim).map_err(|e| e.to_string())? {
                    let made = write_part(run, &id, iteration, worker, &rows).map_err(|e| e.to_string())?;
                    part = serde_json::to_string(&made).map_err(|e| e.to_string())?;
                }
            }
            Ok(vec![message(part)?])
        });
        parts.push((written, Route::One));
    }
    let (shared, journal, iterations) = (ctx.shared.clone(), journal.clone(), ctx.iterations);
    stage(Stage { name: "the commit".into(), inputs: parts, begins: false, place: Place::Thread }, ctx, move |iteration, rows| {
        // What delayed edges carry beyond a stop is half an iteration: the run goes on with it when it is resumed.
        if iteration < iterations && shared.until().is_some_and(|until| iteration >= until) {
            return Ok(vec![]);
        }
        let mut parts = Vec::new();
        for text in rows.iter().flatten().flat_map(|b| b.column(0).as_string::<i32>().iter().flatten()).filter(|t| !t.is_empty()) {
            parts.push(serde_json::from_str::<Part>(text).map_err(|e| e.to_string())?);
        }
        let mut figures = shared.take(iteration);
        shared.watch.figures(iteration, &mut figures);
        if let Some(run) = &journal.run {
            parts.extend(lost::write(run, iteration, &shared.take_lost(iteration)).map_err(|e| e.to_string())?);
        }
        let committed = Committed { iteration, figures, parts: parts.len() };
        if let Some(committer) = &journal.committer {
            let mut committer = committer.lock().unwrap_or_else(PoisonError::into_inner);
            committer.commit(iteration, parts, committed.figures.clone(), shared.take_weights(iteration)).map_err(|e| e.to_string())?;
        }
        (journal.observer)(&committed);
        Ok(vec![])
    })
}

/// The columns of `keep` that the rows have, in the table's order.
fn select(rows: &RecordBatch, keep: &[String]) -> Result<RecordBatch, row::RowError> {
    let wanted = row::COLUMNS.iter().filter(|c| keep.iter().any(|k| k == c.name));
    row::batch(wanted.filter_map(|c| Some((c.name, rows.column_by_name(c.name)?.clone()))).collect())
}

/// A part's description on its way to the committer; empty text for a node that only reports that it is done.
fn message(part: String) -> Result<RecordBatch, String> {
    let schema = Schema::new(vec![Field::new("part", DataType::Utf8, false)]);
    let column: ArrayRef = Arc::new(StringArray::from(vec![part]));
    RecordBatch::try_new(Arc::new(schema), vec![column]).map_err(|e| e.to_string())
}
