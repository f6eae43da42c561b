//! `cluster`: which of the things seen so far an observation is like: the column `cluster`, by prototypes that last
//! over all iterations (SLEA-RL, section 3.2: an observation joins the first cluster whose prototype is similar enough,
//! else founds one).
//!
//! "First" goes by the names of the rows that founded the clusters, so they are the same on any number of workers and
//! processes. Of each row that founded one the column `prototype` has the key, and the rows of the node are all that
//! its clusters follow from: a resumed run reads them in the log, a query asks them with `clusters_at(iteration)`. The
//! column `linked` has the entries of a memory that a turn brought to its cluster: "the retrieved experiences are
//! linked to the cluster for future reuse" (section 3.2).

use super::checks::unused;
use super::memories::buckets::{unlogged, Per};
use super::memories::keys::Keyed;
use super::operator::{must, settings, Hooks, Operator, Settings};
use arrow::array::{ArrayRef, AsArray, ListBuilder, RecordBatch, StringArray, UInt64Array, UInt64Builder};
use arrow::datatypes::{DataType, Field, UInt64Type};
use flow_core::defaults::hundredths;
use flow_core::row::{self, Kind, Name, View, NAME};
use flow_credit::memory::Entry;
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{feed, Context, Edge, Failed, Place, Ports};
use flow_pipeline::{Mistake, Need, Node, Pipeline, Port, Role, With};
use flow_policy::Policy;
use flow_rollout::clustering::{ClusterKey, Compare, ObservationClusters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `cluster`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ClusterSettings {
    #[serde(flatten)]
    keyed: Keyed,
    /// How a key is compared with a prototype.
    #[serde(default)]
    compare: Compare,
    /// A key joins the first cluster whose prototype it is like by at least this: a cosine, or a ratio of matching
    /// characters; by 1 only if it is equal.
    #[serde(default = "hundredths::<f64, 85>")]
    #[schemars(range(min = 0.0, max = 1.0))]
    at_least: f64,
    /// Which keys are compared: those of all tasks, or of each task by itself.
    #[serde(default = "all")]
    per: Per,
}

fn all() -> Per {
    Per::All
}

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "cluster",
    about: "assigns each observation to a cluster of similar ones; clusters last over all iterations",
    role: Role::Judges,
    ports: &[Port::rows("turns", &NAME)],
    keeps: true,
    adds: &["cluster", "prototype", "linked"],
    settings: Settings::of::<ClusterSettings>(),
    outside: render,
    inside: None,
    hooks: Hooks { needs, mistakes, notes, remembers: |_| true, ..Hooks::NONE },
};

fn needs(with: &With) -> Vec<Need> {
    let Some(with) = with.typed::<ClusterSettings>() else { return vec![] };
    vec![Need { port: "rows".into(), column: with.keyed.key.clone(), at: vec!["key".into()] }]
}

/// A key that is no text, settings that nothing reads, and clusters that a resumed run could not go on with.
fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let Ok(with) = settings::<ClusterSettings>(node) else { return vec![] };
    let mut mistakes = Vec::new();
    let mut at = |setting: &str, message: String, help: &str| mistakes.push(Mistake::in_node(node, &["with", setting], message).help(help));
    if let Some(kind) = row::kind(&with.keyed.key).filter(|kind| *kind != Kind::Text) {
        at("key", format!("`key` can't be the column `{}`, which is {}", with.keyed.key, kind.name()), "name a column of texts");
    }
    if with.compare == Compare::Ratio && node.with.gives("points") {
        at("points", "`points` are compared by their cosine, and `compare: ratio` compares characters".into(), "leave one of the two out");
    }
    if with.compare == Compare::Ratio && with.at_least == 0.0 {
        at("at_least", "by a ratio of 0 all texts are alike".into(), "write a number above 0");
    }
    mistakes.extend(with.keyed.mistake(node));
    mistakes.extend(unlogged(node, pipeline, "clusters over iterations, and a resumed run reads its prototypes in the log"));
    mistakes
}

/// Clusters that serve neither credit nor retrieval.
fn notes(node: &Node, pipeline: &Pipeline) -> Vec<String> {
    unused::note(node, pipeline, &["cluster"]).into_iter().collect()
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = ClusterSettings::clone(&*settings::<ClusterSettings>(node)?);
    let route = with.per.route();
    let past = feed::past(&node.id, scope, ctx)?;
    let inputs = vec![(must(&ports, "rows")?, route.clone()), (past, route)];
    let (mut clusters, mut links) = (with.clusters(ctx.policy.as_ref()), Links::default());
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread }, ctx, move |_, rows| {
        clusters.take_up(&rows[1])?;
        links.take_up(&rows[1])?;
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let mut columns = join(&mut clusters, &view, &with)?;
        columns.push(("linked", links.of(&view, &columns[0].1)?));
        Ok(view.with(columns)?)
    }))
}

impl ClusterSettings {
    fn clusters(&self, policy: Option<&Policy>) -> ObservationClusters {
        ObservationClusters::new(self.compare, self.at_least, self.keyed.pointer(policy), self.per == Per::Task)
    }
}

/// The entries that turns of each cluster have been given so far.
#[derive(Default)]
struct Links(BTreeSet<(u64, u64)>);

impl Links {
    /// Takes up what earlier rows of the node brought.
    fn take_up(&mut self, rows: &[RecordBatch]) -> Result<(), Failed> {
        for rows in rows {
            let (clusters, linked) = (row::u64s(rows, "cluster")?, row::lists(rows, "linked")?);
            for i in 0..rows.num_rows() {
                self.0.extend(row::u64_list(linked, i).iter().map(|id| (clusters.value(i), *id)));
            }
        }
        Ok(())
    }

    /// The column `linked` of an iteration's rows, in the order of their names; empty lists where rows aren't given
    /// entries of a memory.
    fn of(&mut self, view: &View, clusters: &ArrayRef) -> Result<ArrayRef, Failed> {
        let mut column = ListBuilder::new(UInt64Builder::new()).with_field(Field::new("item", DataType::UInt64, false));
        let retrieved = view.has("retrieved").then(|| view.lists("retrieved")).transpose()?;
        let clusters = clusters.as_primitive::<UInt64Type>();
        for i in 0..view.len() {
            let cluster = clusters.value(i);
            for id in retrieved.as_ref().filter(|_| cluster != 0).map_or(&[][..], |lists| lists.get::<UInt64Type>(i)) {
                if self.0.insert((cluster, *id)) {
                    column.values().append_value(*id);
                }
            }
            column.append(true);
        }
        Ok(Arc::new(column.finish()))
    }
}

/// Whether the node maintains clusters.
pub(super) fn maintains(node: &Node) -> bool {
    node.op == OPERATOR.name
}

/// The clusters that the node maintains, none of them founded yet.
pub(super) fn clusters(node: &Node, policy: Option<&Policy>) -> Option<ObservationClusters> {
    let with = Some(node).filter(|node| maintains(node)).and_then(|node| settings::<ClusterSettings>(node).ok())?;
    Some(with.clusters(policy))
}

/// The columns of an iteration's rows, which come in the order of their names. A reflection is made in no state, and
/// what shows nothing is like nothing: their cluster is 0.
fn join(clusters: &mut ObservationClusters, view: &View, with: &ClusterSettings) -> Result<Vec<(&'static str, ArrayRef)>, Failed> {
    let rows = view.read(&row::NAME.into_iter().chain([with.keyed.key.as_str()]).collect::<Vec<_>>())?;
    let (phases, texts) = (row::texts(&rows, "phase")?, row::texts(&rows, &with.keyed.key)?);
    let seen: Vec<usize> = (0..rows.num_rows()).filter(|i| phases.value(*i) == "play" && !texts.value(*i).is_empty()).collect();
    let tasks = row::texts(&rows, "task")?;
    let id = |i: usize| Entry::id_of(&Name::of(&rows, i), 0).max(1);
    let key = |i: &usize| ClusterKey { task: tasks.value(*i), id: id(*i), text: texts.value(*i) };
    let joined = clusters.join(&seen.iter().map(key).collect::<Vec<_>>())?;
    let (mut ids, mut prototypes) = (vec![0; rows.num_rows()], vec![""; rows.num_rows()]);
    for (i, (id, founded)) in seen.into_iter().zip(joined) {
        ids[i] = id;
        prototypes[i] = if founded { texts.value(i) } else { "" };
    }
    Ok(vec![("cluster", Arc::new(UInt64Array::from(ids)) as ArrayRef), ("prototype", Arc::new(StringArray::from(prototypes)))])
}
