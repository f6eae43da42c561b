//! Pipeline -> timely. Nothing here knows an operator.

use super::edge::{Batch, Inner};
use super::feed::{owed, Feeds};
use super::{attempts, source, Attempt, Context, Edge};
use crate::pipeline::{Input, Node, Pipeline};
use std::collections::BTreeMap;
use timely::dataflow::operators::{feedback::Handle, Concat, ConnectLoop, Feedback};
use timely::dataflow::Scope;

/// A node's inputs by port, in the order of the file.
pub type Ports<'s> = Vec<(String, Edge<'s>)>;

/// As [`Ports`], inside a loop.
pub type InnerPorts<'s> = Vec<(String, Inner<'s>)>;

/// How an operator becomes timely: the small contract between `ops` and `dataflow`.
pub type Outside = for<'s> fn(&Node, Ports<'s>, Scope<'s, u64>, &Context) -> Result<Edge<'s>, String>;

/// The same inside a loop, where rows are worked on as they come.
pub type Inside = for<'s> fn(&Node, InnerPorts<'s>, Scope<'s, Attempt>, &Context) -> Result<Inner<'s>, String>;

/// Both, as far as the operator can stand there.
#[derive(Clone, Copy)]
pub struct Render {
    pub outside: Outside,
    pub inside: Option<Inside>,
}

impl Render {
    /// For an operator that can't stand in a loop.
    pub const fn outside(outside: Outside) -> Render {
        Render { outside, inside: None }
    }
}

/// The graph as far as it is built.
pub(super) struct Making<'a, 's> {
    pub scope: Scope<'s, u64>,
    pub ctx: &'a Context,
    pub find: &'a dyn Fn(&str) -> Option<Render>,
    past: &'a Feeds,
    made: BTreeMap<String, Edge<'s>>,
    delayed: Vec<(String, Handle<'s, u64, Batch>)>,
}

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
    let mut making = Making { scope, ctx, find, past, made: BTreeMap::new(), delayed: Vec::new() };
    for node in &pipeline.nodes {
        if let Some(feed) = feeds.get(&node.id).cloned() {
            let edge = source::iterations(&node.id, scope, ctx, move |iteration| feed(iteration));
            making.made.insert(node.id.clone(), edge);
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
        making.made.insert(node.id.clone(), edge);
    }
    for (from, handle) in making.delayed {
        making.made.get(&from).cloned().ok_or_else(|| format!("there is no node `{from}`"))?.connect_loop(handle);
    }
    Ok(making.made)
}

impl<'s> Making<'_, 's> {
    pub fn operator(&self, name: &str) -> Result<Render, String> {
        (self.find)(name).ok_or_else(|| format!("there is no operator `{name}`"))
    }

    /// What comes by an input of `node`: what was made in this iteration, or in an earlier one.
    pub fn edge(&mut self, node: &str, input: &Input) -> Result<Edge<'s>, String> {
        let from = &input.from;
        let Some(staleness) = input.staleness else {
            return self.made.get(from).cloned().ok_or_else(|| format!("`{node}` comes before its input `{from}`"));
        };
        let (handle, edge) = self.scope.feedback(staleness + 1);
        self.delayed.push((from.clone(), handle));
        let edge = match self.past.get(from).filter(|_| self.ctx.first > 0) {
            Some(past) => edge.concat(owed(&format!("past {from}"), self.scope, self.ctx, staleness + 1, past.clone())),
            None => edge,
        };
        self.ctx.shared.watch.name(&edge, format!("{from} of an earlier iteration"));
        Ok(edge)
    }
}
