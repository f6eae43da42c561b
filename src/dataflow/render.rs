//! Pipeline -> timely. Nothing here knows an operator.

use super::contract::Render;
use super::feed::Feeds;
use super::making::Making;
use super::{attempts, source, Context, Edge};
use crate::pipeline::Pipeline;
use std::collections::BTreeMap;
use timely::dataflow::Scope;

/// Every node's output: what its operator makes of its inputs, or what `feeds` has for it. A delayed edge is a feedback edge whose path
/// summary is its staleness plus one, so that progress tracking itself enforces the bound; what it owes at the start of a resumed
/// run comes from `past`.
pub fn render<'s>(
    pipeline: &Pipeline,
    scope: Scope<'s, u64>,
    ctx: &Context,
    (feeds, past): (&Feeds, &Feeds),
    find: &dyn Fn(&str) -> Option<Render>,
) -> Result<BTreeMap<String, Edge<'s>>, String> {
    let mut making = Making::new(scope, ctx, find, past);
    for node in &pipeline.nodes {
        if let Some(feed) = feeds.get(&node.id).cloned() {
            let edge = source::iterations(&node.id, scope, ctx, move |iteration| feed(iteration));
            making.add(&node.id, edge);
            continue;
        }
        let edge = match &node.body {
            Some(body) => attempts::render(node, body, &mut making)?,
            None => {
                let ports = node.inputs.iter().map(|i| Ok((i.port.clone(), making.edge(&node.id, i)?))).collect::<Result<_, String>>()?;
                let operator = making.operator(&node.op)?;
                (operator.outside)(node, ports, scope, ctx).map_err(|e| format!("{}: {e}", node.id))?
            }
        };
        ctx.shared.watch.name(&edge, node.id.clone());
        making.add(&node.id, edge);
    }
    making.close()
}
