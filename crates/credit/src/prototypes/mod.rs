//! Prototypes: a key joins the first one that it is like, else it founds one of its own (leader clustering; SLEA-RL,
//! section 3.2: "assign it to an existing cluster or create a new one"). The one definition of it: what clusters
//! observations, counts distinct states, shares out the entries of a memory and splits groups of credit asks here, each
//! with its own [`Likeness`].
//!
//! Only prototypes are compared with, so two members can be less alike than the threshold, and the order of the keys
//! matters: callers pass them in the order of their rows' names, so the clusters are the same on any number of workers.

mod cosine;
mod ratio;

pub use crate::difflib::Alphabet;
pub use cosine::{dot, dots, reaches, Cosine};
pub use ratio::{alike_texts, ComparedText, Ratio};

use std::collections::BTreeMap;

/// When a key is like a prototype.
pub trait Likeness {
    /// A key, made ready once for many comparisons.
    type Key: ?Sized;
    /// What is kept of the key that founded a cluster.
    type Prototype;

    /// The prototype that a key becomes.
    fn prototype(&self, key: &Self::Key) -> Self::Prototype;

    /// Whether the key joins the prototype's cluster.
    fn alike(&self, key: &Self::Key, prototype: &Self::Prototype) -> bool;

    /// The place of the first of these prototypes that the key is like.
    fn first<'p>(&self, key: &Self::Key, mut prototypes: impl Iterator<Item = &'p Self::Prototype>) -> Option<usize>
    where
        Self::Prototype: 'p,
    {
        prototypes.position(|prototype| self.alike(key, prototype))
    }
}

/// Prototypes by bucket, in order of founding, each with an id. Keys of different buckets are never compared.
#[derive(Clone, Debug)]
pub struct Prototypes<L: Likeness> {
    likeness: L,
    buckets: BTreeMap<u64, Vec<(u64, L::Prototype)>>,
}

impl<L: Likeness> Prototypes<L> {
    /// There are none yet.
    ///
    /// ```
    /// use flow_credit::prototypes::{Cosine, Prototypes};
    /// let mut clusters = Prototypes::new(Cosine { at_least: 0.85 });
    /// let (east, north_east, north): (&[f32], &[f32], &[f32]) = (&[1.0, 0.0], &[0.9, 0.43589], &[0.0, 1.0]);
    /// assert_eq!(clusters.join(0, 1, east), (1, true));
    /// assert_eq!(clusters.join(0, 2, north_east), (1, false), "a cosine of 0.9");
    /// assert_eq!(clusters.join(0, 3, north), (3, true), "like north-east at 0.44, and that is no prototype");
    /// assert_eq!(clusters.first(0, north_east), Some(1));
    /// ```
    pub fn new(likeness: L) -> Prototypes<L> {
        Prototypes { likeness, buckets: BTreeMap::new() }
    }

    /// The measure of similarity.
    pub fn likeness(&self) -> &L {
        &self.likeness
    }

    /// The earliest prototype of the bucket that the key is like.
    pub fn first(&self, bucket: u64, key: &L::Key) -> Option<u64> {
        let own = self.buckets.get(&bucket)?;
        self.likeness.first(key, own.iter().map(|(_, prototype)| prototype)).map(|place| own[place].0)
    }

    /// The prototype that the key joins, and whether it founded it just now, as `id`.
    pub fn join(&mut self, bucket: u64, id: u64, key: &L::Key) -> (u64, bool) {
        if let Some(first) = self.first(bucket, key) {
            return (first, false);
        }
        self.found(bucket, id, key);
        (id, true)
    }

    /// Adds a prototype that was founded before, after the present ones; adding a present one again changes nothing.
    pub fn insert(&mut self, bucket: u64, id: u64, key: &L::Key) {
        if !self.contains(bucket, id) {
            self.found(bucket, id, key);
        }
    }

    /// Whether the bucket has this prototype.
    pub fn contains(&self, bucket: u64, id: u64) -> bool {
        self.buckets.get(&bucket).is_some_and(|own| own.iter().any(|(other, _)| *other == id))
    }

    /// How many there are in all buckets.
    pub fn len(&self) -> usize {
        self.buckets.values().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    fn found(&mut self, bucket: u64, id: u64, key: &L::Key) {
        let prototype = self.likeness.prototype(key);
        self.buckets.entry(bucket).or_default().push((id, prototype));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(degrees: f32) -> Vec<f32> {
        vec![degrees.to_radians().cos(), degrees.to_radians().sin()]
    }

    /// Threshold 0.85: 31.8 degrees.
    #[test]
    fn a_key_joins_the_earliest_prototype_that_it_is_like() {
        let mut clusters = Prototypes::new(Cosine { at_least: 0.85 });
        let joined = [0.0, 30.0, 60.0, 45.0, 31.0, 29.5].map(|degrees| clusters.join(0, degrees as u64 + 1, &at(degrees)));
        assert_eq!(
            joined.map(|(id, _)| id),
            [1, 1, 61, 61, 1, 1],
            "60 founds one; 31 is near both and joins the earlier; 45 is too far from 0"
        );
        assert_eq!(joined.map(|(_, founded)| founded), [true, false, true, false, false, false]);
        assert_eq!(clusters.first(0, &at(-31.0)), Some(1));
        assert_eq!(clusters.first(0, &at(-33.0)), None);
        assert_eq!(clusters.first(7, &at(0.0)), None, "another bucket");
        assert_eq!(clusters.first(0, &[1.0][..]), None, "a point of another width");
    }

    #[test]
    fn what_was_founded_before_is_taken_up_in_its_order() {
        let mut clusters = Prototypes::new(Cosine { at_least: 0.85 });
        clusters.insert(0, 5, &at(0.0));
        clusters.insert(0, 9, &at(20.0));
        clusters.insert(0, 5, &at(90.0));
        assert_eq!((clusters.len(), clusters.first(0, &at(10.0)), clusters.first(0, &at(90.0))), (2, Some(5), None));
    }
}
