//! What was played, as the engine keeps it: figures, and the table of episodes that failed.

use super::tokens;
use crate::dataflow::{Figure, Lost};
use crate::rollout::retry::FailedEpisode;
use crate::rollout::summary::Summary;

/// The figures that progress and `metrics` show. An episode that failed is not won, and has no return.
/// What a world tells of its own stands behind `world_`.
pub fn figures(of: &Summary) -> Vec<(String, Figure)> {
    let told = |(name, (sum, episodes)): (&String, &(f64, usize))| {
        let name = if name == "score" { name.clone() } else { format!("world_{name}") };
        (name, Figure::share(*sum, *episodes))
    };
    let own = [
        ("success", Figure::share(of.won as f64, of.episodes)),
        ("return", Figure::share(of.score, of.episodes - of.failed)),
        ("turns", Figure::Sum(of.turns as f64)),
        ("invalid", Figure::share(of.invalid as f64, of.turns)),
        ("failed", Figure::Sum(of.failed as f64)),
        ("retried", Figure::Sum(of.retried as f64)),
    ];
    // An expert reads none.
    let read = tokens::figures(&of.tokens).into_iter().filter(|_| of.tokens.distinct() > 0);
    own.into_iter().chain(read).map(|(name, figure)| (name.to_owned(), figure)).chain(of.told.iter().map(told)).collect()
}

/// The episodes that `node` gave up, as the table `errors` has them.
pub fn lost(node: &str, failed: Vec<FailedEpisode>) -> impl Iterator<Item = Lost> + use<'_> {
    of("play", node, failed)
}

/// The reflections that `node` got no answer to, in the same way.
pub fn unsaid(node: &str, failed: Vec<FailedEpisode>) -> impl Iterator<Item = Lost> + use<'_> {
    of("reflect", node, failed)
}

fn of<'n>(phase: &'static str, node: &'n str, failed: Vec<FailedEpisode>) -> impl Iterator<Item = Lost> + use<'n> {
    failed.into_iter().map(move |FailedEpisode { task, sample, attempt, turn, cause, error, tries }| Lost {
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
