//! `novelty`: how often states like the one that a turn led to have been seen, over all iterations, and the reward 1/n
//! that follows (EMPO2, section 4.2: intrinsic rewards, "for each new state"). A count is maintained, never taken
//! again: of each distinct state how many were like it.
//!
//! All rows of an iteration see the same count, its own visits with it: counted one after the other, the rows of a
//! group would differ by the number of their sample alone, and dividing by the group's deviation would make an
//! advantage of that.

use super::checks::unused;
use super::memories::buckets::{unlogged, Per};
use super::memories::keys::Keyed;
use super::number_source::NumberSource;
use super::operator::{must, settings, Hooks, Operator, Settings};
use arrow::array::{ArrayRef, Float32Array, Float32Builder, ListBuilder, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field};
use flow_core::defaults::hundredths;
use flow_core::row::{self, Kind, Name, RowError, View, NAME};
use flow_credit::memory::{self, Distinct, Entry};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{feed, Context, Edge, Failed, Place, Ports, Route};
use flow_pipeline::{Mistake, Need, Node, Pipeline, Port, Role, With};
use flow_rollout::points::Pointer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `novelty`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Novelty {
    /// The meaning of n.
    #[serde(default)]
    count: Count,
    /// Which state a turn is paid for, by `count: visits`.
    #[serde(default)]
    of: Of,
    #[serde(flatten)]
    keyed: Keyed,
    /// A state is like a distinct one when the cosine of their keys is at least this; by `points: none`, when their
    /// keys are equal.
    #[serde(default = "hundredths::<f64, 90>")]
    #[schemars(range(min = 0.0, max = 1.0))]
    at_least: f64,
    /// Which states are compared.
    #[serde(default)]
    per: Per,
    /// The row that `novelty` is taken from: a control for its value. The counts stay its own.
    #[serde(default)]
    whose: NumberSource,
}

/// The meaning of n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Count {
    /// The states up to the end of the iteration that were like the same distinct state: one number for all of the
    /// iteration's rows. A state that is like none is distinct itself.
    #[default]
    Visits,
    /// One more than the entries in the prompt; 0, and no reward, in mode plain (EMPO2's released code).
    Retrieved,
}

/// The state that a turn is paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Of {
    /// The one that it led to (EMPO2, section 4.2: "for each new state"): the key of the next turn, and after an
    /// episode's last turn what the environment showed then (column `outcome`).
    #[default]
    NextState,
    /// The one that it was taken in: the start of an episode is paid for each time, and its end never.
    State,
}

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "novelty",
    about: "counts how often states like the one that a turn led to have been visited",
    role: Role::Judges,
    ports: &[Port::rows("turns", &NAME)],
    keeps: true,
    adds: &["like", "seen", "novelty", "embedding"],
    settings: Settings::of::<Novelty>(),
    outside: render,
    inside: None,
    hooks: Hooks { needs, mistakes, notes, remembers: |_| true, ..Hooks::NONE },
};

fn needs(with: &With) -> Vec<Need> {
    let need = |column: &str, at: &str| Need { port: "rows".into(), column: column.into(), at: vec![at.into()] };
    let Some(with) = with.typed::<Novelty>() else { return vec![] };
    if with.count == Count::Retrieved {
        return vec![need("mode", "count"), need("retrieved", "count")];
    }
    let mut needs = vec![need(&with.keyed.key, "key")];
    needs.extend((with.of == Of::NextState).then(|| need("outcome", "of")));
    needs
}

/// A key that is no text, and counts that a resumed run could not go on with.
fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let Ok(with) = settings::<Novelty>(node) else { return vec![] };
    let mut found = Vec::new();
    let fits: &[Kind] = if with.keyed.pointless() { &[Kind::Text, Kind::U64] } else { &[Kind::Text] };
    if let Some(column) = row::find(&with.keyed.key).filter(|column| !fits.contains(&column.kind)) {
        let message = format!("`key` can't be the column `{}`, which is {}", column.name, column.kind.name());
        found.push(Mistake::in_node(node, &["with", "key"], message).help("name a column of texts; `points: none` also compares `state`"));
    }
    if with.count == Count::Retrieved && node.with.gives("of") {
        let message = "`of` names a state, and `count: retrieved` counts entries of a memory";
        found.push(Mistake::in_node(node, &["with", "of"], message).help("leave it out, or write `count: visits`"));
    }
    found.extend(with.keyed.mistake(node));
    found.extend(unlogged(node, pipeline, "counts over iterations, and a resumed run reads its counts in the log"));
    found
}

/// Counts that no reward is made of.
fn notes(node: &Node, pipeline: &Pipeline) -> Vec<String> {
    unused::note(node, pipeline, &["novelty", "seen"]).into_iter().collect()
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Novelty>(node)?;
    // Numbers are shuffled among all rows of an iteration, whatever worker has them.
    let route = if with.whose == NumberSource::Another { Route::One } else { with.per.route() };
    let past = feed::past(&node.id, scope, ctx)?;
    let inputs = vec![(must(&ports, "rows")?, route.clone()), (past, route)];
    let pointer = with.keyed.pointer(ctx.policy.as_ref());
    let mut distinct = Distinct::new(with.at_least as f32);
    let (seed, id) = (ctx.seed, node.id.clone());
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread }, ctx, move |iteration, rows| {
        recount(&mut distinct, &rows[1], with.per)?;
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let order = with.whose.order(seed, iteration, &id, view.len());
        Ok(view.with(counted(&mut distinct, &view, &with, &pointer, &order)?)?)
    }))
}

/// The columns of an iteration's rows, row `i` with the novelty of row `order[i]`. Which states are distinct follows
/// from the order of the rows' names; how often they were seen doesn't.
fn counted(
    distinct: &mut Distinct,
    view: &View,
    with: &Novelty,
    pointer: &Pointer,
    order: &[usize],
) -> Result<Vec<(&'static str, ArrayRef)>, Failed> {
    let mut key = if with.count == Count::Retrieved { vec!["mode", "retrieved"] } else { vec![with.keyed.key.as_str()] };
    key.extend((with.count == Count::Visits && with.of == Of::NextState).then_some("outcome"));
    let rows = view.read(&row::NAME.into_iter().chain(key).collect::<Vec<_>>())?;
    let phases = row::texts(&rows, "phase")?;
    let mut like = Vec::with_capacity(view.len());
    let mut seen = Vec::with_capacity(view.len());
    let mut points = ListBuilder::new(Float32Builder::new()).with_field(Field::new("item", DataType::Float32, false));
    let keys: Option<Vec<String>> = match with.count {
        Count::Visits => Some(visited(&rows, with)?),
        Count::Retrieved => None,
    };
    let places = match &keys {
        // Different texts can have one point: by 1 only equal keys are alike.
        Some(keys) if with.keyed.pointless() || with.at_least >= 1.0 => keys.iter().map(|key| memory::exactly(key)).collect(),
        Some(keys) => pointer.points(keys.clone())?,
        None => vec![],
    };
    for i in 0..view.len() {
        let (id, n, new) = match places.get(i) {
            // What is said of an episode that is over is said in no state.
            _ if phases.value(i) != "play" => (0, 0, false),
            None => {
                let remembered = row::texts(&rows, "mode")?.value(i) == "memory";
                let count = row::u64_list(row::lists(&rows, "retrieved")?, i).len() as u32;
                (0, if remembered { count + 1 } else { 0 }, false)
            }
            Some(point) => {
                let name = Name::of(&rows, i);
                distinct.visit(with.per.bucket(&name.task), Entry::id_of(&name, 0), point)
            }
        };
        like.push(id);
        seen.push(n);
        points.values().append_slice(places.get(i).filter(|_| new).map_or(&[], Vec::as_slice));
        points.append(true);
    }
    if keys.is_some() {
        let tasks = row::texts(&rows, "task")?;
        for (i, n) in seen.iter_mut().enumerate().filter(|(_, n)| **n > 0) {
            *n = distinct.count(with.per.bucket(tasks.value(i)), like[i]);
        }
    }
    let novelty = order.iter().map(|i| if seen[*i] == 0 { 0.0 } else { 1.0 / seen[*i] as f32 });
    Ok(vec![
        ("novelty", Arc::new(Float32Array::from_iter_values(novelty)) as ArrayRef),
        ("like", Arc::new(UInt64Array::from(like))),
        ("seen", Arc::new(UInt32Array::from(seen))),
        ("embedding", Arc::new(points.finish())),
    ])
}

/// The key of the state that each row is paid for.
fn visited(rows: &RecordBatch, with: &Novelty) -> Result<Vec<String>, RowError> {
    let own: Vec<String> = (0..rows.num_rows()).map(memory::keys(rows, &with.keyed.key)?).collect();
    if with.of == Of::State {
        return Ok(own);
    }
    let (outcomes, phases) = (row::texts(rows, "outcome")?, row::texts(rows, "phase")?);
    // A reflection stands behind the turn that it goes with, so the turns of an episode aren't always neighbours.
    let mut later: Option<(usize, Name)> = None;
    let mut keys = vec![String::new(); own.len()];
    for i in (0..own.len()).rev().filter(|i| phases.value(*i) == "play") {
        let name = Name::of(rows, i);
        let next = later.as_ref().filter(|(_, n)| (&n.task, n.sample, n.attempt) == (&name.task, name.sample, name.attempt));
        // The hash of a state after the last turn isn't known, its observation is: the mark keeps it apart from hashes.
        keys[i] = match next {
            Some((j, _)) => own[*j].clone(),
            None if with.keyed.key == "state" => format!("outcome {}", outcomes.value(i)),
            None => outcomes.value(i).into(),
        };
        later = Some((i, name));
    }
    Ok(keys)
}

/// Takes up the counts that rows of before the run was stopped tell.
fn recount(distinct: &mut Distinct, past: &[RecordBatch], per: Per) -> Result<(), RowError> {
    for rows in past {
        let (like, seen, tasks) = (row::u64s(rows, "like")?, row::u32s(rows, "seen")?, row::texts(rows, "task")?);
        let points = row::lists(rows, "embedding")?;
        for i in (0..rows.num_rows()).filter(|i| seen.value(*i) > 0) {
            distinct.recount(per.bucket(tasks.value(i)), like.value(i), seen.value(i), &row::f32_list(points, i));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, StringArray};
    use flow_credit::rows::{compare, value};
    use flow_credit::AdvantageSettings;

    /// Eight samples of one task that go through the states 1, 2, 3 and end the same.
    fn eight() -> RecordBatch {
        let n = 32u32;
        let u32s = |f: &dyn Fn(u32) -> u32| Arc::new(UInt32Array::from_iter_values((0..n).map(f))) as ArrayRef;
        row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![0; 32])) as ArrayRef),
            ("task", Arc::new(StringArray::from(vec!["a"; 32]))),
            ("sample", u32s(&|i| i / 4)),
            ("attempt", u32s(&|_| 0)),
            ("turn", u32s(&|i| i % 4)),
            ("phase", Arc::new(StringArray::from(vec!["play"; 32]))),
            ("state", Arc::new(UInt64Array::from_iter_values((0..32).map(|i| i % 4)))),
            ("outcome", Arc::new(StringArray::from_iter_values((0..32).map(|i| if i % 4 == 3 { "won" } else { "" })))),
            ("reward", Arc::new(Float32Array::from_iter_values((0..32).map(|i| if i % 4 == 3 { 10.0 } else { 0.0 })))),
            ("valid", Arc::new(BooleanArray::from(vec![true; 32]))),
            ("group", Arc::new(UInt64Array::from(vec![7; 32]))),
        ])
        .unwrap()
    }

    fn with(given: serde_json::Value) -> Novelty {
        serde_json::from_value(given).unwrap()
    }

    fn column(distinct: &mut Distinct, rows: &RecordBatch, with: &Novelty) -> Vec<f32> {
        let batches = [rows.clone()];
        let pointer = Pointer::new(with.keyed.points, None, None);
        let order = with.whose.order(1, 0, "novelty", rows.num_rows());
        let made = counted(distinct, &View::sorted(&batches).unwrap().unwrap(), with, &pointer, &order).unwrap();
        made[0].1.as_any().downcast_ref::<Float32Array>().unwrap().values().to_vec()
    }

    /// Eight equal walks: each of their four states was seen eight times, so the rows of a turn are paid alike and no
    /// walk is better.
    #[test]
    fn the_number_of_a_sample_earns_nothing() {
        let with = with(serde_json::json!({ "key": "state", "points": "none" }));
        let mut distinct = Distinct::new(0.9);
        let novelty = column(&mut distinct, &eight(), &with);
        assert_eq!(novelty, [0.125; 32]);
        let reward: Vec<f32> = row::f32s(&eight(), "reward").unwrap().values().iter().zip(&novelty).map(|(r, n)| r + n).collect();
        let rows = row::with(&eight(), "reward", Arc::new(Float32Array::from(reward))).unwrap();
        let settings = AdvantageSettings::default();
        let compared = compare(&value(&[rows], &settings).unwrap(), &settings, &mut Default::default()).unwrap();
        assert_eq!(row::f32s(&compared[0], "advantage").unwrap().values(), &[0.0; 32]);
        assert_eq!(column(&mut distinct, &eight(), &with), [1.0 / 16.0; 32], "the next iteration");
    }

    /// Of two walks, 1 2 3 that ends in "won" and 1 2 that ends in "lost": by `next_state` 2 was come to twice, 3 and
    /// both ends once.
    #[test]
    fn a_turn_is_paid_for_where_it_led() {
        let u32s = |values: [u32; 5]| Arc::new(UInt32Array::from(values.to_vec())) as ArrayRef;
        let rows = row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![0; 5])) as ArrayRef),
            ("task", Arc::new(StringArray::from(vec!["a"; 5]))),
            ("sample", u32s([0, 0, 0, 1, 1])),
            ("attempt", u32s([0; 5])),
            ("turn", u32s([0, 1, 2, 0, 1])),
            ("phase", Arc::new(StringArray::from(vec!["play"; 5]))),
            ("state", Arc::new(UInt64Array::from(vec![1, 2, 3, 1, 2]))),
            ("outcome", Arc::new(StringArray::from(vec!["", "", "won", "", "lost"]))),
        ])
        .unwrap();
        let paid = |given| column(&mut Distinct::new(0.9), &rows, &with(given));
        use serde_json::json;
        assert_eq!(paid(json!({ "key": "state", "points": "none" })), [0.5, 1.0, 1.0, 0.5, 1.0]);
        assert_eq!(paid(json!({ "key": "state", "points": "none", "of": "state" })), [0.5, 0.5, 1.0, 0.5, 0.5]);
    }
}
