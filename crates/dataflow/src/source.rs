//! Opens iterations, with flow control: an iteration opens once the one `ahead + 1` before it is committed.

use super::edge::{Edge, RowBatch};
use super::failure::{guarded, Failed, Failure};
use super::monitor::Dependency;
use super::Context;
use arrow::array::RecordBatch;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::generic::source;
use timely::dataflow::Scope;

/// Emits what `make` says for each iteration, on the first worker. Stopping takes effect between iterations.
pub fn iterations<'s>(
    name: &str,
    scope: Scope<'s, u64>,
    ctx: &Context,
    mut make: impl FnMut(u64) -> Result<Vec<RecordBatch>, Failed> + 'static,
) -> Edge<'s> {
    let first = scope.index() == 0;
    let (ctx, node) = (ctx.clone(), name.to_owned());
    source::<_, CapacityContainerBuilder<RowBatch>, _, _>(scope, name, move |capability, info| {
        let mut capability = first.then_some(capability);
        if let Some(open) = capability.as_mut() {
            open.downgrade(&ctx.first);
        }
        let monitor = ctx.shared.watch.monitor(&ctx.owner, &node, scope.index(), info.address.to_vec(), vec![Dependency::Commit]);
        if first {
            ctx.gate.wait(scope.activator_for(info.address));
        }
        move |output| {
            while let Some(mut open) = capability.take() {
                let time = *open.time();
                // Dropping the capability drains the graph and so ends the run.
                if time >= ctx.iterations || ctx.shared.failed() || ctx.shared.until().is_some_and(|until| time >= until) {
                    return monitor.rests();
                }
                if time > ctx.ahead && ctx.gate.probe.less_equal(&(time - 1 - ctx.ahead)) {
                    capability = Some(open);
                    return monitor.waits(time, std::iter::once(true));
                }
                if !ctx.shared.open(time) {
                    return monitor.rests();
                }
                match monitor.timed(|time, _| guarded(|| make(time)))(time, vec![]) {
                    Ok(batches) => batches
                        .into_iter()
                        .filter(|b| b.num_rows() > 0)
                        .for_each(|rows| output.session(&open).give_container(&mut RowBatch::new(rows))),
                    Err(error) => return ctx.shared.fail(Failure::new(&node, time, error)),
                }
                open.downgrade(&(time + 1));
                capability = Some(open);
            }
        }
    })
}
