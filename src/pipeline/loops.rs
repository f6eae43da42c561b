//! Loops: a node that is several nodes, run attempt after attempt at the same tasks within one iteration.

use super::{Input, Node, Pipeline};

/// What the operator of a loop is called.
pub const LOOP: &str = "loop";

/// What stands in a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// How many attempts a trial has, at most.
    pub attempts: u32,
    /// When a trial ends before its last attempt.
    pub until: Until,
    /// Every node after the nodes that it reads in its own attempt; otherwise in the file's order.
    pub nodes: Vec<Node>,
    /// The nodes whose rows, of all attempts together, are the loop's.
    pub output: Vec<String>,
}

/// When a trial, which is one sample of one task, is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// With its first success.
    Won,
    /// After the last attempt only.
    Never,
}

impl Body {
    /// The node inside that is called `id`.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.id == id)
    }

    /// Whether this input of an inner node is what another made in the attempt before; its staleness is 0.
    pub fn again(&self, input: &Input) -> bool {
        input.staleness.is_some() && self.node(&input.from).is_some()
    }
}

impl Node {
    /// The nodes whose operators make this node's rows: itself, or the output of a loop.
    pub fn makers(&self) -> Vec<&Node> {
        match &self.body {
            None => vec![self],
            Some(body) => body.output.iter().filter_map(|id| body.node(id)).collect(),
        }
    }
}

impl Pipeline {
    /// Every node, those inside loops too, each behind the loop that it stands in.
    pub fn all(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().flat_map(|n| std::iter::once(n).chain(n.body.iter().flat_map(|b| &b.nodes)))
    }

    /// The loop in which the node `id` stands.
    pub fn around(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.body.as_ref().is_some_and(|b| b.node(id).is_some()))
    }
}
