//! Pipeline -> timely. Nothing here knows an operator.

use super::{Context, Edge};
use crate::pipeline::{Node, Pipeline};
use std::collections::BTreeMap;
use timely::dataflow::operators::{feedback::Handle, ConnectLoop, Feedback};
use timely::dataflow::Scope;

/// A node's inputs by port, in the order of the file.
pub type Ports<'s> = Vec<(String, Edge<'s>)>;

/// How an operator becomes timely: the small contract between `ops` and `dataflow`.
pub type Render = for<'s> fn(&Node, Ports<'s>, Scope<'s, u64>, &Context) -> Result<Edge<'s>, String>;

/// Every node's output. A delayed edge is a feedback edge whose path summary is its staleness plus one, so that
/// progress tracking itself enforces the bound.
pub fn render<'s>(
    pipeline: &Pipeline,
    scope: Scope<'s, u64>,
    ctx: &Context,
    find: &dyn Fn(&str) -> Option<Render>,
) -> Result<BTreeMap<String, Edge<'s>>, String> {
    let mut made: BTreeMap<String, Edge<'s>> = BTreeMap::new();
    let mut loops: Vec<(String, Handle<'s, u64, super::edge::Batch>)> = Vec::new();
    for node in &pipeline.nodes {
        let mut ports = Ports::new();
        for input in &node.inputs {
            let edge = match input.staleness {
                None => made.get(&input.from).cloned().ok_or_else(|| format!("`{}` comes before its input `{}`", node.id, input.from))?,
                Some(staleness) => {
                    let (handle, edge) = scope.feedback(staleness + 1);
                    loops.push((input.from.clone(), handle));
                    edge
                }
            };
            ports.push((input.port.clone(), edge));
        }
        let operator = find(&node.op).ok_or_else(|| format!("there is no operator `{}`", node.op))?;
        let edge = operator(node, ports, scope, ctx).map_err(|e| format!("{}: {e}", node.id))?;
        made.insert(node.id.clone(), edge);
    }
    for (from, handle) in loops {
        made.get(&from).cloned().ok_or_else(|| format!("there is no node `{from}`"))?.connect_loop(handle);
    }
    Ok(made)
}
