//! Scores that move: what an entry was worth to the episodes that retrieved it (MemRL's utility: Q <- Q + rate * (r -
//! Q)).

use arrow::array::RecordBatch;
use flow_core::row::{self, Name, RowError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How the score of an entry follows the outcomes of the episodes that retrieved it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rescore {
    /// The step of a score in an iteration, towards the mean outcome of the episodes that retrieved the entry: 1 takes
    /// the mean itself.
    #[serde(default = "rate")]
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
    pub rate: f32,
    /// The column with the outcome of an episode, read in its last turn.
    #[serde(default = "of")]
    pub of: String,
    /// An entry whose score falls below this is removed; scores only rank entries when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<f32>,
}

fn rate() -> f32 {
    0.3
}
fn of() -> String {
    "score".into()
}

impl Rescore {
    /// The score after an iteration; `mean` is the mean outcome of the episodes that retrieved the entry.
    pub fn moved(&self, score: f32, mean: f32) -> f32 {
        score + self.rate * (mean - score)
    }

    /// By group and entry, the mean outcome of the episodes that retrieved it, each episode counted once, in the order
    /// of their names. `group` is that of a task's episodes: means of different groups are kept apart.
    ///
    /// # Errors
    /// If a column is missing or isn't of its type.
    pub fn outcomes(&self, turns: &[RecordBatch], group: impl Fn(&str) -> u64) -> Result<BTreeMap<(u64, u64), f32>, RowError> {
        let mut sums: BTreeMap<(u64, u64), (f64, u32)> = BTreeMap::new();
        let Some(rows) = row::sorted(turns)? else { return Ok(BTreeMap::new()) };
        let (values, entries, phases) = (row::f32s(&rows, &self.of)?, row::lists(&rows, "retrieved")?, row::texts(&rows, "phase")?);
        let mut retrieved: BTreeSet<u64> = BTreeSet::new();
        let turns: Vec<usize> = (0..rows.num_rows()).filter(|i| phases.value(*i) == "play").collect();
        for (n, i) in turns.iter().enumerate() {
            retrieved.extend(row::u64_list(entries, *i).iter());
            let name = Name::of(&rows, *i);
            let next = turns.get(n + 1).map(|next| Name::of(&rows, *next));
            if next.is_some_and(|next| (&next.task, next.sample, next.attempt) == (&name.task, name.sample, name.attempt)) {
                continue;
            }
            for id in std::mem::take(&mut retrieved) {
                let (sum, episodes) = sums.entry((group(&name.task), id)).or_default();
                *sum += f64::from(values.value(*i));
                *episodes += 1;
            }
        }
        Ok(sums.into_iter().map(|(key, (sum, episodes))| (key, (sum / f64::from(episodes)) as f32)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float32Array, ListBuilder, StringArray, UInt32Array, UInt64Array, UInt64Builder};
    use arrow::datatypes::{DataType, Field};
    use std::sync::Arc;

    /// Two episodes of task `a`: one retrieves entry 5 twice and ends with 1, one retrieves 5 and 6 and ends with 0.
    /// One of `b`, which retrieves 5, ends with 2.
    #[test]
    fn an_entry_is_worth_the_mean_of_the_episodes_that_retrieved_it() {
        let mut retrieved = ListBuilder::new(UInt64Builder::new()).with_field(Field::new("item", DataType::UInt64, false));
        for ids in [&[5][..], &[5], &[6], &[5], &[5]] {
            retrieved.values().append_slice(ids);
            retrieved.append(true);
        }
        let u32s = |values: [u32; 5]| Arc::new(UInt32Array::from(values.to_vec())) as ArrayRef;
        let rows = row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![3; 5])) as ArrayRef),
            ("task", Arc::new(StringArray::from(vec!["a", "a", "a", "a", "b"]))),
            ("sample", u32s([0, 0, 1, 1, 0])),
            ("attempt", u32s([0; 5])),
            ("turn", u32s([0, 1, 0, 1, 0])),
            ("phase", Arc::new(StringArray::from(vec!["play"; 5]))),
            ("retrieved", Arc::new(retrieved.finish())),
            ("score", Arc::new(Float32Array::from(vec![0.0, 1.0, 0.5, 0.0, 2.0]))),
        ])
        .unwrap();
        let rescore: Rescore = serde_json::from_str("{}").unwrap();
        let apart = rescore.outcomes(std::slice::from_ref(&rows), |task| u64::from(task == "b")).unwrap();
        assert_eq!(apart, BTreeMap::from([((0, 5), 0.5), ((0, 6), 0.0), ((1, 5), 2.0)]));
        let together = rescore.outcomes(&[rows], |_| 0).unwrap();
        assert_eq!(together, BTreeMap::from([((0, 5), 1.0), ((0, 6), 0.0)]), "three episodes: 1, 0 and 2");
        assert_eq!(rescore.moved(1.0, 0.5), 0.85, "1 + 0.3 * (0.5 - 1)");
        assert_eq!(Rescore { rate: 1.0, ..rescore }.moved(1.0, 0.5), 0.5);
    }
}
