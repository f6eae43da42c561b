//! The interface between `ops` and `dataflow`.

use super::edge::Inner;
use super::failure::Failed;
use super::{Attempt, Context, Edge};
use flow_pipeline::Node;
use timely::dataflow::Scope;

/// A node's inputs by port, in the order of the file.
pub type Ports<'s> = Vec<(String, Edge<'s>)>;

/// As [`Ports`], inside a loop.
pub type InnerPorts<'s> = Vec<(String, Inner<'s>)>;

/// Renders an operator as timely operators. Fails where its settings or its inputs are not what it needs.
pub type RenderOutside = for<'s> fn(&Node, Ports<'s>, Scope<'s, u64>, &Context) -> Result<Edge<'s>, Failed>;

/// The same inside a loop, where rows are processed as they arrive.
pub type RenderInside = for<'s> fn(&Node, InnerPorts<'s>, Scope<'s, Attempt>, &Context) -> Result<Inner<'s>, Failed>;

/// How an operator is rendered outside loops and, if it can stand there, inside.
#[derive(Clone, Copy)]
pub struct Render {
    pub outside: RenderOutside,
    pub inside: Option<RenderInside>,
}

impl Render {
    /// For an operator that can't stand in a loop.
    pub const fn outside(outside: RenderOutside) -> Render {
        Render { outside, inside: None }
    }
}
