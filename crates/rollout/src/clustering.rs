//! Clusters of observations, by prototypes that last: what the operator `cluster` maintains and an agent that retrieves
//! by cluster looks up.

use super::error::RolloutError;
use super::points::{Pointer, Points};
use arrow::array::RecordBatch;
use flow_core::row;
use flow_credit::memory;
use flow_credit::prototypes::{Alphabet, ComparedText, Cosine, Prototypes, Ratio};
use flow_model::PolicyError;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How keys are compared with prototypes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    /// By the cosine of their points; by `points: none` keys are alike that are equal.
    #[default]
    Cosine,
    /// By the share of characters that match, as Python's difflib.SequenceMatcher(None, key, prototype).ratio() has it
    /// (SLEA-RL's released code). Equal keys are alike, whatever its rule for popular characters makes of them.
    /// `points` has no meaning then.
    Ratio,
}

/// A key, with the task that it comes from and the id of the cluster that it would found.
#[derive(Clone, Copy, Debug)]
pub struct ClusterKey<'a> {
    pub task: &'a str,
    /// Above 0.
    pub id: u64,
    pub text: &'a str,
}

/// The columns of rows that clusters can be taken up from.
pub const COLUMNS: &[&str] = &["iteration", "task", "sample", "attempt", "turn", "phase", "cluster", "prototype", "linked"];

/// The clusters that there are.
#[derive(Clone)]
pub struct ObservationClusters {
    /// Keys of different tasks are never compared.
    by_task: bool,
    measure: Measure,
    /// By bucket, the cluster of each prototype. What equals a prototype belongs to its cluster, whatever the measure:
    /// had an earlier one been like it, it would have founded none. So what is seen again costs no comparison.
    exact: BTreeMap<u64, FxHashMap<String, u64>>,
}

#[derive(Clone)]
enum Measure {
    Points { pointer: Pointer, exact: bool, prototypes: Prototypes<Cosine> },
    Texts { alphabet: Alphabet, prototypes: Prototypes<Ratio> },
}

impl ObservationClusters {
    /// There are none yet; a key joins one whose prototype it is like by at least this. `pointer` makes points of keys.
    /// `by_task` never compares those of different tasks.
    pub fn new(compare: Compare, at_least: f64, pointer: Pointer, by_task: bool) -> ObservationClusters {
        let measure = match compare {
            Compare::Cosine => {
                // Different texts can have one point: hashed words don't know the order of lines. By 1 only equal keys
                // are alike.
                let exact = pointer.points == Points::None || at_least >= 1.0;
                let at_least = if exact { 1.0 } else { at_least as f32 };
                Measure::Points { pointer, exact, prototypes: Prototypes::new(Cosine { at_least }) }
            }
            Compare::Ratio => {
                Measure::Texts { alphabet: Alphabet::default(), prototypes: Prototypes::new(Ratio { at_least, autojunk: true }) }
            }
        };
        ObservationClusters { by_task, measure, exact: BTreeMap::new() }
    }

    /// Takes up the clusters that these rows founded.
    ///
    /// # Errors
    /// If a column of [`COLUMNS`] is missing, or an encoder can't answer.
    pub fn take_up(&mut self, rows: &[RecordBatch]) -> Result<(), RolloutError> {
        let Some(rows) = row::sorted(rows)? else { return Ok(()) };
        let (ids, prototypes, tasks) = (row::u64s(&rows, "cluster")?, row::texts(&rows, "prototype")?, row::texts(&rows, "task")?);
        let founders = (0..rows.num_rows()).filter(|i| !prototypes.value(*i).is_empty());
        let key = |i: usize| ClusterKey { task: tasks.value(i), id: ids.value(i), text: prototypes.value(i) };
        Ok(self.insert(&founders.map(key).collect::<Vec<_>>())?)
    }

    fn bucket(&self, key: &ClusterKey) -> u64 {
        if self.by_task {
            memory::bucket(key.task)
        } else {
            0
        }
    }

    /// The cluster whose prototype is this very text.
    fn exactly(&self, bucket: u64, text: &str) -> Option<u64> {
        self.exact.get(&bucket)?.get(text).copied()
    }

    /// The keys that equal no prototype, with their places.
    fn others<'k>(&self, keys: &[ClusterKey<'k>]) -> (Vec<usize>, Vec<ClusterKey<'k>>) {
        keys.iter().enumerate().filter(|(_, key)| self.exactly(self.bucket(key), key.text).is_none()).map(|(i, key)| (i, *key)).unzip()
    }

    /// The cluster of each key, and whether the key founded it; keys in the order of their rows' names.
    ///
    /// # Errors
    /// If an encoder can't answer.
    pub fn join(&mut self, keys: &[ClusterKey]) -> Result<Vec<(u64, bool)>, PolicyError> {
        let (places, others) = self.others(keys);
        let mut points = self.points(&others)?.into_iter();
        let mut places = places.into_iter().peekable();
        let mut joined = Vec::with_capacity(keys.len());
        for (i, key) in keys.iter().enumerate() {
            let bucket = self.bucket(key);
            let point = places.next_if_eq(&i).and_then(|_| points.next());
            if let Some(id) = self.exactly(bucket, key.text) {
                joined.push((id, false));
                continue;
            }
            let (id, founded) = match &mut self.measure {
                Measure::Points { prototypes, .. } => prototypes.join(bucket, key.id, &point.unwrap_or_default()),
                Measure::Texts { alphabet, prototypes } => prototypes.join(bucket, key.id, &ComparedText::read(key.text, alphabet)),
            };
            if founded {
                self.exact.entry(bucket).or_default().insert(key.text.to_owned(), id);
            }
            joined.push((id, founded));
        }
        Ok(joined)
    }

    /// Takes up clusters that were founded before, by their prototypes, in order of founding.
    fn insert(&mut self, founders: &[ClusterKey]) -> Result<(), PolicyError> {
        let points = self.points(founders)?;
        for (key, point) in founders.iter().zip(points) {
            let bucket = self.bucket(key);
            match &mut self.measure {
                Measure::Points { prototypes, .. } => prototypes.insert(bucket, key.id, &point),
                Measure::Texts { alphabet, prototypes } => prototypes.insert(bucket, key.id, &ComparedText::read(key.text, alphabet)),
            }
            self.exact.entry(bucket).or_default().entry(key.text.to_owned()).or_insert(key.id);
        }
        Ok(())
    }

    /// The cluster that each key belongs to as things stand; nothing for one that would found its own.
    ///
    /// # Errors
    /// If an encoder can't answer.
    pub fn first(&self, keys: &[ClusterKey]) -> Result<Vec<Option<u64>>, PolicyError> {
        let mut first: Vec<Option<u64>> = keys.iter().map(|key| self.exactly(self.bucket(key), key.text)).collect();
        let (places, others) = self.others(keys);
        match &self.measure {
            Measure::Points { prototypes, .. } => {
                for ((i, key), point) in places.into_iter().zip(&others).zip(self.points(&others)?) {
                    first[i] = prototypes.first(self.bucket(key), &point);
                }
            }
            Measure::Texts { alphabet, prototypes } => {
                // What is only looked up leaves the alphabet as it is.
                let mut alphabet = alphabet.clone();
                for (i, key) in places.into_iter().zip(&others) {
                    first[i] = prototypes.first(self.bucket(key), &ComparedText::read(key.text, &mut alphabet));
                }
            }
        }
        Ok(first)
    }

    /// A point for each key; where there are no points, one that only equal keys share; empty ones where texts are
    /// compared.
    fn points(&self, keys: &[ClusterKey]) -> Result<Vec<Vec<f32>>, PolicyError> {
        match &self.measure {
            Measure::Texts { .. } => Ok(vec![vec![]; keys.len()]),
            Measure::Points { exact: true, .. } => Ok(keys.iter().map(|key| memory::exactly(key.text)).collect()),
            Measure::Points { pointer, .. } => pointer.points(keys.iter().map(|key| key.text.to_owned()).collect()),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.measure {
            Measure::Points { prototypes, .. } => prototypes.len(),
            Measure::Texts { prototypes, .. } => prototypes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<'a>(texts: &[&'a str]) -> Vec<ClusterKey<'a>> {
        texts.iter().enumerate().map(|(i, text)| ClusterKey { task: "t", id: i as u64 + 1, text }).collect()
    }

    fn joined(compare: Compare, at_least: f64, points: Points, texts: &[&str]) -> Vec<u64> {
        let mut clusters = ObservationClusters::new(compare, at_least, Pointer::new(points, None, None), false);
        clusters.join(&keys(texts)).unwrap().into_iter().map(|(id, _)| id).collect()
    }

    /// difflib.SequenceMatcher(None, "abce", "abcd").ratio() is 0.75, of "abfe" and "abcd" 0.5; equal words in another
    /// order have the same hashed words but for the pairs.
    #[test]
    fn keys_are_compared_by_characters_by_words_or_as_they_are() {
        let texts = ["abcd", "abce", "abfe", "abcd"];
        assert_eq!(joined(Compare::Ratio, 0.75, Points::Words, &texts), [1, 1, 3, 1]);
        assert_eq!(joined(Compare::Ratio, 0.8, Points::Words, &texts), [1, 2, 3, 1], "0.75 is too little; abfe and abce have 0.75, too");
        assert_eq!(joined(Compare::Cosine, 0.0, Points::None, &texts), [1, 2, 3, 1], "equal or not, whatever the threshold");
        let boards = ["1: x\n2: o\n3: x", "2: o\n1: x\n3: x", "1: x\n2: x\n3: o", "1: x\n2: o\n3: x"];
        assert_eq!(joined(Compare::Cosine, 1.0, Points::Words, &boards), [1, 2, 3, 1], "by 1 what is equal");
        let rooms = ["you see a red door", "you see a red Door", "you see salt"];
        assert_eq!(joined(Compare::Cosine, 0.85, Points::Words, &rooms), [1, 1, 3]);
    }

    #[test]
    fn what_was_founded_before_is_found_again() {
        for (compare, points) in [(Compare::Ratio, Points::Words), (Compare::Cosine, Points::Words), (Compare::Cosine, Points::None)] {
            let new = || ObservationClusters::new(compare, 0.7, Pointer::new(points, None, None), true);
            let texts = ["a red door", "a red lamp", "salt", "a red door", "pepper"];
            let mut whole = new();
            let joined = whole.join(&keys(&texts)).unwrap();
            let founders: Vec<ClusterKey> =
                keys(&texts).into_iter().zip(&joined).filter(|(_, (_, founded))| *founded).map(|(key, _)| key).collect();
            let mut resumed = new();
            resumed.insert(&founders).unwrap();
            resumed.insert(&founders).unwrap();
            let all: Vec<Option<u64>> = joined.iter().map(|(id, _)| Some(*id)).collect();
            assert_eq!((resumed.first(&keys(&texts)).unwrap(), resumed.len()), (all, whole.len()));
            assert_eq!(resumed.first(&keys(&["0123456789"])).unwrap(), [None], "characters and words that nobody has met");
        }
    }
}
