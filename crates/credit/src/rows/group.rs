//! Which rows are compared with one another: the columns `visitation_depth`, `group` and `group_size`.

use super::episodes::{episodes, reflections};
use crate::stats::sizes;
use crate::{founders, histories, visitation_depth, Similar};
use arrow::array::{RecordBatch, UInt32Array, UInt64Array};
use flow_core::row::{self, keys, RowError, View};
use flow_core::seed::{mix, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where in the game a turn was taken: what a reflection has none of.
pub const PLACE: [&str; 3] = ["state", "observation", "visitation_depth"];

/// The place of a reflection.
const REFLECTION: &str = "reflection";

/// How a turn is grouped that has fewer states before it than `history` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EarlyTurns {
    /// By all states before it, with turns that have as many.
    #[default]
    Shared,
    /// Alone, so that `singleton: drop` of `advantage` leaves it out (verl-agent's HGPO).
    Alone,
}

/// Adds `visitation_depth` and `group`, a hash of the columns in `by` and of the `history` states before a row's own.
/// Needs whole trajectories. By [`PLACE`], reflections agree with one another alone.
pub fn mark(batches: &[RecordBatch], by: &[String], history: usize, early: EarlyTurns) -> Result<Vec<RecordBatch>, RowError> {
    let Some(view) = View::sorted(batches)? else { return Ok(vec![]) };
    let mut columns = vec!["task", "sample", "attempt", "turn", "phase", "state"];
    // The depth is made here.
    columns.extend(by.iter().map(String::as_str).filter(|column| *column != "visitation_depth"));
    let rows = view.read(&columns)?;
    let (states, episodes) = (row::u64s(&rows, "state")?.values(), episodes(&rows)?);
    let depths = visitation_depth(states, &episodes);
    let depths = Arc::new(UInt32Array::from(depths));
    let rows = row::with(&rows, "visitation_depth", depths.clone())?;
    let mut groups = keys(&rows, by);
    let stateless: Vec<&str> = by.iter().map(String::as_str).filter(|column| !PLACE.contains(column)).collect();
    if stateless.len() < by.len() {
        let elsewhere = keys(&rows, &stateless);
        for (i, _) in reflections(&rows)?.iter().enumerate().filter(|(_, reflection)| **reflection) {
            groups[i] = mix(elsewhere[i], text(REFLECTION));
        }
    }
    if history > 0 && early == EarlyTurns::Alone {
        let (names, reflection) = (keys(&rows, &["task", "sample", "attempt", "turn", "phase"]), reflections(&rows)?);
        for i in episodes.iter().flat_map(|episode| episode.clone().take(history)).filter(|i| !reflection[*i]) {
            groups[i] = mix(groups[i], names[i]);
        }
    }
    if history > 0 {
        groups.iter_mut().zip(histories(states, &episodes, history)).for_each(|(group, history)| *group = mix(*group, history));
    }
    view.with(vec![("visitation_depth", depths), ("group", Arc::new(UInt64Array::from(groups)))])
}

/// Splits each group by likeness. Needs whole groups. The new id is a hash of the old one and the founder's text: with
/// `at_least` 1 it is the id that the column would have given as the last one in `by`.
pub fn split(batches: &[RecordBatch], similar: &Similar) -> Result<Vec<RecordBatch>, RowError> {
    let Some(view) = View::sorted(batches)? else { return Ok(vec![]) };
    let rows = view.read(&["group", "phase", &similar.column])?;
    let (groups, texts) = (row::u64s(&rows, "group")?.values(), row::texts(&rows, &similar.column)?);
    let nowhere = PLACE.contains(&similar.column.as_str());
    let reflections = if nowhere { reflections(&rows)? } else { vec![false; rows.num_rows()] };
    let shown = |i: usize| if reflections[i] { REFLECTION } else { texts.value(i) };
    let founders = founders(groups, shown, similar.at_least, similar.autojunk);
    let split = groups.iter().zip(founders).map(|(group, founder)| mix(*group, text(shown(founder as usize))));
    view.with(vec![("group", Arc::new(UInt64Array::from_iter_values(split)))])
}

/// Adds `group_size`. Needs whole groups, in any order.
pub fn measure(batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, RowError> {
    let Some(view) = View::of(batches) else { return Ok(vec![]) };
    let rows = view.read(&["group"])?;
    let sizes = sizes(row::u64s(&rows, "group")?.values());
    view.with(vec![("group_size", Arc::new(UInt32Array::from(sizes)))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, StringArray};
    use arrow::compute::take_record_batch;
    use flow_core::seed::Random;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Turns of two tasks whose observations are often equal or nearly so, in the order of their names.
    fn turns(rows: usize, seed: u64) -> RecordBatch {
        let mut random = Random::new(seed);
        let number = |value: fn(usize) -> u32| Arc::new(UInt32Array::from_iter_values((0..rows).map(value))) as ArrayRef;
        let tasks = StringArray::from_iter_values((0..rows).map(|i| if i < rows / 2 { "a" } else { "b" }));
        let observations =
            (0..rows).map(|_| format!("A {} and a {} on the table.", ["mug", "mop", "lamp"][random.below(3)], random.below(3)));
        let observations: Vec<String> = observations.collect();
        let states = UInt64Array::from_iter_values(observations.iter().map(|s| text(s)));
        row::batch(vec![
            ("task", Arc::new(tasks) as ArrayRef),
            ("sample", number(|i| i as u32 / 5)),
            ("attempt", number(|_| 0)),
            ("turn", number(|i| i as u32 % 5)),
            ("phase", Arc::new(StringArray::from(vec!["play"; rows]))),
            ("state", Arc::new(states)),
            ("observation", Arc::new(StringArray::from(observations))),
        ])
        .unwrap()
    }

    fn marked(rows: &RecordBatch, by: &[&str]) -> RecordBatch {
        let by: Vec<String> = by.iter().map(|c| c.to_string()).collect();
        mark(std::slice::from_ref(rows), &by, 0, EarlyTurns::Shared).unwrap().remove(0)
    }

    fn groups(rows: &RecordBatch) -> Vec<u64> {
        row::u64s(rows, "group").unwrap().values().to_vec()
    }

    fn alike(at_least: f64) -> Similar {
        Similar { at_least, ..Default::default() }
    }

    proptest! {
        #[test]
        fn likeness_does_not_depend_on_arrival(rows in 1usize..40, seed: u64, at_least in prop::sample::select(vec![0.8, 0.95, 1.0])) {
            let rows = marked(&turns(rows, seed), &["task"]);
            let expected = split(std::slice::from_ref(&rows), &alike(at_least)).unwrap().remove(0);
            let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
            Random::new(seed).shuffle(&mut order);
            let parts = order.chunks(7).map(|part| take_record_batch(&rows, &UInt32Array::from(part.to_vec())).unwrap());
            let actual = split(&parts.collect::<Vec<_>>(), &alike(at_least)).unwrap();
            prop_assert_eq!(row::sorted(&actual).unwrap().unwrap(), expected);
        }

        #[test]
        fn wholly_alike_is_one_column_more(rows in 1usize..40, seed: u64, autojunk: bool) {
            let rows = turns(rows, seed);
            let actual = split(&[marked(&rows, &["task"])], &Similar { at_least: 1.0, autojunk, ..Default::default() }).unwrap().remove(0);
            prop_assert_eq!(groups(&actual), groups(&marked(&rows, &["task", "observation"])));
        }
    }

    /// A task's two samples: one fails in states 1, 2, 1, reflects on it in 1, and tries again; the other one reflects,
    /// too.
    #[test]
    fn reflections_share_a_group_that_no_turn_is_in() {
        let u32s = |values: &[u32]| Arc::new(UInt32Array::from(values.to_vec())) as ArrayRef;
        let phase = ["play", "play", "play", "reflect", "play", "play", "reflect"];
        let rows = row::batch(vec![
            ("task", Arc::new(StringArray::from(vec!["a"; 7])) as ArrayRef),
            ("sample", u32s(&[0, 0, 0, 0, 0, 1, 1])),
            ("attempt", u32s(&[0, 0, 0, 0, 1, 0, 0])),
            ("turn", u32s(&[0, 1, 2, 3, 0, 0, 1])),
            ("phase", Arc::new(StringArray::from(phase.to_vec()))),
            ("state", Arc::new(UInt64Array::from(vec![1, 2, 1, 1, 1, 1, 2]))),
            ("observation", Arc::new(StringArray::from(vec!["x", "y", "x", "x", "x", "x", "y"]))),
        ])
        .unwrap();
        let same = |rows: &RecordBatch| {
            let groups = groups(rows);
            groups.iter().map(|group| groups.iter().position(|other| other == group).unwrap()).collect::<Vec<_>>()
        };
        let actual = marked(&rows, &["task", "state", "visitation_depth"]);
        assert_eq!(row::u32s(&actual, "visitation_depth").unwrap().values(), &[0, 0, 1, 0, 0, 0, 0], "an attempt begins anew");
        assert_eq!(same(&actual), [0, 1, 2, 3, 0, 0, 3]);
        assert_eq!(same(&marked(&rows, &["task", "state"])), [0, 1, 0, 3, 0, 0, 3]);
        assert_eq!(same(&marked(&rows, &["task", "attempt", "state"])), [0, 1, 0, 3, 4, 0, 3]);
        assert_eq!(same(&marked(&rows, &["task"])), [0; 7]);
        let alike = split(&[marked(&rows, &["task"])], &alike(1.0)).unwrap().remove(0);
        assert_eq!(same(&alike), [0, 1, 0, 3, 0, 0, 3]);
    }

    /// Two tasks see the same texts, all of them alike at 0.8: one group a task, and none of both.
    #[test]
    fn a_group_stays_within_its_columns() {
        let rows = marked(&turns(40, 3), &["task"]);
        let actual = split(std::slice::from_ref(&rows), &alike(0.8)).unwrap().remove(0);
        let names = row::texts(&actual, "task").unwrap();
        let groups: BTreeSet<(&str, u64)> = names.iter().flatten().zip(groups(&actual)).collect();
        assert_eq!(groups.len(), 2);
        assert_ne!(groups.first().unwrap().1, groups.last().unwrap().1);
    }

    /// Two samples of states 1, 2, 3, and a third in 5, 2, 3: by two states before its own, only the last turn of each has
    /// them. A reflection is no early turn.
    #[test]
    fn an_early_turn_is_shared_or_alone() {
        let u32s = |values: &[u32]| Arc::new(UInt32Array::from(values.to_vec())) as ArrayRef;
        let phase = ["play", "play", "play", "play", "play", "play", "reflect", "play", "play", "play", "reflect"];
        let rows = row::batch(vec![
            ("task", Arc::new(StringArray::from(vec!["a"; 11])) as ArrayRef),
            ("sample", u32s(&[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])),
            ("attempt", u32s(&[0; 11])),
            ("turn", u32s(&[0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3])),
            ("phase", Arc::new(StringArray::from(phase.to_vec()))),
            ("state", Arc::new(UInt64Array::from(vec![1, 2, 3, 1, 2, 3, 9, 5, 2, 3, 9]))),
        ])
        .unwrap();
        let sizes = |history, early| {
            let marked = mark(std::slice::from_ref(&rows), &["task", "state"].map(String::from), history, early).unwrap();
            row::u32s(&measure(&marked).unwrap()[0], "group_size").unwrap().values().to_vec()
        };
        assert_eq!(sizes(1, EarlyTurns::Shared), [2, 2, 3, 2, 2, 3, 2, 1, 1, 3, 2]);
        assert_eq!(sizes(1, EarlyTurns::Alone), [1, 2, 3, 1, 2, 3, 2, 1, 1, 3, 2]);
        assert_eq!(sizes(2, EarlyTurns::Shared), [2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2]);
        assert_eq!(sizes(2, EarlyTurns::Alone), [1, 1, 2, 1, 1, 2, 2, 1, 1, 1, 2]);
        assert_eq!(sizes(9, EarlyTurns::Alone), [1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 2]);
        assert_eq!(sizes(0, EarlyTurns::Alone), sizes(0, EarlyTurns::Shared), "nothing is asked for");
    }
}
