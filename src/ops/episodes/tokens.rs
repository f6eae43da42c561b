//! The metrics of tokens computed and of distinct tokens: see [`Tally`].

use crate::dataflow::context::RunState;
use crate::dataflow::Figure;
use flow_model::Tally;

/// Positions that forward passes computed, padding included.
pub const COMPUTED: &str = "tokens_computed";
/// Distinct tokens: equal tokens after equal prefixes under the same weights count once.
pub const DISTINCT: &str = "tokens_distinct";

/// Both metrics for one process.
pub fn figures(tokens: &Tally) -> [(&'static str, Figure); 2] {
    [(COMPUTED, Figure::Sum(tokens.computed as f64)), (DISTINCT, Figure::Sum(tokens.distinct() as f64))]
}

/// Records both for `node`, unless no token was read.
pub fn measure(shared: &RunState, iteration: u64, node: &str, tokens: &Tally) {
    if tokens.distinct() > 0 {
        figures(tokens).into_iter().for_each(|(name, figure)| shared.measure(iteration, node, name, figure));
    }
}
