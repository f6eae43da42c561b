//! Clusters of entries whose keys are alike (SLEA-RL, section 3.2, Eq. 1: an observation joins the first cluster whose prototype is similar
//! enough, or founds one).

use super::words::dot;
use super::Entry;

/// By how much the cosine of a key with itself may miss 1: f32 rounds.
const ROUNDING: f32 = 1e-5;

/// The clusters of a memory, in the order in which they were founded. The prototype of one is the key of its first entry: of those that
/// came in the earliest iteration the one whose row comes first. So the changes of a memory tell its clusters, and a cluster whose entries
/// have all left is still one.
#[derive(Clone, Debug)]
pub struct Clusters {
    at_least: f32,
    /// The bucket of each with its prototype, a point of the unit sphere.
    known: Vec<(u64, Vec<f32>)>,
}

impl Clusters {
    /// There are none yet; a key joins one with whose prototype it has at least this cosine.
    pub fn new(at_least: f32) -> Clusters {
        Clusters { at_least, known: Vec::new() }
    }

    /// An entry came, after those that were told before: the first of its bucket is the prototype.
    pub fn came(&mut self, entry: &Entry) {
        if self.known.iter().all(|(bucket, _)| *bucket != entry.bucket) {
            self.known.push((entry.bucket, entry.embedding.clone()));
        }
    }

    /// The bucket of the cluster that a point belongs to: the earliest that is near enough.
    pub fn of(&self, point: &[f32]) -> Option<u64> {
        let near = |prototype: &[f32]| prototype.len() == point.len() && dot(prototype, point) >= self.at_least - ROUNDING;
        self.known.iter().find(|(_, prototype)| near(prototype)).map(|(bucket, _)| *bucket)
    }

    /// Gives candidates, in their order, the buckets of their clusters. One that belongs to none founds one, in the bucket of its own id,
    /// for those after it; what becomes of that is seen from who gets a place.
    pub fn assign(&mut self, candidates: &mut [Entry]) {
        let before = self.known.len();
        for entry in candidates {
            entry.bucket = self.of(&entry.embedding).unwrap_or_else(|| entry.id.max(1));
            self.came(entry);
        }
        self.known.truncate(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Name;

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
        assert_eq!(clusters.of(&candidates[0].embedding), None, "nobody has a place yet");

        // 0 got none: the first of its bucket that did, 30, is the prototype, and 60 is near that, too.
        candidates[1..].iter().for_each(|entry| clusters.came(entry));
        assert_eq!(clusters.of(&entry(0, 60.0).embedding), Some(1));
        assert_eq!(clusters.of(&entry(0, -1.0).embedding), Some(1), "31 degrees from 30");
        assert_eq!(clusters.of(&entry(0, -2.0).embedding), None);
        assert_eq!(clusters.of(&[1.0]), None, "a point of another kind");
    }
}
