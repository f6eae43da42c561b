//! Rows that no operator of this run produces: rows of a replayed log, of a test, and of an interrupted run before it
//! was resumed.

use super::edge::{Edge, RowBatch};
use super::failure::{guarded, Failed, Failure};
use super::Context;
use arrow::array::RecordBatch;
use flow_log::{LogError, RowReader, Run};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::generic::source;
use timely::dataflow::Scope;

/// The rows of one node in an iteration.
pub type Feed = Arc<dyn Fn(u64) -> Result<Vec<RecordBatch>, Failed> + Send + Sync>;

/// Feeds by node.
pub type Feeds = BTreeMap<String, Feed>;

/// The rows that `node` logged in a run, as they were committed.
pub fn logged(run: &Run, node: &str) -> Result<Feed, LogError> {
    let rows = Mutex::new(RowReader::open(run, node)?);
    Ok(Arc::new(move |iteration| Ok(rows.lock().iteration(iteration)?)))
}

/// All rows of `node` from before a resumed run was interrupted, on the first worker and in the iteration before the
/// first one: the initial state of a node that keeps state. Empty in a run from its beginning.
///
/// # Errors
/// If the run is resumed and its log doesn't have what the node made.
pub fn past<'s>(node: &str, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let before = ctx.first.checked_sub(1);
    let past = match before {
        Some(_) => Some(ctx.past.get(node).cloned().ok_or_else(|| format!("the log has not what `{node}` remembered"))?),
        None => None,
    };
    let (name, shared) = (node.to_owned(), ctx.shared.clone());
    let here = scope.index() == 0;
    let edge = source::<_, CapacityContainerBuilder<RowBatch>, _, _>(scope, &format!("past {node}"), move |capability, _| {
        let mut capability = here.then_some(capability);
        move |output| {
            let (Some(mut open), Some(before), Some(past)) = (capability.take(), before, &past) else { return };
            open.downgrade(&before);
            match guarded(|| past(before)) {
                Ok(batches) => batches
                    .into_iter()
                    .filter(|b| b.num_rows() > 0)
                    .for_each(|rows| output.session(&open).give_container(&mut RowBatch::new(rows))),
                Err(error) => shared.fail(Failure::new(&name, before, error)),
            }
        }
    });
    ctx.shared.watch.name(&edge, format!("what {node} remembered"));
    Ok(edge)
}

/// The rows that a delayed edge carries over a resume: in each of the first `delay` iterations of a resumed run, the
/// node's rows of `delay` iterations before; in iteration 0 of a run from its beginning, its initial rows. On the first
/// worker; the reader's route distributes them.
pub fn owed<'s>(name: &str, scope: Scope<'s, u64>, ctx: &Context, delay: u64, past: Feed) -> Edge<'s> {
    let (first, node, shared) = (ctx.first, name.to_owned(), ctx.shared.clone());
    let here = scope.index() == 0;
    source::<_, CapacityContainerBuilder<RowBatch>, _, _>(scope, name, move |capability, _| {
        let mut capability = here.then_some(capability);
        move |output| {
            let Some(mut open) = capability.take() else { return };
            for time in first..first.saturating_add(delay) {
                open.downgrade(&time);
                // The initial rows count as those of the iteration before the very first one; before that there is
                // nothing.
                let iteration = if first == 0 && time == 0 { Some(0) } else { time.checked_sub(delay) };
                let Some(iteration) = iteration else { continue };
                match guarded(|| past(iteration)) {
                    Ok(batches) => batches
                        .into_iter()
                        .filter(|b| b.num_rows() > 0)
                        .for_each(|rows| output.session(&open).give_container(&mut RowBatch::new(rows))),
                    Err(error) => return shared.fail(Failure::new(&node, iteration, error)),
                }
            }
        }
    })
}
