//! The operator table: the one list of operators. Parsing, checking, the JSON Schema, `flow ops`, the engine, the log
//! and the verbs all ask it. To add an operator: one file here, one line in [`TABLE`], one pipeline that uses it. What
//! several operators share, and the rules for how they fit together, stand in folders of their own.

mod checks;
pub mod episodes;
mod examples;
mod games;
mod memories;
mod number_source;
mod operator;
mod python;

mod advantage;
mod cluster;
mod combine;
mod concat;
mod derive;
mod evaluate;
mod extract;
mod gpu_update;
mod group;
pub mod import;
mod memory_update;
mod novelty;
mod reflect;
mod reward;
mod rewrite;
mod rollback;
mod rollout;
mod score;
mod sizes;
mod tasks;
mod value;

pub use checks::remote::remote;
pub use episodes::figures::known as episode_metric;
pub use evaluate::Measurement;
pub use games::{games, played, programs, words};
pub use memories::reading::{begin as begin_reading, delayed, of as reading};
pub use memory_update::comparing;
pub use operator::{Hooks, Operator, RequiredHead};
pub use python::{functions_may_run, run_code};
pub use rollout::{chooses_tasks, samples};
pub use tasks::drawn as game;
pub use tasks::Draw;

use checks::foreign_weights::{self, unconnected};
use checks::{acting, by_name, heads, served, shared, tinker, update_order};
use flow_core::row;
use flow_dataflow::Render;
use flow_env::process::Programs;
use flow_model::ModelSettings;
use flow_pipeline::{Catalog, Code, Mistake, Node, Pipeline, Role};
use flow_rollout::action::Decode;
use flow_rollout::agent::{Agent, PromptLayout};
use flow_rollout::context::PassageSlot;
use flow_rollout::player::Play;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// THE operator table.
pub static TABLE: &[Operator] = &[
    tasks::OPERATOR,
    rollout::OPERATOR,
    import::OPERATOR,
    reflect::OPERATOR,
    extract::OPERATOR,
    memory_update::OPERATOR,
    cluster::OPERATOR,
    novelty::OPERATOR,
    rollback::OPERATOR,
    rewrite::OPERATOR,
    score::OPERATOR,
    reward::OPERATOR,
    value::OPERATOR,
    derive::OPERATOR,
    python::OPERATOR,
    group::OPERATOR,
    advantage::OPERATOR,
    concat::OPERATOR,
    combine::OPERATOR,
    gpu_update::OPERATOR,
    evaluate::OPERATOR,
];

/// The operator called `name`.
pub fn operator(name: &str) -> Option<&'static Operator> {
    TABLE.iter().find(|o| o.name == name)
}

/// The role of the operator called `name`; none for a loop or an unknown operator.
pub fn role(name: &str) -> Option<Role> {
    operator(name).map(|o| o.role)
}

/// How the operator called `name` is rendered.
pub fn find(name: &str) -> Option<Render> {
    operator(name).map(Operator::render)
}

/// The columns that the node's operator adds, and so logs.
pub fn adds(node: &Node) -> Vec<String> {
    operator(&node.op).map_or_else(Vec::new, |o| o.spec().columns(&node.with))
}

/// Whether the node itself has this role; a loop has none.
pub fn is(node: &Node, role: Role) -> bool {
    self::role(&node.op) == Some(role)
}

/// Whether an update trains this model. A model that nothing trains acts with version 0, whatever update its node waits
/// for.
pub fn trained(pipeline: &Pipeline, model: &str) -> bool {
    pipeline.all().any(|node| is(node, Role::Learns) && node.model() == Some(model))
}

/// Whether the node keeps state over iterations.
pub fn remembers(node: &Node) -> bool {
    operator(&node.op).is_some_and(|o| (o.hooks.remembers)(&node.with))
}

/// Whether a node, or one inside it, plays episodes, which a replay doesn't.
pub fn plays(node: &Node) -> bool {
    node.all().any(|n| is(n, Role::Plays) || is(n, Role::Measures))
}

/// Whether a node's rows are turns of training rollouts, directly or through a loop.
pub fn rolls_out(node: &Node) -> bool {
    node.all().any(|n| is(n, Role::Plays))
}

/// Whether a replay takes the node's rows from the log: those of an expert's reflections can be made again.
pub fn replayed_from_log(node: &Node) -> bool {
    let expert = operator(&node.op).is_some_and(|o| (o.hooks.expert)(&node.with));
    rolls_out(node) || is(node, Role::Reflects) && !expert
}

/// The nodes whose rows a replay takes from the log, and which the pipeline doesn't log.
pub fn unlogged(pipeline: &Pipeline) -> Vec<&str> {
    let lacks = |node: &&Node| replayed_from_log(node) && !pipeline.log.contains(&node.id);
    pipeline.nodes.iter().filter(lacks).map(|node| node.id.as_str()).collect()
}

/// Whether the node itself plays training episodes with a model, not an expert.
pub fn acts(node: &Node) -> bool {
    operator(&node.op).is_some_and(|o| o.role == Role::Plays && !(o.hooks.expert)(&node.with))
}

/// How a node itself plays training episodes with a model; none of another node.
pub fn play(node: &Node) -> Option<Play> {
    acts(node).then(|| rollout::played(node)).flatten()
}

/// Whether the node learns from rewards of actions: not what an expert did, and no values.
pub fn learns_from_rewards(node: &Node) -> bool {
    is(node, Role::Learns) && gpu_update::learns_from_rewards(node)
}

/// What an agent of a node gives its model to read.
pub struct AgentMessages {
    /// The node.
    pub node: String,
    /// The model.
    pub model: String,
    /// Whether it begins with a system message.
    pub system: bool,
    /// Whether further messages follow after an answer.
    pub conversation: bool,
    /// Where the agent stands in the node's settings.
    pub place: &'static [&'static str],
    /// Whether anything can be written, and the most tokens of it.
    pub free: bool,
    pub max_tokens: usize,
}

/// The agents that play or reflect in a node, by their models' prompts.
pub fn agents(node: &Node) -> Vec<AgentMessages> {
    let settings = node.with.raw();
    let own: [(&Value, &[&str], bool); 2] =
        [(&settings["agent"], &["agent"], true), (&settings["reflect"]["agent"], &["reflect", "agent"], false)];
    let messages = |(agent, place, plays): (&Value, &'static [&'static str], bool)| {
        let agent: Agent = serde_json::from_value(agent.clone()).ok()?;
        let remembers = agent
            .memories()
            .any(|memory| memory.place == PassageSlot::System && node.inputs.iter().any(|input| input.port == memory.memory));
        Some(AgentMessages {
            node: node.id.clone(),
            system: agent.system.is_some() || remembers,
            conversation: plays && agent.layout == PromptLayout::Chat,
            place,
            free: !(plays && self::plays(node)) || agent.decode == Decode::Free,
            max_tokens: agent.max_tokens,
            model: agent.model,
        })
    };
    own.into_iter().filter_map(messages).collect()
}

/// Advice on a valid pipeline: nodes, each with a remark.
pub fn notes(pipeline: &Pipeline) -> Vec<(String, String)> {
    let notes_of = |node: &Node| {
        let notes = operator(&node.op).map_or_else(Vec::new, |o| (o.hooks.notes)(node, pipeline));
        notes.into_iter().map(|note| (node.id.clone(), note)).collect::<Vec<_>>()
    };
    pipeline.all().flat_map(notes_of).collect()
}

/// The tasks that a node brings, if it draws them and no program has to be asked which there are.
pub fn draw(node: &Node, seed: u64) -> Option<Draw> {
    let game = (operator(&node.op).filter(|o| o.role == Role::Opens)?.hooks.game)(node).ok()??;
    game.program().is_none().then(|| Draw::new(node, seed, &Programs::default()).ok())?
}

/// The operator that evaluates a model on a panel.
pub fn measuring() -> &'static str {
    TABLE.iter().find(|o| o.role == Role::Measures).map_or("", |o| o.name)
}

/// The operator that stands for imported rows.
pub fn importing() -> &'static Operator {
    &import::OPERATOR
}

/// The models that these nodes' settings name, each once.
pub fn models(nodes: &Value) -> BTreeSet<String> {
    let models_of = |node: &Value| {
        let schema = node["op"].as_str().and_then(operator).map(|o| (o.settings.schema)());
        flow_pipeline::models(&node["with"], &schema.unwrap_or_default())
    };
    nodes.as_object().into_iter().flatten().flat_map(|(_, node)| models_of(node)).collect()
}

/// The number of updates in an iteration.
pub fn updates(pipeline: &Pipeline) -> usize {
    pipeline.nodes.iter().filter(|n| is(n, Role::Learns)).count()
}

/// The catalog of operators for the pipeline language.
pub fn catalog() -> Catalog {
    Catalog {
        operators: TABLE.iter().map(Operator::spec).collect(),
        model: operator::schema::<ModelSettings>(),
        agent: operator::schema::<Agent>(),
        columns: row::COLUMNS.iter().map(|c| c.name).collect(),
        text: |name| row::kind(name) == Some(row::Kind::Text),
        logged: Default::default(),
        mistakes: |pipeline| mistakes(pipeline, |_| true),
    }
}

/// The catalog for a pipeline that is replayed: nothing is played, so the nodes that play aren't checked, and the nodes
/// of `logged` have the columns of the log.
pub fn replayed(logged: BTreeMap<String, Vec<String>>) -> Catalog {
    let judged = |pipeline: &Pipeline| mistakes(pipeline, |role| !matches!(role, Role::Opens | Role::Plays | Role::Measures));
    Catalog { logged, mistakes: judged, ..catalog() }
}

/// Finds the mistakes of a pipeline.
type Check = fn(&Pipeline) -> Vec<Mistake>;

/// The checks that span several nodes, each with the kind of its mistakes.
const SPANNING: [(Code, Check); 9] = [
    (Code::Head, heads::mistakes),
    (Code::Remote, checks::remote::mistakes),
    (Code::Name, by_name::readers),
    (Code::Size, sizes::mistakes),
    (Code::Served, served::mistakes),
    (Code::Tinker, tinker::mistakes),
    (Code::Shared, shared::mistakes),
    (Code::Acting, acting::mistakes),
    (Code::Weights, foreign_weights::mistakes),
];

/// The checks of operators, for nodes whose role `applies`, and checks that span several nodes.
fn mistakes(pipeline: &Pipeline, applies: fn(Role) -> bool) -> Vec<Mistake> {
    let known = pipeline.all().filter_map(|node| Some((node, operator(&node.op)?)));
    let own =
        |(node, o): (&Node, &Operator)| [(o.hooks.mistakes)(node, pipeline), unconnected(node, pipeline).into_iter().collect()].concat();
    let mut mistakes: Vec<Mistake> = known.filter(|(_, o)| applies(o.role)).flat_map(own).collect();
    if applies(Role::Opens) {
        mistakes.extend(games::namesakes(pipeline));
    }
    let of = |code, found: Vec<Mistake>| found.into_iter().map(move |mistake| Mistake { code, ..mistake });
    mistakes.extend(pipeline.models.keys().flat_map(|model| of(Code::Weights, update_order::mistakes(pipeline, model))));
    mistakes.extend(SPANNING.iter().flat_map(|(code, mistakes)| of(*code, mistakes(pipeline))));
    mistakes
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

    /// Code that tests for an operator's name instead of its role would miss the next operator. Exempt are tests, names
    /// that are also columns, a phase or an interpreter, and keys (text before a colon).
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
            .filter(|name| row::find(name).is_none() && !["reflect", "python"].contains(name))
            .map(|name| format!("\"{name}\""))
            .collect();
        assert!(names.len() > 4 && files.len() > 50);
        let mut offences = Vec::new();
        for path in files {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                let asks = |name: &String| line.match_indices(name.as_str()).any(|(at, _)| !line[at + name.len()..].starts_with(':'));
                offences.extend(names.iter().filter(|name| asks(name)).map(|name| format!("{}: {name}", path.display())));
            }
        }
        assert!(offences.is_empty(), "{offences:#?}");
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
