//! Turns the outcome of episodes into metrics and into rows of the table `errors`.

use super::tokens;
use flow_dataflow::context::RunState;
use flow_dataflow::{Figure, Lost};
use flow_rollout::error::RolloutError;
use flow_rollout::retry::FailedEpisode;
use flow_rollout::summary::Summary;

/// The metrics that progress and `metrics` show. An episode that failed is not won, and has no return. Metrics that an
/// environment reports itself have the prefix `world_`. Branches count among the turns played, the failures and the
/// tokens alone.
pub fn figures(summary: &Summary) -> Vec<(String, Figure)> {
    let env_metric = |(name, (sum, episodes)): (&String, &(f64, usize))| {
        let name = if name == "score" { name.clone() } else { format!("world_{name}") };
        (name, Figure::share(*sum, *episodes))
    };
    let own = [
        ("success", Figure::share(summary.won as f64, summary.episodes)),
        ("return", Figure::share(summary.score, summary.episodes - summary.failed)),
        ("turns", Figure::Sum((summary.turns + summary.branches.turns) as f64)),
        ("invalid", Figure::share(summary.invalid as f64, summary.turns)),
        ("exploration_degree", Figure::share(summary.revisited as f64, summary.states)),
        ("failed", Figure::Sum((summary.failed + summary.branches.failed) as f64)),
        ("retried", Figure::Sum(summary.retried as f64)),
    ];
    let unread = (summary.unread > 0).then_some(("unread", Figure::Sum(summary.unread as f64)));
    own.into_iter()
        .chain(unread)
        .chain(tokens::figures(&summary.tokens))
        .map(|(name, figure)| (name.to_owned(), figure))
        .chain(summary.servers.iter().map(|(name, figure)| (name.clone(), Figure::Most(*figure))))
        .chain(summary.env_metrics.iter().map(env_metric))
        .collect()
}

/// Whether a node that plays has metrics of this name: `figures` makes them, also for an expert, and `rollout`,
/// `evaluate`, a loop and the engine add some.
pub fn known(name: &str) -> bool {
    const FURTHER: [&str; 11] = [
        tokens::COMPUTED,
        tokens::DISTINCT,
        tokens::READ,
        tokens::WRITTEN,
        "score",
        "panel",
        "attempts",
        "memory",
        "groups",
        "rounds",
        "rows_out",
    ];
    let name = name.strip_prefix("expert_").unwrap_or(name);
    let own = figures(&Summary { unread: 1, ..Summary::default() });
    let open = ["pass@", "world_", "gap_"].into_iter().any(|prefix| name.starts_with(prefix));
    open || name.ends_with("seconds") || FURTHER.contains(&name) || own.iter().any(|(own, _)| own == name)
}

/// The episodes that `node` gave up, as rows of the table `errors`.
pub fn lost(node: &str, failed: Vec<FailedEpisode>) -> impl Iterator<Item = Lost> + use<'_> {
    as_lost("play", node, failed)
}

/// The same error of a player, whose episodes become rows of the table `errors` where there were too many of them.
pub fn noted(error: RolloutError, shared: &RunState, iteration: u64, node: &str) -> RolloutError {
    if let RolloutError::TooManyFailed(many) = &error {
        shared.lose(iteration, lost(node, many.failed.clone()));
    }
    error
}

/// The reflections that `node` got no answer for, likewise.
pub fn lost_reflections(node: &str, failed: Vec<FailedEpisode>) -> impl Iterator<Item = Lost> + use<'_> {
    as_lost("reflect", node, failed)
}

fn as_lost<'n>(phase: &'static str, node: &'n str, failed: Vec<FailedEpisode>) -> impl Iterator<Item = Lost> + use<'n> {
    failed.into_iter().map(move |FailedEpisode { task, sample, attempt, turn, cause, error, tries, .. }| Lost {
        task,
        sample,
        attempt,
        turn,
        phase,
        node: node.into(),
        cause,
        error,
        tries,
    })
}
