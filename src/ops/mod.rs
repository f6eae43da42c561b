//! The operator table: the one list of operators. Parsing, checking, the JSON Schema, `flow ops`, the engine, the log and the
//! verbs all ask it. To add an operator: one file here, one line in [`TABLE`], one pipeline that uses it.

mod advantage;
mod attempts;
mod buckets;
mod combine;
mod divergence;
mod evaluate;
mod games;
mod gpu_update;
mod group;
mod groups;
mod heads;
mod idle_clip;
mod incoming;
mod keyed;
mod memory_update;
mod misplaced;
mod novelty;
mod operator;
mod order;
mod played;
mod playing;
mod ranked;
mod reading;
mod reflect;
mod remote;
mod reward;
mod rollout;
mod select;
mod served;
mod shared;
mod tasks;
mod tokens;
mod upstream;
mod value;
mod vocabulary;

pub use games::programs;
pub use memory_update::comparing;
pub use operator::{Further, Head, Operator};
pub use remote::remote;
pub use tasks::drawn as game;
use upstream::upstream;
pub use vocabulary::words;

use crate::dataflow::Render;
use crate::pipeline::{self, Catalog, Node, Pipeline, Role, Wrong};
use crate::policy::ModelSettings;
use crate::rollout::agent::Agent;
use crate::row;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// THE operator table.
pub static TABLE: &[Operator] = &[
    tasks::OPERATOR,
    rollout::OPERATOR,
    reflect::OPERATOR,
    memory_update::OPERATOR,
    novelty::OPERATOR,
    reward::OPERATOR,
    value::OPERATOR,
    group::OPERATOR,
    advantage::OPERATOR,
    combine::OPERATOR,
    gpu_update::OPERATOR,
    evaluate::OPERATOR,
];

/// The operator called `name`.
pub fn operator(name: &str) -> Option<&'static Operator> {
    TABLE.iter().find(|o| o.name == name)
}

/// What the operator called `name` is there for; nothing for a loop, or one that there isn't.
pub fn role(name: &str) -> Option<Role> {
    operator(name).map(|o| o.role)
}

/// How the operator called `name` becomes timely.
pub fn find(name: &str) -> Option<Render> {
    operator(name).map(Operator::render)
}

/// The columns that the node's operator adds, and so logs.
pub fn adds(node: &Node) -> Vec<String> {
    operator(&node.op).map_or_else(Vec::new, |o| o.spec().columns(&node.with))
}

/// Whether the node itself has this role: a loop has none.
pub fn is(node: &Node, role: Role) -> bool {
    self::role(&node.op) == Some(role)
}

/// Whether what the node makes follows from earlier iterations too.
pub fn remembers(node: &Node) -> bool {
    operator(&node.op).is_some_and(|o| o.further.remembers)
}

/// Whether a node, or one inside it, plays episodes: what a replay doesn't do.
pub fn plays(node: &Node) -> bool {
    node.all().any(|n| is(n, Role::Plays) || is(n, Role::Measures))
}

/// Whether a node's rows are the turns of a training's rollouts, be it through a loop.
pub fn rolls_out(node: &Node) -> bool {
    node.all().any(|n| is(n, Role::Plays))
}

/// Whether the node itself plays episodes that are learnt from, and a model acts in them, not an expert.
pub fn acts(node: &Node) -> bool {
    operator(&node.op).is_some_and(|o| o.role == Role::Plays && !(o.further.expert)(&node.with))
}

/// What someone should know of a pipeline without mistakes: nodes, each with a remark.
pub fn notes(pipeline: &Pipeline) -> Vec<(String, String)> {
    let of = |node: &Node| {
        let notes = operator(&node.op).map_or_else(Vec::new, |o| (o.further.notes)(node, pipeline));
        notes.into_iter().map(|note| (node.id.clone(), note)).collect::<Vec<_>>()
    };
    pipeline.all().flat_map(of).collect()
}

/// The operator that plays a panel to measure a model.
pub fn measuring() -> &'static str {
    TABLE.iter().find(|o| o.role == Role::Measures).map_or("", |o| o.name)
}

/// The models that these nodes' settings name, each once.
pub fn models(nodes: &Value) -> BTreeSet<String> {
    let of = |node: &Value| {
        let schema = node["op"].as_str().and_then(operator).map(|o| (o.settings.schema)());
        pipeline::models(&node["with"], &schema.unwrap_or_default())
    };
    nodes.as_object().into_iter().flatten().flat_map(|(_, node)| of(node)).collect()
}

/// How many versions of the weights an iteration makes, at most.
pub fn updates(pipeline: &Pipeline) -> usize {
    pipeline.nodes.iter().filter(|n| is(n, Role::Learns)).count()
}

/// The table as the pipeline language reads it.
pub fn catalog() -> Catalog {
    Catalog {
        operators: TABLE.iter().map(Operator::spec).collect(),
        model: operator::schema::<ModelSettings>(),
        agent: operator::schema::<Agent>(),
        columns: row::COLUMNS.iter().map(|c| c.name).collect(),
        logged: Default::default(),
        wrong: |pipeline| wrong(pipeline, |_| true),
    }
}

/// The table for a pipeline that is replayed: it plays no board and no panel, so that nothing can be wrong with them, and
/// the nodes of `logged` have the columns that a log has of them.
pub fn replayed(logged: BTreeMap<String, Vec<String>>) -> Catalog {
    let judged = |pipeline: &Pipeline| wrong(pipeline, |role| !matches!(role, Role::Opens | Role::Plays | Role::Measures));
    Catalog { logged, wrong: judged, ..catalog() }
}

/// What only the operators can see, in nodes whose role is `asked`, and in how nodes fit together: settings that no board can have,
/// a panel that isn't there, likeness of what is no text, updates without an order.
fn wrong(pipeline: &Pipeline, asked: fn(Role) -> bool) -> Vec<Wrong> {
    let known = pipeline.all().filter_map(|node| Some((node, operator(&node.op)?)));
    let mut found: Vec<Wrong> = known.filter(|(_, o)| asked(o.role)).flat_map(|(node, o)| (o.further.wrong)(node, pipeline)).collect();
    if asked(Role::Opens) {
        found.extend(games::namesakes(pipeline));
    }
    found.extend(pipeline.models.keys().flat_map(|model| order::wrong(pipeline, model)));
    found.extend(heads::wrong(pipeline));
    found.extend(remote::wrong(pipeline));
    found.extend(served::wrong(pipeline));
    found.extend(shared::wrong(pipeline));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                into.push(path);
            }
        }
    }

    /// Whoever asks for a name instead of a role doesn't know the next operator. Tests aside, and names that a column has too,
    /// or a phase; what stands before a colon is a key.
    #[test]
    fn no_operator_is_known_by_its_name_outside_of_this_folder() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = Vec::new();
        sources(&root, &mut files);
        files.retain(|path| {
            !path.starts_with(root.join("ops"))
                && !["tests", "fake", "fixture"].iter().any(|name| path.file_stem().is_some_and(|stem| stem == *name))
        });
        let names: Vec<String> = TABLE
            .iter()
            .map(|o| o.name)
            .filter(|name| row::find(name).is_none() && *name != "reflect")
            .map(|name| format!("\"{name}\""))
            .collect();
        assert!(names.len() > 4 && files.len() > 50);
        let mut found = Vec::new();
        for path in files {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                let asks = |name: &String| line.match_indices(name.as_str()).any(|(at, _)| !line[at + name.len()..].starts_with(':'));
                found.extend(names.iter().filter(|name| asks(name)).map(|name| format!("{}: {name}", path.display())));
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn an_operator_is_known_by_one_name_and_a_port_too() {
        for (i, operator) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|o| o.name != operator.name), "{}", operator.name);
            let ports: Vec<&str> = operator.ports.iter().map(|p| p.name).collect();
            assert!((1..ports.len()).all(|i| !ports[..i].contains(&ports[i])), "{}: {ports:?}", operator.name);
            let alone = operator.role == Role::Measures;
            assert!(alone || operator.ports.first().is_none_or(|p| !p.optional), "the main port of {} must be fed", operator.name);
        }
    }
}
