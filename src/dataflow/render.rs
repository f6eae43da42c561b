//! Pipeline -> timely. Nothing here knows an operator.

use super::feed::{owed, Feeds};
use super::{source, Context, Edge};
use crate::pipeline::{Node, Pipeline};
use std::collections::BTreeMap;
use timely::dataflow::operators::{feedback::Handle, Concat, ConnectLoop, Feedback};
use timely::dataflow::Scope;

/// A node's inputs by port, in the order of the file.
pub type Ports<'s> = Vec<(String, Edge<'s>)>;

/// How an operator becomes timely: the small contract between `ops` and `dataflow`.
pub type Render = for<'s> fn(&Node, Ports<'s>, Scope<'s, u64>, &Context) -> Result<Edge<'s>, String>;

/// Every node's output: what its operator makes of its inputs, or what `feeds` has for it. A delayed edge is a feedback edge whose path summary is its staleness plus one, so that
/// progress tracking itself enforces the bound; what it owes at the start of a resumed run comes from `past`.
pub fn render<'s>(
    pipeline: &Pipeline,
    scope: Scope<'s, u64>,
    ctx: &Context,
    (feeds, past): (&Feeds, &Feeds),
    find: &dyn Fn(&str) -> Option<Render>,
) -> Result<BTreeMap<String, Edge<'s>>, String> {
    let mut made: BTreeMap<String, Edge<'s>> = BTreeMap::new();
    let mut loops: Vec<(String, Handle<'s, u64, super::edge::Batch>)> = Vec::new();
    for node in &pipeline.nodes {
        if let Some(feed) = feeds.get(&node.id).cloned() {
            made.insert(node.id.clone(), source::iterations(&node.id, scope, ctx, move |iteration| feed(iteration)));
            continue;
        }
        let mut ports = Ports::new();
        for input in &node.inputs {
            let edge = match input.staleness {
                None => made.get(&input.from).cloned().ok_or_else(|| format!("`{}` comes before its input `{}`", node.id, input.from))?,
                Some(staleness) => {
                    let (handle, edge) = scope.feedback(staleness + 1);
                    loops.push((input.from.clone(), handle));
                    let edge = match past.get(&input.from).filter(|_| ctx.first > 0) {
                        Some(past) => edge.concat(owed(&format!("past {}", input.from), scope, ctx, staleness + 1, past.clone())),
                        None => edge,
                    };
                    ctx.shared.watch.name(&edge, format!("{} of an earlier iteration", input.from));
                    edge
                }
            };
            ports.push((input.port.clone(), edge));
        }
        let operator = find(&node.op).ok_or_else(|| format!("there is no operator `{}`", node.op))?;
        let edge = operator(node, ports, scope, ctx).map_err(|e| format!("{}: {e}", node.id))?;
        ctx.shared.watch.name(&edge, node.id.clone());
        made.insert(node.id.clone(), edge);
    }
    for (from, handle) in loops {
        made.get(&from).cloned().ok_or_else(|| format!("there is no node `{from}`"))?.connect_loop(handle);
    }
    Ok(made)
}
