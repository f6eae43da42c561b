//! A graph that is being built.

use super::contract::Render;
use super::edge::Batch;
use super::failure::Failed;
use super::feed::owed;
use super::{Context, Edge};
use crate::pipeline::Input;
use std::collections::BTreeMap;
use timely::dataflow::operators::generic::operator::empty;
use timely::dataflow::operators::{feedback::Handle, Concat, ConnectLoop, Feedback};
use timely::dataflow::Scope;

/// The graph as far as it is built.
pub(super) struct Making<'a, 's> {
    pub scope: Scope<'s, u64>,
    pub ctx: &'a Context,
    pub find: &'a dyn Fn(&str) -> Option<Render>,
    made: BTreeMap<String, Edge<'s>>,
    delayed: Vec<(String, Handle<'s, u64, Batch>)>,
}

impl<'a, 's> Making<'a, 's> {
    /// Nothing of it is built yet.
    pub fn new(scope: Scope<'s, u64>, ctx: &'a Context, find: &'a dyn Fn(&str) -> Option<Render>) -> Self {
        Making { scope, ctx, find, made: BTreeMap::new(), delayed: Vec::new() }
    }

    pub fn operator(&self, name: &str) -> Result<Render, Failed> {
        (self.find)(name).ok_or_else(|| format!("there is no operator `{name}`").into())
    }

    /// What comes by an input: what was made in this iteration, or in an earlier one.
    pub fn edge(&mut self, input: &Input) -> Result<Edge<'s>, Failed> {
        let from = &input.from;
        let Some(staleness) = input.staleness else {
            return self.made.get(from).cloned().ok_or_else(|| format!("it comes before its input `{from}`").into());
        };
        let (handle, edge) = self.scope.feedback(staleness + 1);
        self.delayed.push((from.clone(), handle));
        // What comes late in the first iterations was made by nobody here.
        let before = if self.ctx.first > 0 { &self.ctx.past } else { &self.ctx.given };
        let edge = match before.get(from) {
            Some(past) => edge.concat(owed(&format!("past {from}"), self.scope, self.ctx, staleness + 1, past.clone())),
            None => edge,
        };
        self.ctx.shared.watch.name(&edge, format!("{from} of an earlier iteration"));
        Ok(edge)
    }

    /// `node` makes this.
    pub fn add(&mut self, node: &str, edge: Edge<'s>) {
        self.made.insert(node.into(), edge);
    }

    /// What all nodes make, with the delayed edges closed. A graph that can't be built is closed, too: timely insists on it.
    pub fn close(self) -> Result<BTreeMap<String, Edge<'s>>, Failed> {
        let mut missing = None;
        for (from, handle) in self.delayed {
            match self.made.get(&from) {
                Some(edge) => edge.clone().connect_loop(handle),
                None => {
                    empty(self.scope).connect_loop(handle);
                    missing = Some(from);
                }
            }
        }
        missing.map_or(Ok(self.made), |from| Err(format!("there is no node `{from}`").into()))
    }
}
