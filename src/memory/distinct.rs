//! Distinct states, and how many were like each (EMPO2, section 4.2: the list behind the intrinsic reward).

use super::words::dot;
use std::collections::BTreeMap;

/// How far the cosine of a state with itself may miss 1: f32 rounds.
const ROUNDING: f32 = 1e-5;

/// States of which no two of a bucket are alike, in the order in which they were first seen, with a count each.
#[derive(Clone, Debug)]
pub struct Distinct {
    at_least: f32,
    buckets: BTreeMap<u64, Vec<One>>,
}

#[derive(Clone, Debug)]
struct One {
    id: u64,
    point: Vec<f32>,
    count: u32,
}

impl Distinct {
    /// States are alike whose points have at least this cosine.
    pub fn new(at_least: f32) -> Distinct {
        Distinct { at_least, buckets: BTreeMap::new() }
    }

    /// Counts a state: the distinct one that it is like (the first in order that is near enough; itself, as `id`, where none is), how many
    /// were like that one with this, and its point if it is new. How many there are once others were counted says [`Distinct::count`].
    pub fn visit(&mut self, bucket: u64, id: u64, point: Vec<f32>) -> (u64, u32, Option<&[f32]>) {
        let least = self.at_least - ROUNDING;
        let own = self.buckets.entry(bucket).or_default();
        if let Some(at) = own.iter().position(|one| dot(&one.point, &point) >= least) {
            own[at].count += 1;
            return (own[at].id, own[at].count, None);
        }
        own.push(One { id, point, count: 1 });
        (id, 1, own.last().map(|one| one.point.as_slice()))
    }

    /// How many states were like the distinct one `id`.
    pub fn count(&self, bucket: u64, id: u64) -> u32 {
        let own = self.buckets.get(&bucket).and_then(|own| own.iter().find(|one| one.id == id));
        own.map_or(0, |one| one.count)
    }

    /// Takes up what was counted before: that `count` states were like `id`, whose point is told with the first of them.
    pub fn recount(&mut self, bucket: u64, id: u64, count: u32, point: Vec<f32>) {
        let own = self.buckets.entry(bucket).or_default();
        match own.iter_mut().find(|one| one.id == id) {
            Some(one) => one.count = one.count.max(count),
            None => own.push(One { id, point, count }),
        }
    }
}

/// A point for keys that are compared as they are: two are alike only where they are equal, but for one in 2^31.
pub fn exactly(key: &str) -> Vec<f32> {
    // Two unit vectors in 64 dimensions, one sign a bit of a hash: equal keys have a cosine of 1, others at most 62/64.
    let hash = crate::seed::text(key);
    (0..64).map(|bit| if hash >> bit & 1 == 1 { 0.125 } else { -0.125 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(degrees: f32) -> Vec<f32> {
        vec![degrees.to_radians().cos(), degrees.to_radians().sin()]
    }

    /// Threshold 0.9: 25.8 degrees.
    #[test]
    fn a_state_counts_with_the_first_that_it_is_like() {
        let mut distinct = Distinct::new(0.9);
        let mut visit = |id, degrees| {
            let (like, n, founded) = distinct.visit(0, id, at(degrees));
            (like, n, founded.is_some())
        };
        assert_eq!(visit(1, 0.0), (1, 1, true), "reward 1");
        assert_eq!(visit(2, 20.0), (1, 2, false), "reward 1/2");
        assert_eq!(visit(3, 40.0), (3, 1, true), "like 20 degrees, which is no distinct state");
        assert_eq!(visit(4, 20.0), (1, 3, false), "like both: the first one");
        assert_eq!(visit(5, 50.0), (3, 2, false));
        assert_eq!(distinct.visit(7, 6, at(0.0)).1, 1, "another bucket");
    }

    #[test]
    fn counts_go_on_where_they_stopped() {
        let states = [0.0, 20.0, 40.0, 41.0, 100.0, 0.0, 39.0, 101.0];
        let mut whole = Distinct::new(0.9);
        let told: Vec<(u64, u32, Vec<f32>)> = states
            .iter()
            .enumerate()
            .map(|(id, degrees)| {
                let (like, n, point) = whole.visit(0, id as u64, at(*degrees));
                (like, n, point.unwrap_or_default().to_vec())
            })
            .collect();
        let mut resumed = Distinct::new(0.9);
        told[..5].iter().for_each(|(like, n, point)| resumed.recount(0, *like, *n, point.clone()));
        for id in 5..8 {
            let (like, n, point) = resumed.visit(0, id as u64, at(states[id]));
            assert_eq!((like, n, point.unwrap_or_default().to_vec()), told[id]);
        }
    }

    #[test]
    fn equal_keys_are_alike_and_no_others() {
        let cosine = |a: &str, b: &str| dot(&exactly(a), &exactly(b));
        assert_eq!(cosine("17", "17"), 1.0);
        assert!((0..1000).all(|i| cosine("17", &format!("state {i}")) <= 0.97));
    }
}
