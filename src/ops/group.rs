//! `group`: says which rows are compared with each other. `[task]` is GRPO's group, `[task, state]` GiGPO's,
//! `[task, state, visitation_depth]` EAPO's, `[]` REINFORCE++'s whole batch, `[task]` with `similar` the alike observations
//! that GiGPO's released code can compare: settings of one operator.
//!
//! The attempts at a task share its groups unless `attempt` is in `by`, as in LaMer's code. A reflection is made in no state of the
//! game: to the columns `state`, `observation` and `visitation_depth` all reflections are alike, and like no turn of play. So
//! `[task, state]` also compares the reflections on a task with one another (LaMer's code: their anchor is the word reflection).

use super::episodes::{episodes, reflections};
use super::{must, schema, settings};
use crate::credit;
use crate::dataflow::edge::keys;
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Failed, Place, Ports, Route};
use crate::pipeline::{Delay, Need, Node, OperatorSpec, Port, Wrong};
use crate::row::{self, Kind, RowError};
use crate::seed::{mix, text};
use arrow::array::{RecordBatch, UInt32Array, UInt64Array};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `group`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Group {
    /// The columns in which the rows of a group agree, such as [task, state, visitation_depth]; [] makes one group of the whole iteration.
    /// All attempts at a task are compared unless `attempt` is among them. A reflection is made in no state, observation or
    /// visitation_depth: by these, reflections agree with one another alone.
    by: Vec<String>,
    /// Further splits these groups by texts that are alike: { column: observation, at_least: 0.95, autojunk: true }.
    similar: Option<Similar>,
}

/// A row joins the first group, in the order of the rows' names, whose first row's text is alike, else it begins one.
/// Alike is what Python's difflib.SequenceMatcher(None, row, first).ratio() says.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Similar {
    /// The column with the texts. Default: observation.
    column: String,
    /// The least ratio of two texts that are alike: above 0, and 1 means equal. Default: 0.95.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
    at_least: f64,
    /// difflib's rule for texts of 200 characters and more: no match begins with a character of which the group's first
    /// text has more than 1% and one. GiGPO's code has it on. Default: true.
    autojunk: bool,
}

impl Default for Similar {
    fn default() -> Self {
        Similar { column: "observation".into(), at_least: 0.95, autojunk: true }
    }
}

pub fn spec() -> OperatorSpec {
    OperatorSpec {
        name: "group",
        about: "says which rows are compared with each other",
        ports: &[Port {
            name: "rows",
            about: "whole episodes",
            needs: &["task", "sample", "attempt", "turn", "phase", "state"],
            optional: false,
            delay: Delay::Never,
        }],
        keeps: true,
        adds: &["visitation_depth", "group", "group_size"],
        effect: false,
        loops: false,
        settings: schema::<Group>(),
        needs,
    }
}

fn needs(with: &Value) -> Vec<Need> {
    let by = with["by"].as_array().into_iter().flatten().filter_map(Value::as_str).enumerate();
    // The depth is made here, from `state` and `turn`.
    let by = by.filter(|(_, c)| *c != "visitation_depth").map(|(i, c)| (c, ["by".into(), i.to_string()]));
    let similar = with.get("similar").filter(|s| !s.is_null());
    let column = similar.map(|s| (s["column"].as_str().unwrap_or("observation"), ["similar", "column"].map(String::from)));
    by.chain(column).map(|(column, at)| Need { port: "rows", column: column.into(), at: at.into() }).collect()
}

/// Only texts can be alike.
pub fn wrong(node: &Node) -> Option<Wrong> {
    let name = settings::<Group>(node).ok()?.similar?.column;
    let column = row::find(&name).filter(|column| column.kind != Kind::Text)?;
    let texts: Vec<&str> = row::COLUMNS.iter().filter(|c| c.kind == Kind::Text).map(|c| c.name).collect();
    Some(Wrong {
        at: ["nodes", &node.id, "with", "similar", "column"].map(String::from).to_vec(),
        message: format!("`column` must name a column of texts, and `{name}` is {}", column.kind.name()),
        help: Some(format!("texts are in {}", texts.join(", "))),
    })
}

/// A step for each view of the rows that is needed: the depth needs whole trajectories, likeness all rows that could
/// share a group, the size whole groups.
pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let Group { by, similar } = settings(node)?;
    let name = |step: &str| format!("{}{step}", node.id);
    let rows = must(&ports, "rows")?;
    let whole = Stage { name: name(""), inputs: vec![(rows, Route::by(&["task"]))], begins: false, place: Place::Worker };
    let columns = by.clone();
    let mut marked = stage(whole, ctx, move |_, rows| Ok(mark(&rows[0], &columns)?));
    if let Some(similar) = similar {
        // Comparing every text with every other can take a while, so it gets a thread.
        let inputs = vec![(marked, Route::by(&["group"]))];
        let candidates = Stage { name: name(" similar"), inputs, begins: false, place: Place::Thread };
        marked = stage(candidates, ctx, move |_, rows| Ok(split(&rows[0], &similar)?));
    }
    let groups = Stage { name: name(" sizes"), inputs: vec![(marked, Route::by(&["group"]))], begins: false, place: Place::Worker };
    Ok(stage(groups, ctx, |_, rows| Ok(measure(&rows[0])?)))
}

/// Adds `visitation_depth` and `group`, a hash of the columns in `by`.
fn mark(batches: &[RecordBatch], by: &[String]) -> Result<Vec<RecordBatch>, RowError> {
    let Some(rows) = row::sorted(batches)? else { return Ok(vec![]) };
    let depths = credit::visitation_depth(row::u64s(&rows, "state")?.values(), &episodes(&rows)?);
    let rows = row::with(&rows, "visitation_depth", Arc::new(UInt32Array::from(depths)))?;
    let mut groups = keys(&rows, by);
    let stateless: Vec<String> = by.iter().filter(|column| !PLACE.contains(&column.as_str())).cloned().collect();
    if stateless.len() < by.len() {
        let elsewhere = keys(&rows, &stateless);
        for (i, _) in reflections(&rows)?.iter().enumerate().filter(|(_, reflection)| **reflection) {
            groups[i] = mix(elsewhere[i], text(REFLECTION));
        }
    }
    Ok(vec![row::with(&rows, "group", Arc::new(UInt64Array::from(groups)))?])
}

/// Where in the game a turn was taken: what a reflection has none of.
const PLACE: [&str; 3] = ["state", "observation", "visitation_depth"];

/// The place of a reflection.
const REFLECTION: &str = "reflection";

/// Splits each group by likeness. The new id is a hash of the old one and the founder's text: with `at_least` 1 it is
/// the id that the column would have given as the last one in `by`.
fn split(batches: &[RecordBatch], similar: &Similar) -> Result<Vec<RecordBatch>, RowError> {
    let Some(rows) = row::sorted(batches)? else { return Ok(vec![]) };
    let (groups, texts) = (row::u64s(&rows, "group")?.values(), row::texts(&rows, &similar.column)?);
    let nowhere = PLACE.contains(&similar.column.as_str());
    let reflections = if nowhere { reflections(&rows)? } else { vec![false; rows.num_rows()] };
    let shown = |i: usize| if reflections[i] { REFLECTION } else { texts.value(i) };
    let founders = credit::founders(groups, shown, similar.at_least, similar.autojunk);
    let split = groups.iter().zip(founders).map(|(group, founder)| mix(*group, text(shown(founder as usize))));
    let split = UInt64Array::from_iter_values(split);
    Ok(vec![row::with(&rows, "group", Arc::new(split))?])
}

/// Adds `group_size`.
fn measure(batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, RowError> {
    let Some(rows) = row::sorted(batches)? else { return Ok(vec![]) };
    let sizes = credit::sizes(row::u64s(&rows, "group")?.values());
    Ok(vec![row::with(&rows, "group_size", Arc::new(UInt32Array::from(sizes)))?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Random;
    use arrow::array::{ArrayRef, StringArray};
    use arrow::compute::take_record_batch;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Turns of two tasks whose observations are often equal or nearly so, in the order of their names.
    fn turns(rows: usize, seed: u64) -> RecordBatch {
        let mut random = Random::new(seed);
        let number = |of: fn(usize) -> u32| Arc::new(UInt32Array::from_iter_values((0..rows).map(of))) as ArrayRef;
        let tasks = StringArray::from_iter_values((0..rows).map(|i| if i < rows / 2 { "a" } else { "b" }));
        let seen = (0..rows).map(|_| format!("A {} and a {} on the table.", ["mug", "mop", "lamp"][random.below(3)], random.below(3)));
        let seen: Vec<String> = seen.collect();
        let states = UInt64Array::from_iter_values(seen.iter().map(|s| text(s)));
        row::batch(vec![
            ("task", Arc::new(tasks) as ArrayRef),
            ("sample", number(|i| i as u32 / 5)),
            ("attempt", number(|_| 0)),
            ("turn", number(|i| i as u32 % 5)),
            ("phase", Arc::new(StringArray::from(vec!["play"; rows]))),
            ("state", Arc::new(states)),
            ("observation", Arc::new(StringArray::from(seen))),
        ])
        .unwrap()
    }

    fn marked(rows: &RecordBatch, by: &[&str]) -> RecordBatch {
        let by: Vec<String> = by.iter().map(|c| c.to_string()).collect();
        mark(std::slice::from_ref(rows), &by).unwrap().remove(0)
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
            let wanted = split(std::slice::from_ref(&rows), &alike(at_least)).unwrap().remove(0);
            let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
            Random::new(seed).shuffle(&mut order);
            let parts = order.chunks(7).map(|part| take_record_batch(&rows, &UInt32Array::from(part.to_vec())).unwrap());
            let found = split(&parts.collect::<Vec<_>>(), &alike(at_least)).unwrap().remove(0);
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn wholly_alike_is_one_column_more(rows in 1usize..40, seed: u64, autojunk: bool) {
            let rows = turns(rows, seed);
            let found = split(&[marked(&rows, &["task"])], &Similar { at_least: 1.0, autojunk, ..Default::default() }).unwrap().remove(0);
            prop_assert_eq!(groups(&found), groups(&marked(&rows, &["task", "observation"])));
        }
    }

    /// A task's two samples: one fails in states 1, 2, 1, reflects on it in 1, and tries again; the other one reflects, too.
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
        let found = marked(&rows, &["task", "state", "visitation_depth"]);
        assert_eq!(row::u32s(&found, "visitation_depth").unwrap().values(), &[0, 0, 1, 0, 0, 0, 0], "an attempt begins anew");
        assert_eq!(same(&found), [0, 1, 2, 3, 0, 0, 3]);
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
        let found = split(std::slice::from_ref(&rows), &alike(0.8)).unwrap().remove(0);
        let names = row::texts(&found, "task").unwrap();
        let groups: BTreeSet<(&str, u64)> = names.iter().flatten().zip(groups(&found)).collect();
        assert_eq!(groups.len(), 2);
        assert_ne!(groups.first().unwrap().1, groups.last().unwrap().1);
    }
}
