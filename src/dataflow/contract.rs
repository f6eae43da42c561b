//! What `ops` and `dataflow` know of one another.

use super::edge::Inner;
use super::failure::Failed;
use super::{Attempt, Context, Edge};
use crate::pipeline::Node;
use timely::dataflow::Scope;

/// A node's inputs by port, in the order of the file.
pub type Ports<'s> = Vec<(String, Edge<'s>)>;

/// As [`Ports`], inside a loop.
pub type InnerPorts<'s> = Vec<(String, Inner<'s>)>;

/// How an operator becomes timely. Fails where its settings or its inputs are not what it needs.
pub type Outside = for<'s> fn(&Node, Ports<'s>, Scope<'s, u64>, &Context) -> Result<Edge<'s>, Failed>;

/// The same inside a loop, where rows are worked on as they come.
pub type Inside = for<'s> fn(&Node, InnerPorts<'s>, Scope<'s, Attempt>, &Context) -> Result<Inner<'s>, Failed>;

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
