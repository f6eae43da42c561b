//! Where in its trajectory a turn stands: how often its state had been visited before, and by which states it was come
//! to.

use crate::stats::Groups;
use flow_core::seed::mix;
use std::ops::Range;

/// Up to this many turns, looking back over the trajectory beats a table.
const SHORT: usize = 64;

/// `kappa(s_t)`: how many earlier turns of the same trajectory were in the state of turn `t` (EAPO, Eq. 12).
/// States a, b, a, a give 0, 0, 1, 2.
pub fn visitation_depth(states: &[u64], episodes: &[Range<usize>]) -> Vec<u32> {
    let mut depths = vec![0; states.len()];
    for episode in episodes {
        let (states, depths) = (&states[episode.clone()], &mut depths[episode.clone()]);
        if states.len() <= SHORT {
            for t in 1..states.len() {
                // The latest visit has already counted those before it.
                if let Some(latest) = states[..t].iter().rposition(|s| *s == states[t]) {
                    depths[t] = depths[latest] + 1;
                }
            }
        } else {
            let groups = Groups::of(states);
            let mut visits = vec![0; groups.len()];
            for (depth, group) in depths.iter_mut().zip(groups.index()) {
                *depth = visits[*group as usize];
                visits[*group as usize] += 1;
            }
        }
    }
    depths
}

/// A hash of the states before each turn's own, at most `last` of them and none of another trajectory, in their order
/// (HGPO, arXiv 2602.22817: the context of a turn; of one near the beginning it is shorter). Turns that are their
/// trajectory's first have the same.
pub fn histories(states: &[u64], episodes: &[Range<usize>], last: usize) -> Vec<u64> {
    let mut histories = vec![0; states.len()];
    for episode in episodes {
        for i in episode.clone() {
            let before = &states[episode.start.max(i.saturating_sub(last))..i];
            histories[i] = before.iter().fold(before.len() as u64, |hash, state| mix(hash, *state));
        }
    }
    histories
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episodes;
    use flow_core::seed::Random;

    #[test]
    fn a_revisit_counts_the_visits_before_it() {
        assert_eq!(visitation_depth(&[7, 8, 7, 7], &episodes(|_| true, 4)), [0, 0, 1, 2]);
        assert_eq!(visitation_depth(&[7, 7, 7, 7], &[0..2, 2..4]), [0, 1, 0, 1], "each trajectory for itself");
        assert_eq!(visitation_depth(&[], &[]), [0u32; 0]);
    }

    /// States 7, 8, 9 and 5, 8, 9: the last turns come from 8 both, from different states before it.
    #[test]
    fn a_history_goes_so_far_back() {
        let (states, episodes) = ([7, 8, 9, 5, 8, 9], [0..3, 3..6]);
        let equal = |last, a: usize, b: usize| {
            let histories = histories(&states, &episodes, last);
            histories[a] == histories[b]
        };
        assert_eq!([0, 1, 2, 9].map(|last| equal(last, 2, 5)), [true, true, false, false]);
        assert_eq!([0, 1].map(|last| equal(last, 1, 4)), [true, false]);
        assert!([1, 9].iter().all(|last| equal(*last, 0, 3)), "both are the first");
        assert!(!equal(9, 1, 2) && histories(&[], &[], 3).is_empty());
        let repeated = histories(&[4, 4, 4, 4], &[0..3, 3..4], 9);
        assert!(repeated[1] != repeated[2] && repeated[0] != repeated[1], "as many times as it was");
    }

    #[test]
    fn long_trajectories_agree_with_the_definition() {
        let mut random = Random::new(3);
        for turns in [SHORT, SHORT + 1, 300] {
            let states: Vec<u64> = (0..turns).map(|_| random.below(9) as u64).collect();
            let defined: Vec<u32> = (0..turns).map(|t| states[..t].iter().filter(|s| **s == states[t]).count() as u32).collect();
            assert_eq!(visitation_depth(&states, &episodes(|_| true, turns)), defined);
        }
    }
}
