//! Clusters of what is seen, by prototypes that last: what the operator `cluster` maintains and an agent that retrieves by cluster looks up.

use super::error::RolloutError;
use super::points::{Pointer, Points};
use crate::memory;
use crate::policy::PolicyError;
use crate::prototypes::{Alphabet, ComparedText, Cosine, Prototypes, Ratio};
use crate::row;
use arrow::array::RecordBatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How keys are compared with prototypes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    /// By the cosine of their points; by `points: none` keys are alike that are equal.
    #[default]
    Cosine,
    /// By the share of characters that match, as Python's difflib.SequenceMatcher(None, key, prototype).ratio() has it (SLEA-RL's released
    /// code). `points` has no meaning then.
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
}

#[derive(Clone)]
enum Measure {
    Points { pointer: Pointer, prototypes: Prototypes<Cosine> },
    Texts { alphabet: Alphabet, prototypes: Prototypes<Ratio> },
}

impl ObservationClusters {
    /// There are none yet; a key joins one whose prototype it is like by at least this. `pointer` makes points of keys. `by_task` never compares
    /// those of different tasks.
    pub fn new(compare: Compare, at_least: f64, pointer: Pointer, by_task: bool) -> ObservationClusters {
        let measure = match compare {
            Compare::Cosine => {
                let at_least = if pointer.points == Points::None { 1.0 } else { at_least as f32 };
                Measure::Points { pointer, prototypes: Prototypes::new(Cosine { at_least }) }
            }
            Compare::Ratio => {
                Measure::Texts { alphabet: Alphabet::default(), prototypes: Prototypes::new(Ratio { at_least, autojunk: true }) }
            }
        };
        ObservationClusters { by_task, measure }
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

    /// The cluster of each key, and whether the key founded it; keys in the order of their rows' names.
    ///
    /// # Errors
    /// If an encoder can't answer.
    pub fn join(&mut self, keys: &[ClusterKey]) -> Result<Vec<(u64, bool)>, PolicyError> {
        let buckets: Vec<u64> = keys.iter().map(|key| self.bucket(key)).collect();
        let keyed = keys.iter().zip(buckets);
        Ok(match &mut self.measure {
            Measure::Points { pointer, prototypes } => {
                let points = points(pointer, keys)?;
                keyed.zip(points).map(|((key, bucket), point)| prototypes.join(bucket, key.id, &point)).collect()
            }
            Measure::Texts { alphabet, prototypes } => {
                keyed.map(|(key, bucket)| prototypes.join(bucket, key.id, &ComparedText::read(key.text, alphabet))).collect()
            }
        })
    }

    /// Takes up clusters that were founded before, by their prototypes, in the order in which that happened.
    fn insert(&mut self, founders: &[ClusterKey]) -> Result<(), PolicyError> {
        let buckets: Vec<u64> = founders.iter().map(|key| self.bucket(key)).collect();
        let keyed = founders.iter().zip(buckets);
        match &mut self.measure {
            Measure::Points { pointer, prototypes } => {
                let points = points(pointer, founders)?;
                keyed.zip(points).for_each(|((key, bucket), point)| prototypes.insert(bucket, key.id, &point));
            }
            Measure::Texts { alphabet, prototypes } => {
                keyed.for_each(|(key, bucket)| prototypes.insert(bucket, key.id, &ComparedText::read(key.text, alphabet)));
            }
        }
        Ok(())
    }

    /// The cluster that each key belongs to as things stand; nothing for one that would found its own.
    ///
    /// # Errors
    /// If an encoder can't answer.
    pub fn first(&self, keys: &[ClusterKey]) -> Result<Vec<Option<u64>>, PolicyError> {
        Ok(match &self.measure {
            Measure::Points { pointer, prototypes } => {
                let points = points(pointer, keys)?;
                keys.iter().zip(points).map(|(key, point)| prototypes.first(self.bucket(key), &point)).collect()
            }
            Measure::Texts { alphabet, prototypes } => {
                // What is only looked up leaves the alphabet as it is.
                let mut alphabet = alphabet.clone();
                keys.iter().map(|key| prototypes.first(self.bucket(key), &ComparedText::read(key.text, &mut alphabet))).collect()
            }
        })
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

/// A point for each key; where there are no points, one that only equal keys share.
fn points(pointer: &Pointer, keys: &[ClusterKey]) -> Result<Vec<Vec<f32>>, PolicyError> {
    match pointer.points {
        Points::None => Ok(keys.iter().map(|key| memory::exactly(key.text)).collect()),
        _ => pointer.points(keys.iter().map(|key| key.text.to_owned()).collect()),
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

    /// difflib.SequenceMatcher(None, "abce", "abcd").ratio() is 0.75, of "abfe" and "abcd" 0.5; equal words in another order have the same
    /// hashed words but for the pairs.
    #[test]
    fn keys_are_compared_by_characters_by_words_or_as_they_are() {
        let texts = ["abcd", "abce", "abfe", "abcd"];
        assert_eq!(joined(Compare::Ratio, 0.75, Points::Words, &texts), [1, 1, 3, 1]);
        assert_eq!(joined(Compare::Ratio, 0.8, Points::Words, &texts), [1, 2, 3, 1], "0.75 is too little; abfe and abce have 0.75, too");
        assert_eq!(joined(Compare::Cosine, 0.0, Points::None, &texts), [1, 2, 3, 1], "equal or not, whatever the threshold");
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
