//! Visitation depth: how often a trajectory had been in a state before.

use crate::stats::Groups;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::episodes;
    use crate::seed::Random;

    #[test]
    fn a_revisit_counts_the_visits_before_it() {
        assert_eq!(visitation_depth(&[7, 8, 7, 7], &episodes(|_| true, 4)), [0, 0, 1, 2]);
        assert_eq!(visitation_depth(&[7, 7, 7, 7], &[0..2, 2..4]), [0, 1, 0, 1], "each trajectory for itself");
        assert_eq!(visitation_depth(&[], &[]), [0u32; 0]);
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
