//! Which candidates a memory takes, and who has to leave.

use super::{Entry, Library};
use crate::prototypes::reaches;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How entries come and go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Admission {
    /// Entries of a bucket, at most.
    #[serde(default = "capacity")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub capacity: usize,
    /// Who leaves a bucket that is full.
    #[serde(default)]
    pub evict: Evict,
    /// Who of those with the lowest score leaves. Needs `evict: lowest`.
    #[serde(default)]
    pub ties: Ties,
    /// What becomes of a text that its bucket holds already.
    #[serde(default)]
    pub duplicates: Duplicates,
    /// A candidate whose key has at least this cosine with the key of an entry of its bucket is left out; 1 leaves out repeated keys
    /// alone. Needs `points`: hashed words or an encoder's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub novelty: Option<f32>,
    /// Entries live for this many iterations, counting that of their row; without end when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub window: Option<u64>,
}

/// Who leaves a bucket that is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Evict {
    /// The entry from the earliest row: first in, first out (EMPO2).
    #[default]
    Oldest,
    /// The entry with the lowest score, which may be the candidate itself (SLEA-RL).
    Lowest,
}

/// Who of those with the lowest score leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ties {
    /// The newer ones: a candidate must beat the lowest.
    #[default]
    Newer,
    /// The older ones: a candidate that is as good takes their place.
    Older,
}

/// What becomes of a text that its bucket holds already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// The candidate is left out, whatever its score.
    #[default]
    Drop,
    /// It is a candidate like any other.
    Keep,
}

/// Where an entry stands in its bucket: the lesser, the better. The score (all bits reversed, so that the greatest comes first) and then
/// its age, or its age alone.
pub type Rank = (u32, u64);

fn capacity() -> usize {
    1000
}

impl Default for Admission {
    fn default() -> Self {
        Admission {
            capacity: capacity(),
            evict: Evict::default(),
            ties: Ties::default(),
            duplicates: Duplicates::default(),
            novelty: None,
            window: None,
        }
    }
}

impl Admission {
    /// Of an iteration's candidates, sorted by their sources, those that contend for a place beside what `library` holds: each that neither
    /// repeats nor resembles an entry of its bucket, or a candidate before it that contends.
    pub fn contenders(&self, library: &Library, candidates: Vec<Entry>) -> Vec<Entry> {
        let mut fresh = Library::new();
        for candidate in candidates {
            let known = |held: &Library| {
                let repeats = self.duplicates == Duplicates::Drop && held.tells(candidate.bucket, &candidate.text);
                repeats
                    || self.novelty.is_some_and(|least| {
                        held.nearest(candidate.bucket, &candidate.embedding).is_some_and(|cosine| reaches(cosine, least))
                    })
            };
            if !known(library) && !known(&fresh) {
                fresh.insert(candidate);
            }
        }
        // In the order in which they came: a library that nothing left keeps it within a bucket, and buckets don't compete.
        fresh.entries().cloned().collect()
    }

    /// Where an entry with this score stands; `age` grows with the order of sources.
    pub fn rank(&self, score: f32, age: u64) -> Rank {
        match (self.evict, self.ties) {
            (Evict::Oldest, _) => (0, !age),
            (Evict::Lowest, Ties::Newer) => (descending(score), age),
            (Evict::Lowest, Ties::Older) => (descending(score), !age),
        }
    }

    /// Where an entry stands that stood at `rank` and has this score now.
    pub fn reranked(&self, rank: Rank, score: f32) -> Rank {
        match self.evict {
            Evict::Oldest => rank,
            Evict::Lowest => (descending(score), rank.1),
        }
    }

    /// The iteration at which the entry of a row of `iteration` is too old.
    pub fn until(&self, iteration: u64) -> Option<u64> {
        Some(iteration.saturating_add(self.window?))
    }
}

/// A number that is the lesser, the greater the score; what is no number counts least.
fn descending(score: f32) -> u32 {
    if score.is_nan() {
        return u32::MAX;
    }
    // -0 is 0. The bits of positive floats ascend with them, those of negative ones descend.
    let bits = (score + 0.0).to_bits();
    let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    !ascending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_go_by_score_or_by_age() {
        let rising = [f32::NEG_INFINITY, -100.0, -0.5, 0.0, 1e-9, 0.5, 100.0, f32::INFINITY];
        assert!(rising.windows(2).all(|pair| descending(pair[0]) > descending(pair[1])));
        assert_eq!(descending(0.0), descending(-0.0));
        assert!(descending(f32::NAN) > descending(f32::NEG_INFINITY));
        let lowest = Admission { evict: Evict::Lowest, ..Default::default() };
        assert!(lowest.rank(1.0, 9) < lowest.rank(0.5, 0) && lowest.rank(1.0, 0) < lowest.rank(1.0, 1), "the older one stays");
        let older = Admission { ties: Ties::Older, ..lowest };
        assert!(older.rank(1.0, 1) < older.rank(1.0, 0));
        let oldest = Admission::default();
        assert!(oldest.rank(0.0, 1) < oldest.rank(1.0, 0), "by age alone");
    }
}
