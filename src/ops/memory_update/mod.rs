//! `memory-update`: what an agent remembers of an iteration's rows. Rows become entries; a memory is a relation whose
//! changes (an entry came, an entry left) are this operator's rows, so that its every version can be asked for. EMPO2's
//! tips, SLEA-RL's library and notes on attempts are settings of it.
//!
//! Two stages with differential dataflow between them: [`Admit`] says what contends for the places, [`relation::best`]
//! maintains who has them, [`Keep`] tells the changes, which come back to the first stage an iteration later.

mod admit;
mod keep;

use super::memories::buckets::{unlogged, Per};
use super::memories::keys::Keyed;
use super::operator::{must, port, schema, settings, Hooks, Operator, Settings};
use admit::{Admit, Admitted};
use flow_core::defaults::{hundredths, number};
use flow_core::row::{self, Kind, NAME};
use flow_credit::memory::{self, Admission, Change, Evict, ListSettings, NoveltyOf, Rescore};
use flow_dataflow::relation::{self, Contender};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{feed, Context, Edge, Failed, Figure, Lost, Place, Ports, Route};
use flow_pipeline::{Carries, Mistake, Need, Node, Pipeline, Port, Role, With};
use flow_policy::Policy;
use flow_rollout::points::{Pointer, Points};
use keep::Keep;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use timely::dataflow::operators::{ConnectLoop, Feedback};
use timely::dataflow::Scope;

/// Settings of `memory-update`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct MemoryUpdate {
    /// Which rows become entries.
    #[serde(default)]
    entries: Entries,
    /// The column with the text of an entry; of a reflection, `action` is the remark parsed from it. A row without a
    /// text makes no entry.
    #[serde(default = "action")]
    text: String,
    /// The text is read from this tag, as <tip>...</tip>; the whole column when left out.
    tag: Option<String>,
    /// The text is a list, and each line becomes an entry: how its lines are read. A line that can't be read is noted
    /// in the table `errors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<ListSettings>,
    /// The column with an entry's score.
    #[serde(default = "score")]
    score: String,
    /// A row whose score is not above this makes no entry: 0 keeps only what earned something. Every row makes one when
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    above: Option<f32>,
    /// Entry scores follow the outcomes of the episodes that retrieved the entries, whose turns come by the input
    /// `retrieved`. Scores are fixed when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rescore: Option<Rescore>,
    #[serde(flatten)]
    found: Found,
    /// The longest text that becomes an entry, in bytes; a row with a longer one is noted in the table `errors`.
    #[serde(default = "number::<usize, 4000>")]
    #[schemars(range(min = 1, max = 1_000_000))]
    longest: usize,
    #[serde(flatten)]
    admission: Admission,
}

/// How an entry is found: what a reader of the memory has to know.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct Found {
    #[serde(flatten)]
    keyed: Keyed,
    /// Which entries share a bucket, and its capacity.
    #[serde(default)]
    per: Home,
    /// By `per: cluster`: a key belongs to the first cluster with whose first entry's key it has at least this cosine;
    /// else it founds one.
    #[serde(default = "hundredths::<f32, 85>")]
    #[schemars(range(min = 0.0, max = 1.0))]
    at_least: f32,
}

/// Which rows become entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Entries {
    /// Reflections.
    #[default]
    Reflections,
    /// The last turn of each episode.
    Endings,
    /// Every turn.
    Turns,
}

/// Which entries share a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Home {
    /// Those of a task (EMPO2).
    #[default]
    Task,
    /// All.
    All,
    /// Those whose keys are alike, of whatever task (SLEA-RL).
    Cluster,
}

fn action() -> String {
    "action".into()
}
fn score() -> String {
    "score".into()
}

/// Whether these are settings of a memory whose keys have no points.
pub(super) fn pointless(with: &With) -> bool {
    with.typed::<MemoryUpdate>().is_some_and(|with| with.found.keyed.pointless())
}

/// The embedder for the keys of a memory with these settings.
pub(super) fn pointer(with: &With, policy: Option<&Policy>) -> Pointer {
    let keyed = with.typed::<MemoryUpdate>();
    keyed.map_or_else(|| Pointer::new(Points::None, None, None), |with| with.found.keyed.pointer(policy))
}

/// How alike the keys of a cluster are, where these are settings of a memory that has clusters.
pub(super) fn clustered(with: &With) -> Option<f32> {
    with.typed::<MemoryUpdate>().filter(|with| with.found.per == Home::Cluster).map(|with| with.found.at_least)
}

/// The names of the settings that a reader needs of a memory whose changes come from a log: how entries are found,
/// without the column of their keys.
pub fn comparing() -> Vec<String> {
    let schema = schema::<Found>();
    let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone());
    names.filter(|name| name != "key").collect()
}

/// The port of the turns that retrieved entries.
const RETRIEVED: &str = "retrieved";

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "memory-update",
    about: "keeps a memory of entries made from rows: versioned, and read by later iterations",
    role: Role::Remembers,
    ports: &[
        Port::rows("the rows that entries are made of", &NAME),
        Port::new(
            RETRIEVED,
            "turns whose prompts had entries of it: with `rescore`, the outcomes of their episodes move the scores of those entries",
            Carries::Rows,
            &["iteration", "task", "sample", "attempt", "turn", "phase", "retrieved"],
        )
        .optional(),
    ],
    keeps: false,
    adds: memory::COLUMNS,
    settings: Settings::of::<MemoryUpdate>(),
    outside: render,
    inside: None,
    hooks: Hooks { needs, mistakes, remembers: |_| true, ..Hooks::NONE },
};

fn needs(with: &With) -> Vec<Need> {
    let need =
        |column: &str, at: &[&str]| Need { port: "rows".into(), column: column.into(), at: at.iter().map(|s| s.to_string()).collect() };
    let Some(with) = with.typed::<MemoryUpdate>() else { return vec![] };
    let named = [("text", &with.text), ("key", &with.found.keyed.key), ("score", &with.score)];
    let mut needs: Vec<Need> = named.map(|(setting, column)| need(column, &[setting])).into();
    needs.extend(with.rescore.as_ref().map(|rescore| Need { port: RETRIEVED.into(), ..need(&rescore.of, &["rescore", "of"]) }));
    match with.entries {
        Entries::Endings => needs.push(need("done", &["entries"])),
        Entries::Turns => {}
        Entries::Reflections => needs.push(need("valid", &["entries"])),
    }
    needs
}

/// Columns that hold no text or no number, and settings that nothing reads.
fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let Ok(with) = settings::<MemoryUpdate>(node) else { return vec![] };
    let (mut found, mut wrongs_of_inputs) = (Vec::new(), Vec::new());
    let mut at = |setting: &str, message: String, help: &str| found.push(Mistake::in_node(node, &["with", setting], message).help(help));
    let kind = row::kind;
    for (setting, column, fits) in [
        ("text", &with.text, &[Kind::Text][..]),
        ("key", &with.found.keyed.key, &[Kind::Text, Kind::U64]),
        ("score", &with.score, &[Kind::F32]),
    ] {
        if let Some(kind) = kind(column).filter(|kind| !fits.contains(kind)) {
            let help = if setting == "score" { "name a column of f32, such as `score` or `reward`" } else { "name a column of texts" };
            at(setting, format!("`{setting}` can't be the column `{column}`, which is {}", kind.name()), help);
        }
    }
    let rescored = node.inputs.iter().any(|input| input.port == RETRIEVED);
    if with.rescore.is_some() && !rescored {
        at(
            "rescore",
            "`rescore` moves the scores of entries that turns retrieved, and no turns come in".into(),
            "connect them: `inputs: { rows: ..., retrieved: rollout }`",
        );
    }
    if with.rescore.is_none() && rescored {
        let message = "scores don't move: the input `retrieved` is read by `rescore` alone";
        wrongs_of_inputs
            .push(Mistake::in_node(node, &["inputs", RETRIEVED], message).help("write `rescore: {}` into `with`, or leave the input out"));
    }
    if let Some(kind) = with.rescore.as_ref().and_then(|rescore| kind(&rescore.of)).filter(|kind| *kind != Kind::F32) {
        at("rescore", format!("`of` can't be a column that is {}", kind.name()), "name a column of f32, such as `score` or `reward`");
    }
    let admission = &with.admission;
    if admission.novelty.is_some() && admission.novelty_of != NoveltyOf::Text && with.found.keyed.pointless() {
        let help = "leave `points: none` out, or write `novelty_of: text`, or leave `novelty` out";
        at("novelty", "`novelty` compares points of keys, and by `points: none` there are none".into(), help);
    }
    if admission.novelty.is_none() && node.with.gives("novelty_of") {
        at(
            "novelty_of",
            "`novelty_of` says what `novelty` compares, and there is none".into(),
            "give `novelty`, such as 0.85, or leave it out",
        );
    }
    let kinds = with.list.as_ref().map_or(&[][..], |list| &list.kinds);
    if let Some(stranger) = admission.capacities.keys().find(|kind| !kinds.contains(kind)) {
        let message = format!("`capacities` has room for the kind `{stranger}`, and no entry is of it");
        at("capacities", message, "name one of the kinds of `list`, such as `list: { kinds: [strategy, warning] }`");
    }
    if with.found.per == Home::Cluster && with.found.keyed.pointless() {
        at(
            "per",
            "clusters are of keys that are alike, and by `points: none` none are".into(),
            "leave `points: none` out, or write `per: task` or `per: all`",
        );
    }
    if with.found.per != Home::Cluster && node.with.gives("at_least") {
        at(
            "at_least",
            "`at_least` says how alike the keys of a cluster are, and there are none".into(),
            "write `per: cluster`, or leave it out",
        );
    }
    if with.admission.evict == Evict::Oldest && node.with.gives("ties") {
        at("ties", "`ties` has no meaning where the oldest leave: no two are of one age".into(), "leave it out, or write `evict: lowest`");
    }
    found.extend(wrongs_of_inputs);
    found.extend(with.found.keyed.mistake(node));
    found.extend(unlogged(node, pipeline, "remembers, and a resumed run reads what it remembered in the log"));
    found
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = MemoryUpdate::clone(&*settings(node)?);
    let route = if with.found.per == Home::Task { Per::Task.route() } else { Per::All.route() };
    let first = ctx.first;
    let past = feed::past(&node.id, scope, ctx)?;
    let (handle, back) = scope.feedback(1);
    ctx.shared.watch.name(&back, format!("{} of an earlier iteration", node.id));
    let mut inputs = vec![(must(&ports, "rows")?, route.clone()), (back, Route::Stay), (past, route.clone())];
    inputs.extend(port(&ports, RETRIEVED).map(|turns| (turns, route)));
    let pointer = with.found.keyed.pointer(ctx.policy.as_ref());
    let mut admit = Admit::new(pointer, with, ctx.iterations);
    let (shared, id) = (ctx.shared.clone(), node.id.clone());
    let admits = Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread };
    let contenders = stage(admits, ctx, move |iteration, rows| {
        let Admitted { contenders, long } = admit.iteration(iteration, &rows)?;
        shared.lose(iteration, long.into_iter().map(|lost| Lost { node: id.clone(), ..lost }));
        let (contenders, entries): (Vec<Contender>, Vec<Change>) = contenders.into_iter().unzip();
        Ok(vec![Contender::rows(&contenders, Some(&memory::table(&entries)?))?])
    });
    let places = relation::best(contenders.clone());
    let (shared, id) = (ctx.shared.clone(), node.id.clone());
    let mut keep = Keep::default();
    let inputs = vec![(contenders, Route::Stay), (places, Route::Stay)];
    let keeps = Stage { name: format!("the changes of {}", node.id), inputs, begins: false, place: Place::Worker };
    let changes = stage(keeps, ctx, move |iteration, rows| {
        let changes = keep.iteration(iteration, &rows)?;
        // Entries of the stopped run are no changes.
        if iteration < first {
            return Ok(vec![]);
        }
        for (name, size) in keep.sizes() {
            shared.add(iteration, &id, &name, Figure::Sum(size as f64));
        }
        if changes.is_empty() {
            return Ok(vec![]);
        }
        let count = |sign: i32| changes.iter().filter(|change| change.change == sign).count();
        // An entry that left and came at once has got another score.
        let rescored = changes.windows(2).filter(|pair| pair[0].entry.id == pair[1].entry.id).count();
        for (name, count) in [("added", count(1) - rescored), ("removed", count(-1) - rescored), ("rescored", rescored)] {
            shared.add(iteration, &id, name, Figure::Sum(count as f64));
        }
        Ok(vec![memory::table(&changes)?])
    });
    changes.clone().connect_loop(handle);
    Ok(changes)
}
