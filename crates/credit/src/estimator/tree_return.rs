//! The return of a turn in a tree of episodes (`branch` of `rollout`): the mean over what was played from it on.

use super::{Estimator, EstimatorInput};
use std::collections::BTreeMap;

pub(super) static ESTIMATOR: Estimator = Estimator { values: tree_return, needs: &["turn", "branch_of"], ..Estimator::PLAIN };

/// `Q(row) = r + gamma * V(next)`, where `V` of a prompt is the mean of `Q` over the rows that answer it: of the
/// episode's own next turn, and of the first turns of the branches that were copied there. So each answer to a prompt
/// counts once, however many branches there are below it (AT2PO, arXiv 2601.04767: `child_mean` of its code); where
/// nothing was copied it is the step_return.
///
/// A branch's sample comes behind the one that it was copied from, so from the last trajectory to the first all that
/// follows a row is known.
fn tree_return(input: &EstimatorInput) -> Vec<f64> {
    let EstimatorInput { columns, episodes, rewards, discounts } = input;
    let prompt = |i: usize| columns.prompt.get(i).copied().unwrap_or(i as u64);
    let mut returns = vec![0.0; rewards.len()];
    // Of each prompt the sum over its answers so far, and how many they are.
    let mut answers: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for episode in episodes.iter().rev() {
        let mut next = 0.0;
        for i in episode.clone().rev() {
            returns[i] = rewards[i] + discounts.gamma * next;
            let (sum, count) = answers.entry(prompt(i)).or_default();
            (*sum, *count) = (*sum + returns[i], *count + 1.0);
            next = *sum / *count;
        }
    }
    returns
}
