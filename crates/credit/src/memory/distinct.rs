//! Distinct states, and how many were like each (EMPO2, section 4.2: the list behind the intrinsic reward).

use crate::prototypes::{Cosine, Prototypes};
use std::collections::BTreeMap;

/// The distinct states of each bucket, in order of their first visit, with a count each.
#[derive(Clone, Debug)]
pub struct Distinct {
    states: Prototypes<Cosine>,
    /// By bucket and id.
    counts: BTreeMap<(u64, u64), u32>,
}

impl Distinct {
    /// States are alike whose points have at least this cosine.
    pub fn new(at_least: f32) -> Distinct {
        Distinct { states: Prototypes::new(Cosine { at_least }), counts: BTreeMap::new() }
    }

    /// Counts a state: the distinct one that it is like (itself, as `id`, where there is none), how many were like that
    /// one with this, and whether it is new. How many there are once others were counted is [`Distinct::count`].
    pub fn visit(&mut self, bucket: u64, id: u64, point: &[f32]) -> (u64, u32, bool) {
        let (like, new) = self.states.join(bucket, id, point);
        let count = self.counts.entry((bucket, like)).or_default();
        *count += 1;
        (like, *count, new)
    }

    /// How many states were like the distinct one `id`.
    pub fn count(&self, bucket: u64, id: u64) -> u32 {
        self.counts.get(&(bucket, id)).copied().unwrap_or_default()
    }

    /// Takes up an earlier count: `count` states were like `id`, whose point comes with the first of them.
    pub fn recount(&mut self, bucket: u64, id: u64, count: u32, point: &[f32]) {
        self.states.insert(bucket, id, point);
        let known = self.counts.entry((bucket, id)).or_default();
        *known = (*known).max(count);
    }
}

/// A point for keys that are compared as they are: two are alike only where they are equal, except for one pair in
/// 2^31.
pub fn exactly(key: &str) -> Vec<f32> {
    // Two unit vectors in 64 dimensions, one sign a bit of a hash: equal keys have a cosine of 1, others at most 62/64.
    let hash = flow_core::seed::text(key);
    (0..64).map(|bit| if hash >> bit & 1 == 1 { 0.125 } else { -0.125 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prototypes::dot;

    fn at(degrees: f32) -> Vec<f32> {
        vec![degrees.to_radians().cos(), degrees.to_radians().sin()]
    }

    /// Threshold 0.9: 25.8 degrees.
    #[test]
    fn a_state_counts_with_the_first_that_it_is_like() {
        let mut distinct = Distinct::new(0.9);
        let mut visit = |id, degrees| distinct.visit(0, id, &at(degrees));
        assert_eq!(visit(1, 0.0), (1, 1, true), "reward 1");
        assert_eq!(visit(2, 20.0), (1, 2, false), "reward 1/2");
        assert_eq!(visit(3, 40.0), (3, 1, true), "like 20 degrees, which is no distinct state");
        assert_eq!(visit(4, 20.0), (1, 3, false), "like both: the first one");
        assert_eq!(visit(5, 50.0), (3, 2, false));
        assert_eq!(distinct.visit(7, 6, &at(0.0)).1, 1, "another bucket");
    }

    #[test]
    fn counts_go_on_where_they_stopped() {
        let states = [0.0, 20.0, 40.0, 41.0, 100.0, 0.0, 39.0, 101.0];
        let mut whole = Distinct::new(0.9);
        let visits: Vec<(u64, u32, bool)> =
            states.iter().enumerate().map(|(id, degrees)| whole.visit(0, id as u64, &at(*degrees))).collect();
        let mut resumed = Distinct::new(0.9);
        for ((like, n, new), degrees) in visits.iter().zip(states).take(5) {
            // What was logged: the point of a state that was new, and of no other.
            resumed.recount(0, *like, *n, &if *new { at(degrees) } else { vec![] });
        }
        for id in 5..8 {
            assert_eq!(resumed.visit(0, id as u64, &at(states[id])), visits[id]);
        }
    }

    #[test]
    fn equal_keys_are_alike_and_no_others() {
        let cosine = |a: &str, b: &str| dot(&exactly(a), &exactly(b));
        assert_eq!(cosine("17", "17"), 1.0);
        assert!((0..1000).all(|i| cosine("17", &format!("state {i}")) <= 0.97));
    }
}
