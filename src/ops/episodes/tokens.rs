//! The metrics of tokens: see [`Tally`].

use flow_dataflow::context::RunState;
use flow_dataflow::Figure;
use flow_model::Tally;

/// Positions that forward passes computed, padding included.
pub const COMPUTED: &str = "tokens_computed";
/// Distinct tokens: equal tokens after equal prefixes under the same weights count once.
pub const DISTINCT: &str = "tokens_distinct";

/// Tokens of the prompts that servers answered; of a trainer on a server, tokens that were sent for log-probabilities.
pub const READ: &str = "tokens_read";
/// Tokens that servers wrote.
pub const WRITTEN: &str = "tokens_written";
/// Tokens that a trainer on a server was sent with a gradient.
pub const TRAINED: &str = "tokens_trained";
/// What a budget of tokens counts: each token is in one of these.
pub const COUNTED: [&str; 4] = [COMPUTED, READ, WRITTEN, TRAINED];

/// The metrics for one process: those of tokens that were computed here, and those of servers.
pub fn figures(tokens: &Tally) -> impl Iterator<Item = (&'static str, Figure)> + use<> {
    let own = (tokens.distinct() > 0).then_some([(COMPUTED, tokens.computed), (DISTINCT, tokens.distinct())]);
    let served = (tokens.sent > 0).then_some([(READ, tokens.sent), (WRITTEN, tokens.written)]);
    own.into_iter().chain(served).flatten().map(|(name, count)| (name, Figure::Sum(count as f64)))
}

/// Records them for `node`.
pub fn measure(shared: &RunState, iteration: u64, node: &str, tokens: &Tally) {
    figures(tokens).for_each(|(name, figure)| shared.measure(iteration, node, name, figure));
}
