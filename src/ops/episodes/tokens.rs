//! The figures of tokens that were computed, and of those that there were to compute: see [`Tally`].

use crate::dataflow::context::Shared;
use crate::dataflow::Figure;
use crate::policy::Tally;

/// Places that forward passes went over, padding among them.
pub const COMPUTED: &str = "tokens_computed";
/// Different tokens: those that follow the same ones under the same weights are one.
pub const DISTINCT: &str = "tokens_distinct";

/// Both, of what a process read.
pub fn figures(tokens: &Tally) -> [(&'static str, Figure); 2] {
    [(COMPUTED, Figure::Sum(tokens.computed as f64)), (DISTINCT, Figure::Sum(tokens.distinct() as f64))]
}

/// Notes both for `node`, unless nothing was read.
pub fn measure(shared: &Shared, iteration: u64, node: &str, tokens: &Tally) {
    if tokens.distinct() > 0 {
        figures(tokens).into_iter().for_each(|(name, figure)| shared.measure(iteration, node, name, figure));
    }
}
