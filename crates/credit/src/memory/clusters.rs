//! The buckets of a memory that is partitioned by cluster: entries whose keys are alike share one.

use super::Entry;
use crate::prototypes::{Cosine, Prototypes};

/// The clusters of a memory, in order of founding. The prototype of one is the key of its first entry: among entries of
/// the earliest iteration, the one with the first row. So the clusters of a memory follow from its changes, and a
/// cluster whose entries have all left is still one.
#[derive(Clone, Debug)]
pub struct Clusters {
    prototypes: Prototypes<Cosine>,
}

impl Clusters {
    /// There are none yet; a key joins one with whose prototype it has at least this cosine.
    pub fn new(at_least: f32) -> Clusters {
        Clusters { prototypes: Prototypes::new(Cosine { at_least }) }
    }

    /// Takes up an entry, after those before it: the first of its bucket is the prototype.
    pub fn insert(&mut self, entry: &Entry) {
        self.prototypes.insert(0, entry.bucket, &entry.embedding);
    }

    /// The bucket of the cluster that a point belongs to: the earliest that is near enough.
    pub fn bucket(&self, point: &[f32]) -> Option<u64> {
        self.prototypes.first(0, point)
    }

    /// Gives candidates, in their order, the buckets of their clusters. One that belongs to none founds one, in the
    /// bucket of its own id, for those after it; whether that lasts follows from which of them get a place.
    pub fn assign(&self, candidates: &mut [Entry]) {
        let mut later = Prototypes::new(*self.prototypes.likeness());
        for entry in candidates {
            let known = self.bucket(&entry.embedding);
            entry.bucket = known.unwrap_or_else(|| later.join(0, entry.id.max(1), &entry.embedding).0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::row::Name;

    fn entry(sample: u32, degrees: f32) -> Entry {
        let source = Name { iteration: 0, task: "t".into(), sample, attempt: 0, turn: 3, phase: "reflect".into() };
        let embedding = vec![degrees.to_radians().cos(), degrees.to_radians().sin()];
        let (key, text) = (String::new(), String::new());
        let (ordinal, kind, level) = Default::default();
        Entry { id: u64::from(sample) + 1, bucket: 0, key, embedding, score: 0.0, text, source, ordinal, kind, level }
    }

    /// Threshold 0.85: 31.8 degrees.
    #[test]
    fn a_key_joins_the_first_cluster_that_is_near_enough() {
        let mut clusters = Clusters::new(0.85);
        let mut candidates = [0.0, 30.0, 60.0, 45.0, 31.0, 29.5].map(|degrees| entry(degrees as u32, degrees));
        clusters.assign(&mut candidates);
        let buckets = candidates.each_ref().map(|entry| entry.bucket);
        assert_eq!(buckets, [1, 1, 61, 61, 1, 1], "60 founds one; 31 is near both, and joins the first; 45 is too far from 0");
        assert_eq!(clusters.bucket(&candidates[0].embedding), None, "nobody has a place yet");

        // 0 got none: the first of its bucket that did, 30, is the prototype, and 60 is near that, too.
        candidates[1..].iter().for_each(|entry| clusters.insert(entry));
        assert_eq!(clusters.bucket(&entry(0, 60.0).embedding), Some(1));
        assert_eq!(clusters.bucket(&entry(0, -1.0).embedding), Some(1), "31 degrees from 30");
        assert_eq!(clusters.bucket(&entry(0, -2.0).embedding), None);
        assert_eq!(clusters.bucket(&[1.0]), None, "a point of another kind");
    }
}
