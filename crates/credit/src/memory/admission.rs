//! Which candidates a memory takes, and who has to leave.

use super::{Entry, Library};
use crate::prototypes::{alike_texts, dot, reaches};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How entries come and go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Admission {
    /// Entries of a bucket, at most.
    #[serde(default = "capacity")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub capacity: usize,
    /// The capacity for entries of a kind where it is another, as in `{ warning: 50 }`. A kind and level has its own
    /// places in a bucket.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacities: BTreeMap<String, usize>,
    /// Which entry is evicted when a bucket is full.
    #[serde(default)]
    pub evict: Evict,
    /// How ties for the lowest score are broken. Needs `evict: lowest`.
    #[serde(default)]
    pub ties: Ties,
    /// How a text is treated that is already in its bucket.
    #[serde(default)]
    pub duplicates: Duplicates,
    /// A candidate that is like an entry of its bucket and kind by at least this is left out; by 1 only if it is equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub novelty: Option<f32>,
    /// The part of an entry that `novelty` compares.
    #[serde(default)]
    pub novelty_of: NoveltyOf,
    /// Entries live for this many iterations, counting that of their row; without end when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub window: Option<u64>,
}

/// Which entry is evicted when a bucket is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Evict {
    /// The entry from the earliest row: first in, first out (EMPO2).
    #[default]
    Oldest,
    /// The entry with the lowest score, which may be the candidate itself (SLEA-RL).
    Lowest,
}

/// How ties for the lowest score are broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ties {
    /// The newer ones: a candidate must beat the lowest.
    #[default]
    Newer,
    /// The older ones: a candidate that is as good takes their place.
    Older,
}

/// The part of an entry that `novelty` compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoveltyOf {
    /// Keys, by the cosine of their points: hashed words or an encoder's.
    #[default]
    Key,
    /// Texts, by the share of characters that match: Python's difflib ratio (SLEA-RL's released code).
    Text,
    /// Both: a candidate is left out where one entry is like it in its key and in its text.
    Both,
}

/// How a text is treated that is already in its bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// The candidate is left out, whatever its score.
    #[default]
    Drop,
    /// It is a candidate like any other.
    Keep,
}

/// Where an entry stands in its bucket: the lesser, the better. The score (all bits reversed, so that the greatest
/// comes first) and then its age, or its age alone.
pub type Rank = (u32, u64);

fn capacity() -> usize {
    1000
}

impl Default for Admission {
    fn default() -> Self {
        Admission {
            capacity: capacity(),
            capacities: BTreeMap::new(),
            evict: Evict::default(),
            ties: Ties::default(),
            duplicates: Duplicates::default(),
            novelty: None,
            novelty_of: NoveltyOf::default(),
            window: None,
        }
    }
}

impl Admission {
    /// Of an iteration's candidates, sorted by their sources, the candidates that compete with `library` for places:
    /// each that neither repeats nor resembles an entry of its bucket, or a candidate before it that contends.
    pub fn contenders(&self, library: &Library, candidates: Vec<Entry>) -> Vec<Entry> {
        let mut fresh = Library::new();
        for candidate in candidates {
            let known = |held: &Library| {
                let repeats = self.duplicates == Duplicates::Drop && held.tells(candidate.bucket, &candidate.text);
                repeats
                    || self.novelty.is_some_and(|least| {
                        held.of_kind(candidate.bucket, &candidate.kind).any(|entry| self.alike(entry, &candidate, least))
                    })
            };
            if !known(library) && !known(&fresh) {
                fresh.insert(candidate);
            }
        }
        // In order of arrival: a library without departures keeps it within a bucket, and buckets don't compete.
        fresh.entries().cloned().collect()
    }

    /// Whether a candidate is nothing new beside this entry.
    fn alike(&self, entry: &Entry, candidate: &Entry, least: f32) -> bool {
        let keys = || {
            let (a, b) = (&entry.embedding, &candidate.embedding);
            // Different keys can have one point: hashed words don't know the order of a text.
            let near = || a.len() == b.len() && !a.is_empty() && reaches(dot(a, b), least);
            if least >= 1.0 {
                entry.key == candidate.key
            } else {
                near()
            }
        };
        let texts = || alike_texts(&candidate.text, &entry.text, least.into());
        match self.novelty_of {
            NoveltyOf::Key => keys(),
            NoveltyOf::Text => texts(),
            NoveltyOf::Both => keys() && texts(),
        }
    }

    /// How many entries of a kind a bucket has room for, at each level.
    pub fn places(&self, kind: &str) -> usize {
        self.capacities.get(kind).copied().unwrap_or(self.capacity)
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

    fn entry(id: u64, kind: &str, key: &str, text: &str) -> Entry {
        let source =
            flow_core::row::Name { iteration: 0, task: "t".into(), sample: id as u32, attempt: 0, turn: 0, phase: "reflect".into() };
        let (embedding, score) = (super::super::words(key), 0.0);
        let (key, text, kind, level) = (key.into(), text.into(), kind.into(), String::new());
        Entry { id, bucket: 0, key, embedding, score, text, source, ordinal: 0, kind, level }
    }

    #[test]
    fn a_kind_has_places_of_its_own() {
        let admission: Admission = serde_json::from_value(serde_json::json!({ "capacity": 100, "capacities": { "warning": 50 } })).unwrap();
        assert_eq!(["strategy", "warning", ""].map(|kind| admission.places(kind)), [100, 50, 100]);
    }

    /// SLEA-RL: novelty of 0.85 against the zone. difflib.SequenceMatcher(None, "look first", "look fast").ratio() is
    /// 16/19.
    #[test]
    fn what_is_new_is_new_to_its_kind() {
        let there = || {
            let mut library = Library::new();
            library.insert(entry(1, "strategy", "a red door", "look first"));
            library
        };
        let new = |with: serde_json::Value, candidate: Entry| {
            let mut all = serde_json::json!({ "duplicates": "keep" });
            all.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
            let admission: Admission = serde_json::from_value(all).unwrap();
            !admission.contenders(&there(), vec![candidate]).is_empty()
        };
        let text = |novelty: f64| serde_json::json!({ "novelty": novelty, "novelty_of": "text" });
        assert!(new(text(0.85), entry(2, "strategy", "salt", "look fast")), "16/19 is 0.842");
        assert!(!new(text(0.84), entry(2, "strategy", "salt", "look fast")));
        assert!(new(text(0.84), entry(2, "warning", "salt", "look first")), "a warning isn't compared with strategies");
        let both = || serde_json::json!({ "novelty": 1, "novelty_of": "both" });
        assert!(new(both(), entry(2, "strategy", "salt", "look first")), "of another state");
        assert!(new(both(), entry(2, "strategy", "a red door", "look up")));
        assert!(!new(both(), entry(2, "strategy", "a red door", "look first")));
        assert!(!new(serde_json::json!({ "novelty": 1 }), entry(2, "strategy", "a red door", "look up")), "keys alone");
    }

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
