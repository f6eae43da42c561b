//! Compiles a loop into a nested timely scope, where a timestamp is the iteration and the attempt. Outside the loop a
//! timestamp is the iteration alone.

use super::contract::InnerPorts;
use super::edge::{Inner, RowBatch};
use super::failure::{Failed, Failure};
use super::graph_builder::GraphBuilder;
use super::monitor::Owner;
use super::{columns, Attempt, Edge};
use flow_pipeline::{Body, Node};
use std::collections::BTreeMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline as Stay;
use timely::dataflow::operators::generic::operator::empty;
use timely::dataflow::operators::{feedback::Handle, generic::Operator, Concatenate, ConnectLoop, Enter, Feedback, Leave};
use timely::order::Product;

/// Renders the loop `node`: its rows are those of its output nodes over all attempts. Fails with the node, in the loop
/// or the loop itself, that can't be built.
pub(super) fn render<'s>(node: &Node, body: &Body, builder: &mut GraphBuilder<'_, 's>) -> Result<Edge<'s>, Failure> {
    let (outer, ctx) = (builder.scope, builder.ctx);
    let trial = super::context::TrialLimits { attempts: u64::from(body.attempts), until: body.until };
    let ctx = super::Context { trial: Some(trial), ..ctx.clone() };
    let failed = |node: &Node, error: Failed| Failure::new(&node.id, ctx.first, error);
    // Outside edges are looked up in the outer scope, once each.
    let mut from_outside = BTreeMap::new();
    for inner in &body.nodes {
        for (i, input) in inner.inputs.iter().enumerate().filter(|(_, input)| body.node(&input.from).is_none()) {
            let edge = builder.edge(input).map_err(|e| failed(inner, e))?;
            from_outside.insert((inner.id.clone(), i), edge);
        }
    }
    let mut operators = Vec::new();
    for inner in &body.nodes {
        let operator = builder.operator(&inner.op).map_err(|e| failed(inner, e))?;
        operators.push(operator.inside.ok_or_else(|| failed(inner, format!("`{}` can't stand in a loop", inner.op).into()))?);
    }
    let out = outer.scoped::<Attempt, _, _>(&node.id, |scope| {
        let mut again: Vec<(String, Handle<Attempt, RowBatch>)> = Vec::new();
        let build = || {
            let mut edges: BTreeMap<String, Inner> = BTreeMap::new();
            for (inner, operator) in body.nodes.iter().zip(operators) {
                let mut ports = InnerPorts::new();
                for (i, input) in inner.inputs.iter().enumerate() {
                    let edge = if let Some(edge) = from_outside.remove(&(inner.id.clone(), i)) {
                        let name = format!("{} outside", input.from);
                        let edge = edge.enter(scope);
                        ctx.shared.watch.name(&edge, name);
                        edge
                    } else if input.staleness.is_some() {
                        let (handle, edge) = scope.feedback(Product::new(0, 1));
                        again.push((input.from.clone(), handle));
                        ctx.shared.watch.name(&edge, format!("{} of the attempt before", input.from));
                        edge
                    } else {
                        let late = || failed(inner, format!("it comes before its input `{}`", input.from).into());
                        edges.get(&input.from).cloned().ok_or_else(late)?
                    };
                    ports.push((input.port.clone(), edge));
                }
                let edge = operator(inner, ports, scope, &ctx.owned_by(Owner::Node(inner.id.clone())));
                let edge = edge.and_then(|edge| columns::shaped(inner, edge, &ctx, |time| time.outer)).map_err(|e| failed(inner, e))?;
                ctx.shared.watch.name(&edge, inner.id.clone());
                edges.insert(inner.id.clone(), edge);
            }
            Ok(edges)
        };
        let built = build();
        // A loop that can't be built is closed, too: timely requires it.
        let mut missing = None;
        for (from, handle) in again {
            match built.as_ref().ok().and_then(|edges| edges.get(&from)) {
                Some(edge) => within(edge.clone(), u64::from(body.attempts)).connect_loop(handle),
                None => {
                    empty(scope).connect_loop(handle);
                    missing = Some(failed(node, format!("there is no node `{from}` in the loop").into()));
                }
            }
        }
        let edges = built?;
        let rows = body.output.iter().filter_map(|id| edges.get(id).cloned()).map(|edge| edge.leave(outer)).collect::<Vec<_>>();
        missing.map_or(Ok(rows), Err)
    })?;
    Ok(outer.concatenate(out))
}

/// Only rows with a further attempt to come: those of the last attempt are not fed back.
fn within(edge: Inner<'_>, attempts: u64) -> Inner<'_> {
    edge.unary::<CapacityContainerBuilder<RowBatch>, _, _, _>(Stay, "the next attempt", move |_, _| {
        move |input, output| {
            input.for_each_time(|capability, batches| {
                if capability.time().inner + 1 < attempts {
                    let mut session = output.session(&capability);
                    batches.for_each(|batch| session.give_container(batch));
                }
            });
        }
    })
}
