//! Rows that no operator of this run makes: those of a log that is replayed, those of a test, and those that a stopped
//! run had made before it is resumed.

use super::edge::{Batch, Edge};
use super::failure::{guarded, Failed, Failure};
use super::Context;
use crate::log::{LogError, Rows, Run};
use arrow::array::RecordBatch;
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
    let rows = Mutex::new(Rows::open(run, node)?);
    Ok(Arc::new(move |iteration| Ok(rows.lock().iteration(iteration)?)))
}

/// All that `node` had made before a run that is resumed was stopped, on the first worker and in the iteration before the one that the run
/// goes on with: what a node that remembers begins with. Nothing in a run from its beginning.
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
    let edge = source::<_, CapacityContainerBuilder<Batch>, _, _>(scope, &format!("past {node}"), move |capability, _| {
        let mut capability = here.then_some(capability);
        move |output| {
            let (Some(mut open), Some(before), Some(past)) = (capability.take(), before, &past) else { return };
            open.downgrade(&before);
            match guarded(|| past(before)) {
                Ok(batches) => batches
                    .into_iter()
                    .filter(|b| b.num_rows() > 0)
                    .for_each(|rows| output.session(&open).give_container(&mut Batch::new(rows))),
                Err(error) => shared.fail(Failure::new(&name, before, error)),
            }
        }
    });
    ctx.shared.watch.name(&edge, format!("what {node} remembered"));
    Ok(edge)
}

/// What a delayed edge still owes its reader: in each of the first `delay` iterations of a resumed run, what the node had made `delay`
/// iterations before; in iteration 0 of a run from its beginning, what it was given. On the first worker; the reader's route takes it
/// where it belongs.
pub fn owed<'s>(name: &str, scope: Scope<'s, u64>, ctx: &Context, delay: u64, past: Feed) -> Edge<'s> {
    let (first, node, shared) = (ctx.first, name.to_owned(), ctx.shared.clone());
    let here = scope.index() == 0;
    source::<_, CapacityContainerBuilder<Batch>, _, _>(scope, name, move |capability, _| {
        let mut capability = here.then_some(capability);
        move |output| {
            let Some(mut open) = capability.take() else { return };
            for time in first..first.saturating_add(delay) {
                open.downgrade(&time);
                // Before the first iteration of all lies what was given, and before that nothing.
                let made = if first == 0 && time == 0 { Some(0) } else { time.checked_sub(delay) };
                let Some(made) = made else { continue };
                match guarded(|| past(made)) {
                    Ok(batches) => batches
                        .into_iter()
                        .filter(|b| b.num_rows() > 0)
                        .for_each(|rows| output.session(&open).give_container(&mut Batch::new(rows))),
                    Err(error) => return shared.fail(Failure::new(&node, made, error)),
                }
            }
        }
    })
}
