//! `novelty`: how often states like a turn's have been seen before, over all iterations, and the reward 1/n that follows (EMPO2, section
//! 4.2: intrinsic rewards). A count is maintained, never taken again: of each distinct state how many were like it.

use super::buckets::{unlogged, Per};
use super::keyed::Keyed;
use super::operator::{must, settings, Further, Operator, Settings};
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{feed, Context, Edge, Failed, Place, Ports};
use crate::memory::{self, Distinct, Entry};
use crate::pipeline::{Carries, Delay, Need, Node, Pipeline, Port, Role, With, Wrong};
use crate::rollout::points::Pointer;
use crate::row::{self, Kind, Name, RowError, View};
use arrow::array::{ArrayRef, Float32Array, Float32Builder, ListBuilder, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `novelty`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Novelty {
    /// What n counts.
    #[serde(default)]
    count: Count,
    #[serde(flatten)]
    keyed: Keyed,
    /// A state is like a distinct one when the cosine of their keys is at least this; by `points: none`, when their keys are equal.
    #[serde(default = "at_least")]
    #[schemars(range(min = 0.0, max = 1.0))]
    at_least: f64,
    /// Which states are compared.
    #[serde(default)]
    per: Per,
}

/// What n counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Count {
    /// The states so far, this one with them, that were like the same distinct state. A state that is like none is distinct itself.
    #[default]
    Visits,
    /// One more than the entries that the prompt told; 0, and no reward, in mode plain (EMPO2's released code).
    Retrieved,
}

fn at_least() -> f64 {
    0.9
}

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "novelty",
    about: "says how often states like a turn's have been seen before",
    role: Role::Judges,
    ports: &[Port {
        name: "rows",
        about: "turns",
        carries: Carries::Rows,
        needs: &["iteration", "task", "sample", "attempt", "turn", "phase"],
        optional: false,
        delay: Delay::Never,
    }],
    keeps: true,
    adds: &["like", "seen", "novelty", "embedding"],
    settings: Settings::of::<Novelty>(),
    outside: render,
    inside: None,
    further: Further { needs, wrong, remembers: true, ..Further::NOTHING },
};

fn needs(with: &With) -> Vec<Need> {
    let need = |column: &str, at: &str| Need { port: "rows".into(), column: column.into(), at: vec![at.into()] };
    let Some(with) = with.typed::<Novelty>() else { return vec![] };
    if with.count == Count::Retrieved {
        return vec![need("mode", "count"), need("retrieved", "count")];
    }
    vec![need(&with.keyed.key, "key")]
}

/// A key that is no text, and counts that a resumed run could not go on with.
fn wrong(node: &Node, pipeline: &Pipeline) -> Vec<Wrong> {
    let Ok(with) = settings::<Novelty>(node) else { return vec![] };
    let mut found = Vec::new();
    let fits: &[Kind] = if with.keyed.pointless() { &[Kind::Text, Kind::U64] } else { &[Kind::Text] };
    if let Some(column) = row::find(&with.keyed.key).filter(|column| !fits.contains(&column.kind)) {
        let message = format!("`key` can't be the column `{}`, which is {}", column.name, column.kind.name());
        found.push(Wrong::in_node(node, &["with", "key"], message).help("name a column of texts; `points: none` also compares `state`"));
    }
    found.extend(with.keyed.wrong(node));
    found.extend(unlogged(node, pipeline, "counts over iterations, and a resumed run reads its counts in the log"));
    found
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Novelty>(node)?;
    let route = with.per.route();
    let past = feed::past(&node.id, scope, ctx)?;
    let inputs = vec![(must(&ports, "rows")?, route.clone()), (past, route)];
    let pointer = with.keyed.pointer(ctx);
    let mut distinct = Distinct::new(with.at_least as f32);
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread }, ctx, move |_, rows| {
        recount(&mut distinct, &rows[1], with.per)?;
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        Ok(view.with(counted(&mut distinct, &view, &with, &pointer)?)?)
    }))
}

/// The columns of an iteration's rows, counted in the order of their names.
fn counted(distinct: &mut Distinct, view: &View, with: &Novelty, pointer: &Pointer) -> Result<Vec<(&'static str, ArrayRef)>, Failed> {
    let key = if with.count == Count::Retrieved { vec!["mode", "retrieved"] } else { vec![with.keyed.key.as_str()] };
    let rows = view.read(&row::NAME.into_iter().chain(key).collect::<Vec<_>>())?;
    let phases = row::texts(&rows, "phase")?;
    let mut like = Vec::with_capacity(view.len());
    let mut seen = Vec::with_capacity(view.len());
    let mut points = ListBuilder::new(Float32Builder::new()).with_field(Field::new("item", DataType::Float32, false));
    let keys: Option<Vec<String>> = match with.count {
        Count::Visits => Some((0..view.len()).map(memory::keys(&rows, &with.keyed.key)?).collect()),
        Count::Retrieved => None,
    };
    let places = match &keys {
        Some(keys) if with.keyed.pointless() => keys.iter().map(|key| memory::exactly(key)).collect(),
        Some(keys) => pointer.points(keys.clone())?,
        None => vec![],
    };
    for i in 0..view.len() {
        let (id, n, founded) = match places.get(i) {
            // What is said of an episode that is over is said in no state.
            _ if phases.value(i) != "play" => (0, 0, None),
            None => {
                let asked = row::texts(&rows, "mode")?.value(i) == "memory";
                let count = row::u64_list(row::lists(&rows, "retrieved")?, i).len() as u32;
                (0, if asked { count + 1 } else { 0 }, None)
            }
            Some(point) => {
                let name = Name::of(&rows, i);
                distinct.visit(with.per.bucket(&name.task), Entry::id_of(&name), point.clone())
            }
        };
        like.push(id);
        seen.push(n);
        points.values().append_slice(founded.unwrap_or_default());
        points.append(true);
    }
    let novelty = seen.iter().map(|n| if *n == 0 { 0.0 } else { 1.0 / *n as f32 });
    Ok(vec![
        ("novelty", Arc::new(Float32Array::from_iter_values(novelty)) as ArrayRef),
        ("like", Arc::new(UInt64Array::from(like))),
        ("seen", Arc::new(UInt32Array::from(seen))),
        ("embedding", Arc::new(points.finish())),
    ])
}

/// Takes up the counts that rows of before the run was stopped tell.
fn recount(distinct: &mut Distinct, past: &[RecordBatch], per: Per) -> Result<(), RowError> {
    for rows in past {
        let (like, seen, tasks) = (row::u64s(rows, "like")?, row::u32s(rows, "seen")?, row::texts(rows, "task")?);
        let points = row::lists(rows, "embedding")?;
        for i in (0..rows.num_rows()).filter(|i| seen.value(*i) > 0) {
            distinct.recount(per.bucket(tasks.value(i)), like.value(i), seen.value(i), row::f32_list(points, i));
        }
    }
    Ok(())
}
