//! The timely graph while it is being built.

use super::contract::Render;
use super::edge::RowBatch;
use super::failure::Failed;
use super::feed::owed;
use super::{Context, Edge};
use flow_pipeline::Input;
use std::collections::BTreeMap;
use timely::dataflow::operators::generic::operator::empty;
use timely::dataflow::operators::{feedback::Handle, Concat, ConnectLoop, Feedback};
use timely::dataflow::Scope;

/// The nodes built so far, and the delayed edges still to be closed.
pub(super) struct GraphBuilder<'a, 's> {
    pub scope: Scope<'s, u64>,
    pub ctx: &'a Context,
    pub find: &'a dyn Fn(&str) -> Option<Render>,
    edges: BTreeMap<String, Edge<'s>>,
    delayed: Vec<(String, Handle<'s, u64, RowBatch>)>,
}

impl<'a, 's> GraphBuilder<'a, 's> {
    /// An empty graph.
    pub fn new(scope: Scope<'s, u64>, ctx: &'a Context, find: &'a dyn Fn(&str) -> Option<Render>) -> Self {
        GraphBuilder { scope, ctx, find, edges: BTreeMap::new(), delayed: Vec::new() }
    }

    pub fn operator(&self, name: &str) -> Result<Render, Failed> {
        (self.find)(name).ok_or_else(|| format!("there is no operator `{name}`").into())
    }

    /// The edge of an input: rows of this iteration, or of an earlier one if it is delayed.
    pub fn edge(&mut self, input: &Input) -> Result<Edge<'s>, Failed> {
        let from = &input.from;
        let Some(staleness) = input.staleness else {
            return self.edges.get(from).cloned().ok_or_else(|| format!("it comes before its input `{from}`").into());
        };
        let (handle, edge) = self.scope.feedback(staleness + 1);
        self.delayed.push((from.clone(), handle));
        // In the first iterations a delayed edge carries rows that no node of this run produced.
        let before = if self.ctx.first > 0 { &self.ctx.past } else { &self.ctx.initial };
        let edge = match before.get(from) {
            Some(past) => edge.concat(owed(&format!("past {from}"), self.scope, self.ctx, staleness + 1, past.clone())),
            None => edge,
        };
        self.ctx.shared.watch.name(&edge, format!("{from} of an earlier iteration"));
        Ok(edge)
    }

    /// Adds the output of `node`.
    pub fn add(&mut self, node: &str, edge: Edge<'s>) {
        self.edges.insert(node.into(), edge);
    }

    /// The outputs of all nodes, with the delayed edges closed. A graph that can't be built is closed, too: timely
    /// requires it.
    pub fn close(self) -> Result<BTreeMap<String, Edge<'s>>, Failed> {
        let mut missing = None;
        for (from, handle) in self.delayed {
            match self.edges.get(&from) {
                Some(edge) => edge.clone().connect_loop(handle),
                None => {
                    empty(self.scope).connect_loop(handle);
                    missing = Some(from);
                }
            }
        }
        missing.map_or(Ok(self.edges), |from| Err(format!("there is no node `{from}`").into()))
    }
}
