//! Which rows make up each optimiser step.

use flow_core::seed::{mix, Random};
use flow_model::{Remainder, UpdateSettings};

/// The rows of each optimiser step, in the order of the steps, and the rows that are in none of them.
pub struct Steps {
    pub steps: Vec<Vec<usize>>,
    pub left: Vec<usize>,
}

/// Draws minibatches of `rows` without replacement, anew each epoch; all rows at once where `minibatch` is 0.
///
/// With `remainder: drop` the rows that fill no minibatch are drawn once, so that they are the same in every epoch.
/// Where there are fewer rows than one minibatch has, those are all of them.
pub fn draw(rows: &[usize], settings: &UpdateSettings, seed: u64) -> Steps {
    let size = settings.minibatch;
    let mut used = rows.to_vec();
    let mut left = Vec::new();
    if settings.remainder == Remainder::Drop && size > 0 && !rows.len().is_multiple_of(size) {
        Random::new(mix(seed, u64::MAX)).shuffle(&mut used);
        left = used.split_off(rows.len() - rows.len() % size);
        used.sort_unstable();
        left.sort_unstable();
    }
    let mut steps = Vec::new();
    for epoch in 0..settings.epochs {
        let mut order = used.clone();
        if size > 0 && size < used.len() {
            Random::new(mix(seed, epoch as u64)).shuffle(&mut order);
            steps.extend(order.chunks(size).map(<[usize]>::to_vec));
        } else if !order.is_empty() {
            steps.push(order);
        }
    }
    Steps { steps, left }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn drawn(rows: usize, minibatch: usize, remainder: Remainder) -> Steps {
        let settings = UpdateSettings { epochs: 3, minibatch, remainder, ..Default::default() };
        draw(&(0..rows).collect::<Vec<_>>(), &settings, 7)
    }

    #[test]
    fn each_row_is_drawn_once_an_epoch() {
        for (rows, size, sizes) in [(10, 4, vec![4, 4, 2]), (8, 4, vec![4, 4]), (3, 4, vec![3]), (5, 0, vec![5])] {
            let Steps { steps, left } = drawn(rows, size, Remainder::Keep);
            assert!(left.is_empty());
            assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), sizes.repeat(3));
            for epoch in steps.chunks(sizes.len()) {
                assert_eq!(epoch.concat().into_iter().collect::<BTreeSet<_>>(), (0..rows).collect());
            }
        }
        let steps = drawn(10, 4, Remainder::Keep).steps;
        assert_ne!(steps[..3], steps[3..6], "the draw is another one in the next epoch");
    }

    #[test]
    fn the_remainder_is_the_same_in_every_epoch() {
        let Steps { steps, left } = drawn(10, 4, Remainder::Drop);
        assert_eq!((steps.len(), left.len()), (6, 2));
        let used: BTreeSet<usize> = (0..10).filter(|row| !left.contains(row)).collect();
        for epoch in steps.chunks(2) {
            assert!(epoch.iter().all(|step| step.len() == 4));
            assert_eq!(epoch.concat().into_iter().collect::<BTreeSet<_>>(), used);
        }
        let full = drawn(8, 4, Remainder::Drop);
        assert!(full.left.is_empty() && full.steps == drawn(8, 4, Remainder::Keep).steps, "nothing is left over");
        let few = drawn(3, 4, Remainder::Drop);
        assert!(few.steps.is_empty() && few.left == [0, 1, 2]);
        assert!(drawn(5, 0, Remainder::Drop).left.is_empty(), "all rows in one step leave none");
    }
}
