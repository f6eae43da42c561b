//! Rows that no operator of this run makes: those of a log that is replayed, those of a test, and those that a stopped
//! run had made before it is resumed.

use super::edge::{Batch, Edge};
use super::failure::{guarded, Failed, Failure};
use super::Context;
use crate::log::{self, LogError, Run};
use arrow::array::RecordBatch;
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
    let manifest = run.manifest()?;
    manifest.node(node)?;
    let (run, node) = (run.clone(), node.to_owned());
    Ok(Arc::new(move |iteration| Ok(log::read_iteration(&run, &manifest, &node, iteration)?)))
}

/// What a delayed edge of a resumed run still owes its reader: in each of the first `delay` iterations, what the node had
/// made `delay` iterations before. On the first worker; the reader's route takes it where it belongs.
pub fn owed<'s>(name: &str, scope: Scope<'s, u64>, ctx: &Context, delay: u64, past: Feed) -> Edge<'s> {
    let (first, node, shared) = (ctx.first, name.to_owned(), ctx.shared.clone());
    let here = scope.index() == 0;
    source::<_, CapacityContainerBuilder<Batch>, _, _>(scope, name, move |capability, _| {
        let mut capability = here.then_some(capability);
        move |output| {
            let Some(mut open) = capability.take() else { return };
            for time in first..first.saturating_add(delay) {
                open.downgrade(&time);
                // What was made before the first iteration of all is nothing.
                let Some(made) = time.checked_sub(delay) else { continue };
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
