//! Compiles a pipeline into a timely graph. Nothing here knows a particular operator.

use super::contract::{Ports, Render};
use super::failure::{Failed, Failure};
use super::feed::Feeds;
use super::graph_builder::GraphBuilder;
use super::monitor::Owner;
use super::{attempts, columns, source, Context, Edge};
use flow_pipeline::{Node, Pipeline};
use std::collections::BTreeMap;
use timely::dataflow::Scope;

/// The output of every node: that of its operator, or the rows that `feeds` has for it. A delayed edge is a feedback
/// edge whose path summary is its staleness plus one, so that progress tracking itself enforces the bound; the rows it
/// carries at the start of a resumed run come from the context's `past`. Fails with the node that can't be built.
pub fn render<'s>(
    pipeline: &Pipeline,
    scope: Scope<'s, u64>,
    ctx: &Context,
    feeds: &Feeds,
    find: &dyn Fn(&str) -> Option<Render>,
) -> Result<BTreeMap<String, Edge<'s>>, Failure> {
    let mut builder = GraphBuilder::new(scope, ctx, find);
    let built = pipeline.nodes.iter().try_for_each(|node| add(node, feeds, &mut builder));
    let closed = builder.close().map_err(|error| Failure::new("engine", ctx.first, error));
    built.and(closed)
}

/// Builds a node and adds it to the graph.
fn add(node: &Node, feeds: &Feeds, builder: &mut GraphBuilder) -> Result<(), Failure> {
    let (scope, ctx) = (builder.scope, builder.ctx);
    if let Some(feed) = feeds.get(&node.id).cloned() {
        let edge = source::iterations(&node.id, scope, &ctx.owned_by(Owner::Node(node.id.clone())), move |iteration| feed(iteration));
        builder.add(&node.id, edge);
        return Ok(());
    }
    let edge = match &node.body {
        Some(body) => attempts::render(node, body, builder)?,
        None => outside(node, builder).map_err(|error| Failure::new(&node.id, ctx.first, error))?,
    };
    let edge = columns::shaped(node, edge, ctx, |iteration| *iteration).map_err(|error| Failure::new(&node.id, ctx.first, error))?;
    ctx.shared.watch.name(&edge, node.id.clone());
    builder.add(&node.id, edge);
    Ok(())
}

/// Builds a node outside loops.
fn outside<'s>(node: &Node, builder: &mut GraphBuilder<'_, 's>) -> Result<Edge<'s>, Failed> {
    let mut ports = Ports::new();
    for input in &node.inputs {
        ports.push((input.port.clone(), builder.edge(input)?));
    }
    let ctx = builder.ctx.owned_by(Owner::Node(node.id.clone()));
    (builder.operator(&node.op)?.outside)(node, ports, builder.scope, &ctx)
}
