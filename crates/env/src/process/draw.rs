//! Which of a split's tasks are played, and their order: without replacement within an epoch, a new order in each.

use super::Items;
use flow_core::seed::{mix, text};

/// The seeds that a program may be given: numbers that every JSON library holds exactly.
const SEEDS: u64 = (1 << 53) - 1;

/// The task at a place of the endless sequence of epochs, and its seed. They depend on the split, the run's seed and
/// the place alone.
pub fn training(items: &Items, run_seed: u64, place: u64) -> (String, u64) {
    let seed = mix(run_seed, text("training tasks"));
    let (epoch, at) = (place / items.len().max(1), place % items.len().max(1));
    (items.name(shuffled(mix(seed, epoch), items.len(), at)), mix(mix(seed, text("seeds")), place) & SEEDS)
}

/// A sample of a split for a panel, without replacement: all of it in its own order if it has no more than `count`
/// tasks. The same label gives the same sample.
pub fn panel(items: &Items, label: &str, count: usize) -> Vec<(String, u64)> {
    let seed = mix(text(label), text("panel tasks"));
    let all = items.len() <= count as u64;
    let at = |i| if all { i } else { shuffled(seed, items.len(), i) };
    (0..items.len().min(count as u64)).map(|i| (items.name(at(i)), mix(seed, i) & SEEDS)).collect()
}

/// Where `at` goes when `0..n` is shuffled: a Feistel network over the next power of four, walked until it lands inside
/// (Black and Rogaway 2002). So no list of all tasks is ever needed.
fn shuffled(seed: u64, n: u64, at: u64) -> u64 {
    let half = (64 - n.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half) - 1;
    let mut x = at;
    loop {
        let (mut left, mut right) = (x >> half, x & mask);
        for round in 0..4 {
            (left, right) = (right, left ^ (mix(mix(seed, round), right) & mask));
        }
        x = left << half | right;
        if x < n {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_epoch_has_every_task_once_and_the_next_has_another_order() {
        for n in [1, 2, 3, 7, 64, 100, 1000] {
            let items = Items::Count(n);
            let epoch = |e: u64| (0..n).map(|at| training(&items, 7, e * n + at).0).collect::<Vec<_>>();
            let (first, second) = (epoch(0), epoch(1));
            assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), n as usize);
            assert_eq!(second.iter().collect::<BTreeSet<_>>(), first.iter().collect());
            assert!(n < 7 || first != second && first[0..3] != ["0", "1", "2"], "{n}");
        }
        assert_eq!(training(&Items::Count(u64::MAX), 7, 3), training(&Items::Count(u64::MAX), 7, 3), "whatever its size");
        assert!((0..1000).all(|at| training(&Items::Count(5), 7, at).1 < 1 << 53));
    }

    #[test]
    fn a_panel_is_a_sample_or_all() {
        let names = Items::Names(["a", "b", "c"].map(String::from).to_vec());
        let chosen = |count| panel(&names, "x", count).into_iter().map(|task| task.0).collect::<Vec<_>>();
        assert_eq!(chosen(5), ["a", "b", "c"]);
        assert_eq!(chosen(2).iter().collect::<BTreeSet<_>>().len(), 2);
        let many = |label| panel(&Items::Count(1000), label, 10);
        assert_eq!(many("x"), many("x"));
        assert_ne!(many("x"), many("y"));
    }
}
